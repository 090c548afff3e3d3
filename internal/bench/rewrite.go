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
func benchRewrite(core *symtab.Image, rounds int) error {
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
	split4 := newMessage(r, core, size{locations: 20_000, stacks: 5_000, depth: 40, samples: 10_000})
	reuse(r, split4)
	for _, s := range samplesOf(split4).All() {
		for range 3 {
			s.TimestampsUnixNano().Append(uint64(firstSample) + r.Uint64N(5_000_000_000))
			s.Values().Append(1)
		}
	}
	mixed := newMessage(r, core, size{locations: 20_000, stacks: 5_000, depth: 40, samples: 10_000, mixed: true})
	for name, pd := range map[string]pprofile.Profiles{"split4_rewrite": split4, "mixed_rewrite": mixed} {
		if err := benchCodec(name, pd, known, rounds); err != nil {
			return err
		}
	}
	if err := benchLarge(r, core, split, known, min(rounds, 3)); err != nil {
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

// benchCodec measures a message against unmarshalling and marshalling it alone.
func benchCodec(name string, pd pprofile.Profiles, known rewrite.Known, rounds int) error {
	wire, through, err := codec(pd, 1)
	if err != nil {
		return err
	}
	rewriter := rewrite.New(options)
	t := medians(rounds, wall,
		task{prepare: func() { pd = unmarshal(wire) }, run: func() { rewriter.Rewrite(pd, known) }}, through)
	report(name+"_vs_codec", ratio(t[0], t[1]))
	return nil
}

// benchLarge measures messages 16 times as large, of 96,000 kernel frames, and one that is
// split against one of which it is 16 times the size.
func benchLarge(r *rand.Rand, core *symtab.Image, split pprofile.Profiles, known rewrite.Known, rounds int) error {
	const times = 16
	large := size{locations: 20_000 * times, stacks: 5_000 * times, depth: 40, samples: 10_000 * times}
	plain, splitLarge := newMessage(r, core, large), newMessage(r, core, large)
	reuse(r, splitLarge)
	rewriter := rewrite.New(options)
	var rewrites, codecs []task
	for _, pd := range []pprofile.Profiles{plain, splitLarge, split} {
		wire, through, err := codec(pd, 1)
		if err != nil {
			return err
		}
		rewrites = append(rewrites, task{prepare: func() { pd = unmarshal(wire) }, run: func() { rewriter.Rewrite(pd, known) }})
		codecs = append(codecs, through)
	}
	t := medians(rounds, wall, append(rewrites, codecs[0])...)
	report("rewrite_16x_vs_codec", ratio(t[0], t[3]))
	report("split_rewrite_16x_vs_1x", ratio(t[1], t[2]))
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
