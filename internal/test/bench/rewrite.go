// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
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
			return benchMessage("rewrite", newMessage(random(), core, large), known(), rounds)
		}},
		{"rewrite_small", func(rounds int) error {
			small := newMessage(random(), core, size{locations: 1_500, stacks: 200, depth: 40, samples: 200})
			return benchSmall("rewrite_small", small, known(), rounds)
		}},
		{"rewrite_real", func(rounds int) error {
			for _, locations := range []int{151, 300, 451} {
				pd := newRealistic(random(), core, locations)
				if err := benchSmall(fmt.Sprintf("rewrite_real_%d", locations), pd, known(), rounds); err != nil {
					return err
				}
			}
			return nil
		}},
		{"rewrite_3x", func(rounds int) error {
			return benchFrames("rewrite_3x", newMessage(random(), core, large.times(3)), known(), rounds)
		}},
		{"rewrite_15x", func(rounds int) error {
			return benchFrames("rewrite_15x", newMessage(random(), core, large.times(15)), known(), min(rounds, 3))
		}},
		{"split_few", func(rounds int) error {
			few := newMessage(random(), core, large)
			reuse(random(), few, 500)
			return benchFrames("split_few", few, known(), rounds)
		}},
		{"split_rewrite", func(rounds int) error {
			return benchMessage("split_rewrite", newSplit(random(), core, large), known(), rounds)
		}},
		{"split_15x", func(rounds int) error {
			return benchFrames("split_15x", newSplit(random(), core, large.times(15)), known(), min(rounds, 3))
		}},
		{"split4_rewrite", func(rounds int) error {
			return benchCodec("split4_rewrite", newSplit4(random(), core), known(), rounds)
		}},
		{"mixed_rewrite", func(rounds int) error {
			mixed := large
			mixed.mixed = true
			return benchCodec("mixed_rewrite", newMessage(random(), core, mixed), known(), rounds)
		}},
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

// benchMessage compares the rewrite of a message with writing the same answers, all known, and with unmarshalling and
// marshalling it only.
func benchMessage(name string, pd pprofile.Profiles, known rewrite.Sources, rounds int) error {
	wire, through, err := codec(pd, 1)
	if err != nil {
		return err
	}
	work := newWork(options, known, wire, 1)
	done := copyOf(pd)
	work.rewriter.Rewrite(done, known)
	answers := answersOf(pd, done)
	check := copyOf(pd)
	answers.write(check)
	if !equal(check, done) {
		return errMessage
	}
	t := medians(rounds, thread, work.task(), task{prepare: work.unmarshal, run: func() { answers.write(work.messages[0]) }}, through)
	report(name+"_vs_floor", ratio(t[0], t[1]))
	report(name+"_vs_codec", ratio(t[0], t[2]))
	work.reportFrame(name, t[0])
	return nil
}

// benchCodec compares the rewrite of a message with unmarshalling and marshalling it only.
func benchCodec(name string, pd pprofile.Profiles, known rewrite.Sources, rounds int) error {
	wire, through, err := codec(pd, 1)
	if err != nil {
		return err
	}
	work := newWork(options, known, wire, 1)
	t := medians(rounds, thread, work.task(), through)
	report(name+"_vs_codec", ratio(t[0], t[1]))
	work.reportFrame(name, t[0])
	return nil
}

// benchSmall is benchCodec for a message so small that it is measured many times at once.
func benchSmall(name string, pd pprofile.Profiles, known rewrite.Sources, rounds int) error {
	const times = 40
	wire, through, err := codec(pd, times)
	if err != nil {
		return err
	}
	work := newWork(options, known, wire, times)
	t := medians(rounds, thread, work.task(), through)
	report(name+"_vs_codec", ratio(t[0], t[1]))
	report(name+"_us", float64(t[0].Nanoseconds())/1000/times/timesARound)
	return nil
}

// benchFrames measures the rewrite of a message.
func benchFrames(name string, pd pprofile.Profiles, known rewrite.Sources, rounds int) error {
	wire, _, err := codec(pd, 1)
	if err != nil {
		return err
	}
	work := newWork(options, known, wire, 1)
	work.reportFrame(name, medians(rounds, thread, work.task())[0])
	return nil
}

// A work is a message that is rewritten some times.
type work struct {
	rewriter *rewrite.Rewriter
	known    rewrite.Sources
	wire     []byte
	messages []pprofile.Profiles
	frames   int // kernel frames of the message
}

func newWork(opts rewrite.Options, known rewrite.Sources, wire []byte, times int) *work {
	w := &work{rewriter: rewrite.New(opts), known: known, wire: wire, messages: make([]pprofile.Profiles, times)}
	for _, origins := range w.rewriter.Rewrite(unmarshal(wire), known).Counts {
		for _, n := range origins {
			w.frames += n
		}
	}
	return w
}

func (w *work) unmarshal() {
	for i := range w.messages {
		w.messages[i] = unmarshal(w.wire)
	}
}

func (w *work) task() task {
	return task{prepare: w.unmarshal, run: func() {
		for _, pd := range w.messages {
			w.rewriter.Rewrite(pd, w.known)
		}
	}}
}

// reportFrame reports the time for one of the kernel frames.
func (w *work) reportFrame(name string, t time.Duration) {
	report(name+"_frame_ns", float64(t.Nanoseconds())/float64(len(w.messages)*timesARound*w.frames))
}

// nameUnused names the kernel locations that no sample uses, which a rewrite leaves alone, and makes their addresses
// relative as it does with those of names: an absolute one would be looked up (see contract 1.2).
func nameUnused(pd pprofile.Profiles) {
	const kernel = 1 // the attribute
	for _, loc := range pd.Dictionary().LocationTable().All() {
		if loc.AttributeIndices().Len() > 0 && loc.AttributeIndices().At(0) == kernel && loc.Lines().Len() == 0 {
			loc.Lines().AppendEmpty().SetFunctionIndex(1)
			loc.SetAddress(1)
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

	t := medians(rounds, thread,
		task{prepare: func() { pd = unmarshal(wire) }, run: func() { rewriter.Rewrite(pd, known) }},
		through,
	)
	report(name+"_vs_codec", ratio(t[0], t[1]))
	return nil
}
