// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// read returns the weight of each stack of each sample, as a program reads it.
func read(t *testing.T, n *rewrite.Named) map[string]int64 {
	t.Helper()
	weights := make(map[string]int64)
	for p := range n.Profiles() {
		for s := range p.Samples() {
			id, ok := s.Attribute(keySample)
			require.True(t, ok)
			text := strconv.FormatInt(id.Number, 10)
			for _, f := range s.Frames {
				code := n.Code(f.Code)
				text += fmt.Sprintf("; %v %s %#x", code.Lines, code.File, code.Address)
			}
			weights[text] += s.Weight
		}
	}
	return weights
}

// TestNamedIsWhatIsWritten verifies that a program which reads the names of a message gets what it would read from the
// message after they were written.
func TestNamedIsWhatIsWritten(t *testing.T) {
	for seed := range uint64(rewritetest.Rounds(500)) {
		r := rand.New(rand.NewPCG(seed, 17))
		known := knownAt(t, randomHistory(r), modulesThatComeAndGo(t, nowBoot-200*ms))
		opts := withHistory
		opts.IsForeign = isOther
		opts.All = r.IntN(2) == 0
		opts.Addresses = []rewrite.Addresses{rewrite.RelativeAddresses, rewrite.KeepAddresses}[r.IntN(2)]
		m := messageOf(randomSamples(r)...)
		before := pprofile.NewProfiles()
		m.Profiles.CopyTo(before)

		named, err := rewrite.New(opts).Name(m.Profiles, known)
		require.NoError(t, err)
		got := read(t, named)
		require.Equal(t, before, m.Profiles, "seed %d: reading changes nothing", seed)

		rewritten(t, rewrite.New(opts), m.Profiles, known)
		written, err := rewrite.AsWritten(m.Profiles)
		require.NoError(t, err)
		require.Equal(t, read(t, written), got, "seed %d, %+v", seed, opts)
	}
}

// TestCodesOfVaryingFrames verifies that a code has the image that its frame was named from, at the time of the sample, and
// that a sample of several times has a part for each.
func TestCodesOfVaryingFrames(t *testing.T) {
	h := modulesThatComeAndGo(t, nowBoot-200*ms)
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: text + offC, Type: "kernel"}, Frame{Address: slot + 0x10000 + 0x60 + 0x40, Type: "kernel"})
	timed(m, nowBoot-190*ms, nowBoot-110*ms, nowBoot-180*ms)
	m.LastSample().Values().FromRaw([]int64{1, 20, 300})
	named, err := rewrite.New(withHistory).Name(m.Profiles, knownAt(t, h))
	require.NoError(t, err)
	got := make(map[string]int64)
	for p := range named.Profiles() {
		for s := range p.Samples() {
			require.Len(t, s.Frames, 2)
			s.Frames = s.Frames[1:] // as a reader may that does not want all
			code := named.Code(s.Frames[0].Code)
			require.NotNil(t, code.Image)
			assert.True(t, code.HasName())
			got[code.Image.Name()] += s.Weight
		}
	}
	assert.Equal(t, map[string]int64{"m1": 301, "m2": 20}, got)
}

// TestContract_1_2_PlaceholdersAreNoNames verifies that neither placeholders nor the labels of
// "unresolved: label" are names in a message as it was written. One function with a name is enough.
func TestContract_1_2_PlaceholdersAreNoNames(t *testing.T) {
	for _, tt := range []struct {
		file  string
		names []string
		want  []string
	}{
		{"vmlinux", []string{"vfs_read"}, []string{"vfs_read"}},
		{"vmlinux", []string{"[unknown]"}, []string{""}},
		{"vmlinux", []string{"UNKNOWN"}, []string{""}},
		{"vmlinux", []string{"0xffffffff81001234"}, []string{""}},
		{"vmlinux", []string{"ffffffff81001234"}, []string{""}},
		{"[kernel.kallsyms]", []string{"[kernel.kallsyms]"}, []string{""}},
		{"vmlinux", []string{"vmlinux+0x1234"}, []string{""}},
		{"nf_tables", []string{"nf_tables-0x10"}, []string{""}},
		{"vmlinux", []string{"vfs_read+0x1234"}, []string{"vfs_read+0x1234"}},
		{"vmlinux", []string{"vmlinux+0x"}, []string{"vmlinux+0x"}},
		{"", []string{"+0x1234"}, []string{"+0x1234"}},
		{"vmlinux", []string{"[unknown]", "vfs_read"}, []string{"", "vfs_read"}},
		{"vmlinux", []string{"[unknown]", "UNKNOWN"}, []string{"", ""}},
	} {
		f := Frame{Address: 0x10, Mapping: &Mapping{File: tt.file, BuildID: "ab12"}, Type: "kernel"}
		for _, name := range tt.names {
			f.Lines = append(f.Lines, Line{Name: name, System: name})
		}
		named, err := rewrite.AsWritten(rewritetest.NewMessage().Profile(nil, "scope").Sample(f).Profiles)
		require.NoError(t, err)
		code := named.Code(1)
		var got []string
		hasName := false
		for _, line := range code.Lines {
			got = append(got, line.Function)
			hasName = hasName || line.Function != ""
		}
		assert.Equal(t, tt.want, got, tt.names)
		assert.Equal(t, hasName, code.HasName(), tt.names)
		assert.Equal(t, []any{true, tt.file, uint64(0x10)}, []any{code.IsKernel, code.File, code.Address}, tt.names)
	}
}

// TestAttributesOfSamples verifies that a sample has the attributes of its resource where it has none of its own.
func TestAttributesOfSamples(t *testing.T) {
	m := rewritetest.NewMessage().Profile(map[string]any{"container.id": "of the resource", "process.pid": int64(1)}, "scope").Sample(Frame{Address: 1})
	m.LastSample().AttributeIndices().Append(m.Attribute("process.pid", int64(2)), m.Attribute("process.pid", int64(3)))
	named, err := rewrite.AsWritten(m.Profiles)
	require.NoError(t, err)
	for p := range named.Profiles() {
		for s := range p.Samples() {
			pid, _ := s.Attribute("process.pid")
			container, _ := s.Attribute("container.id")
			_, hasName := s.Attribute("thread.name")
			assert.Equal(t, []any{int64(2), "of the resource", false}, []any{pid.Number, container.Text, hasName})
			var own []string
			for key, value := range s.Attributes() {
				own = append(own, key+"="+value)
			}
			assert.Equal(t, []string{"process.pid=2", "process.pid=3"}, own)
		}
	}
}

// TestNamedRefusesInvalidMessages verifies contract 1.4 for readers.
func TestNamedRefusesInvalidMessages(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: text + offB, Type: "kernel"})
	m.LastSample().SetStackIndex(99)
	_, err := rewrite.AsWritten(m.Profiles)
	require.ErrorIs(t, err, otlp.ErrReference)
	_, err = rewrite.New(withHistory).Name(m.Profiles, knownAt(t))
	require.ErrorIs(t, err, otlp.ErrReference)
}
