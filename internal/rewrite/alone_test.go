// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// randomSample is a sample with its resource, scope and profile.
type randomSample struct {
	id       int64
	resource map[string]any
	scope    string
	header   timeline.Interval // time of its profile
	stack    []Frame
	stamps   []int64
}

const keySample = "sample"

// messageOf returns a message of the samples, each in a profile of its own.
func messageOf(samples ...randomSample) *rewritetest.Message {
	m := rewritetest.NewMessage()
	for _, s := range samples {
		m.Profile(s.resource, s.scope)
		all := m.Profiles.ResourceProfiles()
		p := all.At(all.Len() - 1).ScopeProfiles().At(0).Profiles().At(0)
		p.SetTime(pcommon.Timestamp(unix(s.header.From)))
		p.SetDurationNano(uint64(s.header.To - s.header.From))
		m.Sample(s.stack...)
		m.LastSample().AttributeIndices().Append(m.Attribute(keySample, s.id))
		if len(s.stamps) > 0 {
			timed(m, s.stamps...)
		}
	}
	return m
}

// described returns a line for each instant of each sample, with its whole stack.
func described(m *rewritetest.Message) (lines []string) {
	d := m.Profiles.Dictionary()
	for _, rp := range m.Profiles.ResourceProfiles().All() {
		for _, s := range rp.ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
			id := d.AttributeTable().At(int(s.AttributeIndices().At(0))).Value().Int()
			stack := ""
			for _, loc := range d.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
				f := rewritetest.FrameAt(d, loc)
				mapping := f.Mapping
				f.Mapping = nil
				stack += fmt.Sprintf("%+v %+v; ", f, mapping)
			}
			stamps := s.TimestampsUnixNano().AsRaw()
			if len(stamps) == 0 {
				stamps = []uint64{0}
			}
			for _, stamp := range stamps {
				lines = append(lines, fmt.Sprintf("%d at %d: %s", id, stamp, stack))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// modulesThatComeAndGo returns modules with overlapping addresses.
func modulesThatComeAndGo(t *testing.T, base int64) *timeline.Builder {
	t.Helper()
	const start = slot + 0x10000
	modules := timeline.NewBuilder(remember)
	load := func(name, id string, start uint64, from int64) {
		modules.Load(timelinetest.NewImage(t, timelinetest.Text{
			Name: name, Origin: timeline.OriginModule, BuildID: id, Base: start, Start: start, End: start + 0x200,
			Lifetime: timeline.Since(from),
		}, []timelinetest.Symbol{
			{Offset: 0x20, Name: name + id + "_r"},
			{Offset: 0x80, Name: name + id + "_w"},
		}...))
	}
	unload := func(at int64) { modules.Unload(modules.At(start+0x100), at) }
	load("m1", "aa", start, base)
	unload(base + 60*ms)
	load("m2", "bb", start+0x40, base+63*ms)
	unload(base + 100*ms)
	load("m1", "aa", start+0x20, base+120*ms)
	modules.AddBlind(timeline.Interval{From: base + 70*ms, To: base + 80*ms})
	return modules
}

// randomHistory loads and unloads functions at a few addresses. Most of them are the same each time.
func randomHistory(r *rand.Rand) *timeline.Builder {
	functions := timeline.NewBuilder(remember)
	for place := range uint64(3) {
		at, start := nowBoot-300*ms, slot+place*0x40
		for i := 0; at < nowBoot; i++ {
			size := 0x40 - uint32(r.IntN(4)/3)*0x10
			f := loadAt(functions, fmt.Sprintf("f%d_%d", place, i), start, size, at)
			at += r.Int64N(100)*ms + 1
			if r.IntN(8) == 0 || at >= nowBoot {
				break
			}
			functions.Unload(f, at)
			if r.IntN(2) == 0 {
				at += r.Int64N(20) * ms
			}
		}
	}
	if r.IntN(2) == 0 {
		from := nowBoot - r.Int64N(300)*ms
		functions.AddBlind(timeline.Interval{From: from, To: from + r.Int64N(100)*ms})
	}
	return functions
}

// randomFrame returns a frame of a random kind.
func randomFrame(r *rand.Rand) Frame {
	const module = slot + 0x10000
	all := []Frame{
		{Address: text + offB}, {Address: text + offB + 4, Type: "kernel"}, {Address: text + offC, Type: "kernel"},
		{Address: text + offC - 1}, {Address: offC, Mapping: vmlinux(), Type: "kernel"}, {Address: text + 0x40},
		{Address: text + offE, Attributes: map[string]any{keyFolded: false}},
		{Address: module + 0x80}, {Address: module + 0xc0, Type: "kernel"}, {Address: module + 0x60},
		{Address: module + 0x20}, {Address: module + 0x10},
		{Address: 0x80, Mapping: &Mapping{File: "m1", BuildID: "aa", FileID: "x"}}, {Address: 0x80, Mapping: &Mapping{File: "m2.ko"}},
		{Address: text + offC, Lines: []Line{{Name: "UNKNOWN"}}},
		withName(Frame{Address: text + offC, Type: "kernel"}, "b"), withName(Frame{Address: text + offC, Type: "kernel"}, "other"),
		{Address: 77, Type: "native"}, {Address: odd, Mapping: &Mapping{File: "[odd_module]"}}, {Address: oddLow + 4},
	}
	if r.IntN(5) == 0 {
		return Frame{Address: slot + uint64(r.IntN(4))*0x40 + uint64(r.IntN(4))*0x10, Type: "kernel"}
	}
	return all[r.IntN(len(all))]
}

func randomSamples(r *rand.Rand) (samples []randomSample) {
	for range 1 + r.IntN(15) {
		s := randomSample{id: int64(len(samples)), scope: []string{"scope", ebpfScope}[r.IntN(2)]}
		if r.IntN(4) == 0 {
			s.resource = other
		}
		s.header.From = nowBoot - r.Int64N(250)*ms
		s.header.To = s.header.From + 1 + r.Int64N(100)*ms*r.Int64N(2)
		for range 1 + r.IntN(4) {
			s.stack = append(s.stack, randomFrame(r))
		}
		if len(samples) > 0 && r.IntN(3) == 0 {
			s.stack = samples[r.IntN(len(samples))].stack
		}
		for range r.IntN(4) {
			s.stamps = append(s.stamps, nowBoot-r.Int64N(250*1000)*1000)
		}
		samples = append(samples, s)
	}
	return samples
}

// TestTogetherAsAlone: samples of one message do not influence each other. Each instant has the same stack as
// in a message of its own.
func TestTogetherAsAlone(t *testing.T) {
	for seed := range uint64(rewritetest.Rounds(500)) {
		r := rand.New(rand.NewPCG(seed, 99))
		known := knownAt(t, randomHistory(r), modulesThatComeAndGo(t, nowBoot-200*ms))
		opts := withHistory
		opts.IsForeign = isOther
		opts.All, opts.Addresses, opts.Label = r.IntN(2) == 0, rewrite.Addresses(r.IntN(4)), r.IntN(2) == 0
		samples := randomSamples(r)
		var want []string
		for _, s := range samples {
			stamps := s.stamps
			for i := range max(1, len(stamps)) {
				if len(stamps) > 0 {
					s.stamps = stamps[i : i+1]
				}
				alone := messageOf(s)
				rewritten(t, rewrite.New(opts), alone.Profiles, known)
				want = append(want, described(alone)...)
			}
		}
		slices.Sort(want)
		m := messageOf(samples...)
		for range r.IntN(3) { // stacks that no sample has
			var unused []int32
			for range 1 + r.IntN(3) {
				unused = append(unused, m.Location(randomFrame(r)))
			}
			m.Profiles.Dictionary().StackTable().AppendEmpty().LocationIndices().FromRaw(unused)
		}
		rewriteTimed(t, opts, m, known)
		require.Equal(t, want, described(m), "seed %d, %+v", seed, opts)
	}
}
