package main

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// options are the defaults.
var options = rewrite.Options{History: 10 * time.Minute}

var errMessage = errors.New("the message was not rewritten as expected")

// benchRewrite measures the rewrite of a large and a small message, against
// unmarshalling and marshalling them and against writing the same with all
// answers known.
func benchRewrite(core *symtab.Module, rounds int) error {
	known := knownWithHistory(core)
	r := rand.New(rand.NewPCG(3, 4))
	large := newMessage(r, core, size{locations: 20_000, stacks: 5_000, depth: 40, samples: 10_000})
	small := newMessage(r, core, size{locations: 1_500, stacks: 200, depth: 40, samples: 200})
	if err := benchMessage("rewrite", large, known, rounds, 1); err != nil {
		return err
	}
	if err := benchMessage("rewrite_small", small, known, rounds, 10); err != nil {
		return err
	}
	split := newMessage(r, core, size{locations: 20_000, stacks: 5_000, depth: 40, samples: 10_000})
	reuse(r, split)
	if err := benchMessage("split_rewrite", split, known, rounds, 1); err != nil {
		return err
	}
	without := newMessage(r, core, size{locations: 20_000, stacks: 5_000, depth: 40, samples: 10_000, noKernel: true})
	if err := benchPassthrough("passthrough", without, known, rounds); err != nil {
		return err
	}
	rewrite.New(options).Rewrite(large, known)
	if err := benchPassthrough("passthrough_named", large, known, rounds); err != nil {
		return err
	}
	return benchHostile(core, known, rounds)
}

// codec returns the message as it goes over the wire, and a task that takes it
// from there and puts it back.
func codec(pd pprofile.Profiles, times int) (wire []byte, t task, err error) {
	wire, err = (&pprofile.ProtoMarshaler{}).MarshalProfiles(copyOf(pd))
	if err != nil {
		return nil, task{}, err
	}
	return wire, task{run: repeat(times, func() {
		pd := unmarshal(wire)
		if _, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(pd); err != nil {
			panic(err) // it was marshalled before
		}
	})}, nil
}

func unmarshal(wire []byte) pprofile.Profiles {
	pd, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(wire)
	if err != nil {
		panic(err) // it was unmarshalled before
	}
	return pd
}

func benchMessage(name string, pd pprofile.Profiles, known rewrite.Known, rounds, times int) error {
	wire, through, err := codec(pd, times)
	if err != nil {
		return err
	}
	rewriter := rewrite.New(options)
	done := copyOf(pd)
	rewriter.Rewrite(done, known)
	answers := answersOf(pd, done)
	check := copyOf(pd)
	answers.write(check)
	if !equal(check, done) {
		return errMessage
	}

	copies := make([]pprofile.Profiles, times)
	fresh := func() {
		for i := range copies {
			copies[i] = unmarshal(wire)
		}
	}
	t := medians(rounds, wall,
		task{prepare: fresh, run: func() {
			for _, c := range copies {
				rewriter.Rewrite(c, known)
			}
		}},
		task{prepare: fresh, run: func() {
			for _, c := range copies {
				answers.write(c)
			}
		}},
		through,
	)
	if times == 1 {
		report(name+"_vs_floor", ratio(t[0], t[1]))
	}
	report(name+"_vs_codec", ratio(t[0], t[2]))
	return nil
}

// benchPassthrough measures a message in which nothing is to be done.
func benchPassthrough(name string, pd pprofile.Profiles, known rewrite.Known, rounds int) error {
	wire, through, err := codec(pd, 1)
	if err != nil {
		return err
	}
	rewriter := rewrite.New(options)
	pd = unmarshal(wire)
	rewriter.Rewrite(pd, known)
	report(name+"_allocs", testing.AllocsPerRun(10, func() { rewriter.Rewrite(pd, known) }))

	t := medians(rounds, wall,
		task{prepare: func() { pd = unmarshal(wire) }, run: func() { rewriter.Rewrite(pd, known) }},
		through,
	)
	report(name+"_vs_codec", ratio(t[0], t[1]))
	return nil
}
