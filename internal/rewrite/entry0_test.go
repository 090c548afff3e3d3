// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// merged returns messages as MergeTo joins them in an empty one: with another entry 0 than the
// zero value (go.opentelemetry.io/collector/pdata/pprofile v0.164.0, profiles_merge.go, and
// switchDictionary in location.go: an index of 0 stays 0).
func merged(t testing.TB, messages ...*rewritetest.Message) pprofile.Profiles {
	t.Helper()
	pd := pprofile.NewProfiles()
	for _, m := range messages {
		require.NoError(t, m.Profiles.MergeTo(pd))
	}
	require.Error(t, rewritetest.CheckValid(pd), "entry 0 is not the zero value")
	return pd
}

// rewriteMerged rewrites a message in which index 0 has two meanings.
func rewriteMerged(t testing.TB, opts rewrite.Options, pd pprofile.Profiles, s *timeline.Snapshot) rewrite.Counts {
	t.Helper()
	before := copied(pd)
	r := rewrite.New(opts)
	known := rewrite.Sources{Snapshot: fixed(s)}
	counts := r.Rewrite(pd, known).Counts
	once := marshal(t, pd)
	r.Rewrite(pd, known)
	require.True(t, bytes.Equal(once, marshal(t, pd)), "contract 4.5: twice is once")
	require.NoError(t, rewritetest.CheckAppended(before, pd))

	was, is := make([]pprofile.Profiles, 2), make([]pprofile.Profiles, 2)
	was[0], was[1] = rewritetest.Readings(before)
	is[0], is[1] = rewritetest.Readings(pd)
	for i := range was {
		require.NoError(t, rewritetest.CheckValid(is[i]))
		d := is[i].Dictionary()
		for k := was[i].Dictionary().AttributeTable().Len(); k < d.AttributeTable().Len(); k++ {
			unit := d.AttributeTable().At(k).UnitStrindex()
			require.Empty(t, d.StringTable().At(int(unit)), "the unit of what was appended")
		}
		came, got := rewritetest.Samples(was[i]), rewritetest.Samples(is[i])
		r.Rewrite(was[i], known)
		want := rewritetest.Samples(was[i])
		for k := range got {
			for at := range got[k].Stack {
				in, out, right := came[k].Stack[at], got[k].Stack[at], want[k].Stack[at]
				if !reflect.DeepEqual(in.Lines, out.Lines) {
					require.Equal(t, right.Lines, out.Lines, "contract 1.6: reading %d", i)
					require.Equal(t, right.Address, out.Address)
				}
				if in.Type != out.Type {
					require.Equal(t, right.Type, out.Type)
				}
			}
		}
	}
	return counts
}

// TestContract_1_6_EitherReading: all output is correct whether index 0 means none or the entry at that
// index.
func TestContract_1_6_EitherReading(t *testing.T) {
	bpf := withName(Frame{Address: offA + 1, Type: "kernel"}, "bpf_prog_x") // no mapping, an offset
	foreign := &Mapping{File: "[kernel.kallsyms]", BuildID: "0123"}
	frames := []Frame{
		bpf,
		{Address: offB, Type: "kernel", Mapping: vmlinux()},
		withName(Frame{Address: offA + 1, Type: "kernel", Mapping: vmlinux()}, "a"),
		{Address: text + offB + 1, Mapping: foreign},
		{Address: text + offB + 1, Type: "kernel"},
		{Address: text + offC},
		{Address: ext4 + 1, Mapping: &Mapping{File: "[ext4]"}},
		{Address: 0x101, Mapping: ext4Mapping()},
		{Address: offA + 1},
		{Address: offA + 1, Mapping: &Mapping{Limit: 0x100}}, // without a file name
		{Address: offA + 1, Mapping: &Mapping{File: "vmlinux"}},
		{Address: text + offA + 1, Mapping: &Mapping{File: "[guest.kernel.kallsyms]"}},
		{Address: 0x1234, Type: "native", Mapping: &Mapping{File: "app", BuildID: "ab"}},
		{Address: 0xffffffffa0000000, Mapping: &Mapping{File: "[kernel.kallsyms]"}},
		{Address: 0xffffffffa0000010, Mapping: &Mapping{Start: text, Limit: text + textSize}},
		withName(Frame{Address: text + offE, Mapping: foreign}, "named"),
	}
	r := rand.New(rand.NewPCG(1, 2))
	named, snapshot := 0, testSnapshot(t)
	for range rewritetest.Rounds(2000) {
		var messages []*rewritetest.Message
		for range 1 + r.IntN(2) {
			m := rewritetest.NewMessage()
			for range 1 + r.IntN(2) {
				m.Profile(nil, []string{"scope", ebpfScope}[r.IntN(2)])
				stack := make([]Frame, 1+r.IntN(5))
				for i := range stack {
					stack[i] = frames[r.IntN(len(frames))]
				}
				m.Sample(stack...)
			}
			messages = append(messages, m)
		}
		opts := rewrite.Options{All: r.IntN(2) == 0, Addresses: rewrite.Addresses(r.IntN(4)), Label: r.IntN(4) == 0}
		counts := rewriteMerged(t, opts, merged(t, messages...), snapshot)
		named += counts[rewrite.OutcomeResolved][timeline.OriginKernel]
	}
	assert.Greater(t, named, rewritetest.Rounds(500))
}

