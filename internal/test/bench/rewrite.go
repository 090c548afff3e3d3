// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// options are the default options.
var options = rewrite.Options{History: 10 * time.Minute}

var errMessage = errors.New("the message was not rewritten as expected")

// large is the size of the messages of most measures.
var large = size{locations: 20_000, stacks: 5_000, depth: 40, samples: 10_000}

// rewriteBenches returns the measurements of rewriting messages. All compare with unmarshalling and
// marshalling the message; some also compare with writing the same answers when all are known.
func rewriteBenches(core *timeline.Image) []bench {
	known := sync.OnceValue(func() rewrite.Sources { return knownWithHistory(core) })
	random := func() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }
	return []bench{
		{"rewrite", func(rounds int) error {
			return benchMessage("rewrite", newMessage(random(), core, large), known(), rounds, 1)
		}},
		{"rewrite_small", func(rounds int) error {
			small := newMessage(random(), core, size{locations: 1_500, stacks: 200, depth: 40, samples: 200})
			return benchMessage("rewrite_small", small, known(), rounds, 10)
		}},
		{"rewrite_real", func(rounds int) error {
			return benchMessage("rewrite_real", newRealistic(random(), core), known(), rounds, 40)
		}},
		{"split_few", func(rounds int) error { return benchSplitFew(random(), core, known(), rounds) }},
		{"split_rewrite", func(rounds int) error {
			return benchMessage("split_rewrite", newSplit(random(), core, large), known(), rounds, 1)
		}},
		{"split4_rewrite", func(rounds int) error {
			return benchCodec("split4_rewrite", newSplit4(random(), core), known(), rounds)
		}},
		{"mixed_rewrite", func(rounds int) error {
			mixed := large
			mixed.mixed = true
			return benchCodec("mixed_rewrite", newMessage(random(), core, mixed), known(), rounds)
		}},
		{"large", func(rounds int) error { return benchLarge(random(), core, known(), min(rounds, 3)) }},
		{"lines", func(rounds int) error { return benchLines(random(), core, rounds) }},
		{"passthrough", func(rounds int) error {
			without := large
			without.noKernel = true
			return benchPassthrough("passthrough", newMessage(random(), core, without), known(), rounds)
		}},
		{"passthrough_named", func(rounds int) error {
			named := rewrite.New(options).Rewrite(newMessage(random(), core, large), known()).Profiles
			nameUnused(named)
			return benchPassthrough("passthrough_named", named, known(), rounds)
		}},
		{"hostile", func(rounds int) error { return benchHostile(core, known(), rounds) }},
	}
}

// newSplit returns a message in which a tenth of the kernel's locations have several owners.
func newSplit(r *rand.Rand, core *timeline.Image, s size) pprofile.Profiles {
	pd := newMessage(r, core, s)
	reuse(r, pd, 10)
	return pd
}

// newSplit4 returns such a message whose samples have four timestamps each.
func newSplit4(r *rand.Rand, core *timeline.Image) pprofile.Profiles {
	pd := newSplit(r, core, large)
	for _, s := range samplesOf(pd).All() {
		for range 3 {
			s.TimestampsUnixNano().Append(uint64(firstSample) + r.Uint64N(5_000_000_000))
			s.Values().Append(1)
		}
	}
	return pd
}

// codec returns the encoded message, and a task that decodes and encodes it.
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

func benchMessage(name string, pd pprofile.Profiles, known rewrite.Sources, rounds, times int) error {
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

// benchCodec measures the rewrite of a message, compared with unmarshalling and marshalling it
// only.
func benchCodec(name string, pd pprofile.Profiles, known rewrite.Sources, rounds int) error {
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

// benchLarge measures messages of 16 times the size, with 96,000 kernel frames. The one that is
// split is compared with one of normal size that is split.
func benchLarge(r *rand.Rand, core *timeline.Image, known rewrite.Sources, rounds int) error {
	const times = 16
	huge := size{locations: times * large.locations, stacks: times * large.stacks, depth: large.depth, samples: times * large.samples}
	plain, splitLarge, split := newMessage(r, core, huge), newSplit(r, core, huge), newSplit(r, core, large)
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
	small := newMessage(r, core, large)
	wire, _, err := codec(small, 1)
	if err != nil {
		return err
	}
	rewrites = append(rewrites, task{
		prepare: func() { small = unmarshal(wire) }, run: func() { rewriter.Rewrite(small, known) },
	})
	t := medians(rounds, wall, append(rewrites, codecs[0])...)
	report("rewrite_16x_vs_codec", ratio(t[0], t[4]))
	report("rewrite_16x_frame_vs_1x_frame", ratio(t[0], times*t[3]))
	report("split_rewrite_16x_vs_1x", ratio(t[1], t[2]))
	return nil
}

// benchSplitFew measures a message in which 0.2 % of the kernel frames must be split, compared with
// the same message without these.
func benchSplitFew(r *rand.Rand, core *timeline.Image, known rewrite.Sources, rounds int) error {
	few, none := newMessage(r, core, large), newMessage(r, core, large)
	reuse(r, few, 500)
	rewriter := rewrite.New(options)
	var tasks []task
	for _, pd := range []pprofile.Profiles{few, none} {
		wire, _, err := codec(pd, 1)
		if err != nil {
			return err
		}
		tasks = append(tasks, task{prepare: func() { pd = unmarshal(wire) }, run: func() { rewriter.Rewrite(pd, known) }})
	}
	t := medians(rounds, wall, tasks...)
	report("split_few_vs_rewrite", ratio(t[0], t[1]))
	return nil
}

// nameUnused names the kernel locations that no sample uses, which a rewrite leaves alone.
func nameUnused(pd pprofile.Profiles) {
	const kernel = 1 // the attribute
	for _, loc := range pd.Dictionary().LocationTable().All() {
		if loc.AttributeIndices().Len() > 0 && loc.AttributeIndices().At(0) == kernel && loc.Lines().Len() == 0 {
			loc.Lines().AppendEmpty().SetFunctionIndex(1)
		}
	}
}

// benchPassthrough measures a message that has nothing to rewrite.
func benchPassthrough(name string, pd pprofile.Profiles, known rewrite.Sources, rounds int) error {
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