// TestContract_1_6_BPFFramesOfTheProfiler: they have no mapping, and must not be taken for code of the
// mapping that is now entry 0.
func TestContract_1_6_BPFFramesOfTheProfiler(t *testing.T) {
	bpf := withName(Frame{Address: offA + 1, Type: "kernel"}, "bpf_prog_x")
	pd := merged(t, rewritetest.NewMessage().Profile(nil, ebpfScope).Sample(bpf,
		withName(Frame{Address: offB, Type: "kernel", Mapping: vmlinux()}, "b")))
	rewriteMerged(t, rewrite.Options{All: true}, pd, testSnapshot(t))
	got := pd.Dictionary().LocationTable().At(0)
	assert.Equal(t, bpf.Address, got.Address())
	function := pd.Dictionary().FunctionTable().At(int(got.Lines().At(0).FunctionIndex()))
	assert.Equal(t, "bpf_prog_x", pd.Dictionary().StringTable().At(int(function.NameStrindex())))
}

// TestContract_1_6_AnotherKernelsMapping: it stops the rewrite even as entry 0.
func TestContract_1_6_AnotherKernelsMapping(t *testing.T) {
	foreign := Frame{Address: text + offB + 1, Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: "0123"}}
	pd := merged(t, rewritetest.NewMessage().Profile(nil, "").Sample(foreign))
	before := marshal(t, pd)
	assert.Equal(t, one(rewrite.OutcomeForeign, timeline.OriginKernel), rewriteMerged(t, rewrite.Options{}, pd, testSnapshot(t)))
	assert.True(t, bytes.Equal(before, marshal(t, pd)))
}

// TestContract_1_6_ValuesByIndex: a value by index is found even if its key is entry 0.
func TestContract_1_6_ValuesByIndex(t *testing.T) {
	foreign := Frame{Address: text + offB + 1, Mapping: &Mapping{File: "[kernel.kallsyms]", BuildID: "0123"}}
	pd := byIndex(t, merged(t, rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: 0x42, Type: "native"}, foreign)), 0)
	counts := rewrite.New(rewrite.Options{}).Rewrite(pd, rewrite.Sources{Snapshot: fixed(testSnapshot(t))}).Counts
	assert.Equal(t, one(rewrite.OutcomeForeign, timeline.OriginKernel), counts)
}

// TestContract_1_6_HasFilenames: the attribute is false for a frame without a file, even if the index of the
// empty string is not 0.
func TestContract_1_6_HasFilenames(t *testing.T) {
	says := map[string]any{keyHasFiles: false}
	pd := merged(t, rewritetest.NewMessage().Profile(nil, "scope").Sample(
		Frame{Address: 0x1234, Type: "native", Mapping: &Mapping{File: "app", Limit: 0x2000, Attributes: says}},
		Frame{Address: text + offB + 1, Mapping: &Mapping{File: "[kernel.kallsyms]", Start: 1 << 63, Limit: 1<<64 - 1}}))
	rewriteMerged(t, rewrite.Options{}, pd, testSnapshot(t))
	for _, reading := range readings(pd) {
		got := rewritetest.Samples(reading)[0].Stack[1]
		assert.Equal(t, withName(Frame{Address: offB + 1, Type: "kernel"}, "b").Lines, got.Lines)
		assert.Equal(t, says, got.Mapping.Attributes)
	}
}

// readings returns both readings of a message: with index 0 as none, and as entry 0.
func readings(pd pprofile.Profiles) []pprofile.Profiles {
	none, entry := rewritetest.Readings(pd)
	return []pprofile.Profiles{none, entry}
}

// TestContract_1_6_Roles: a frame that is in entry code in only one of the two readings decides nothing.
func TestContract_1_6_Roles(t *testing.T) {
	first := Frame{Address: ext4 + 0x100, Type: "kernel"}
	perf := &Mapping{File: "[kernel.kallsyms]"}
	entry := &Mapping{File: "vmlinux", BuildID: kernelID, Limit: 1 << 20}
	for name, stack := range map[string][]Frame{
		"absolute":            {{Address: 1, Type: "native", Mapping: &Mapping{File: "app"}}, {Address: entryText + 8}, first},
		"relative":            {{Address: 0x1310, Type: "kernel", Mapping: entry}, {Address: 0x1008, Type: "kernel", Mapping: entry}, first},
		"relative, by a name": {{Address: text + 0x1310, Mapping: entry}, {Address: 0x1008, Mapping: entry}, first},
		"elsewhere":           {{Address: 1, Type: "native", Mapping: &Mapping{File: "app"}}, {Address: handler + 8}, first},
		"a module's":          {{Address: 1, Type: "native", Mapping: perf}, {Address: 0x10, Mapping: &Mapping{File: "[ext4]"}}, first},
	} {
		pd := merged(t, rewritetest.NewMessage().Profile(nil, "scope").Sample(stack...))
		rewriteMerged(t, rewrite.Options{}, pd, markedSnapshot(t, marks()))
		want := ""
		if name == "elsewhere" || name == "a module's" {
			want = "ext4_read"
		}
		assert.Equal(t, want, nameIn(rewritetest.Samples(readings(pd)[0])[0].Stack[2]), name)
	}
}
