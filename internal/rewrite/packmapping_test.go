// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// perfMapping returns a mapping of the core kernel whose attribute says that it has no line numbers.
func perfMapping() *Mapping {
	return &Mapping{
		File: "vmlinux", Start: text, Limit: text + textSize, Offset: 0x1000, BuildID: kernelID, FileID: vmlinux().FileID,
		Attributes: map[string]any{keyHasLines: false},
	}
}

// TestContract_4_4_MappingOfLines: locations that gain lines share a new mapping. It differs from their own
// only in attributes that have become false.
func TestContract_4_4_MappingOfLines(t *testing.T) {
	known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: testPacks(t)}
	var frames []Frame
	for i := range uint64(3) {
		frames = append(frames, Frame{
			Address: text + offLast + 1 + i, Type: "kernel", Mapping: perfMapping(), Lines: []Line{{Name: "last"}},
		})
	}
	m := rewritetest.NewMessage().Profile(nil, "").Sample(frames...)
	before := m.Profiles.Dictionary().MappingTable().Len()
	got := rewriteKnown(t, withPacksInPlace, m.Profiles, known).Profiles
	assert.Equal(t, before+1, got.Dictionary().MappingTable().Len())
	want := perfMapping()
	want.Attributes[keyHasLines] = true
	for _, f := range rewritetest.Samples(got)[0].Stack {
		assert.Equal(t, want, f.Mapping)
		assert.Equal(t, "last.c", f.Lines[0].File)
	}
}

// TestContract_4_4_MappingKept: if a copy of a mapping would lose something, the mapping and its frames stay
// as they came.
func TestContract_4_4_MappingKept(t *testing.T) {
	known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: testPacks(t)}
	upper, text1, second := perfMapping(), perfMapping(), perfMapping()
	upper.BuildID = strings.ToUpper(kernelID)
	text1.Attributes[keyHasFiles] = "no"
	for name, mapping := range map[string]*Mapping{"build id in capitals": upper, "no bool": text1, "a second build id": second} {
		t.Run(name, func(t *testing.T) {
			in := Frame{Address: text + offLast + 1, Type: "kernel", Mapping: mapping, Lines: []Line{{Name: "last"}}}
			m := rewritetest.NewMessage().Profile(nil, "").Sample(in)
			if mapping == second {
				indices := m.Profiles.Dictionary().MappingTable().At(1).AttributeIndices()
				indices.Append(m.Attribute("process.executable.build_id.gnu", ext4ID))
			}
			want := copied(m.Profiles)
			got := rewriteKnown(t, withPacksInPlace, m.Profiles, known)
			assert.Equal(t, rewritetest.Samples(want), rewritetest.Samples(got.Profiles))
			assert.Equal(t, rewrite.PackCounts{}, got.Packs, "the pack gave nothing")
		})
	}
}

// TestPackCountsOfKept: if a frame keeps its own lines, the pack does not count.
func TestPackCountsOfKept(t *testing.T) {
	known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: testPacks(t)}
	all := withPacks
	all.All = true
	for _, kept := range []Line{{Name: "last", System: "last", File: "other.c", Line: 3}, {Name: "last", System: "last", File: "last.c", Line: 70}} {
		in := Frame{Address: offLast + 1, Type: "kernel", Mapping: vmlinux(), Lines: []Line{kept}}
		got, result := linesAt(t, all, in, known)
		assert.Equal(t, []Line{kept}, got.Lines)
		assert.Equal(t, rewrite.PackCounts{}, result.Packs)
	}
	_, result := linesAt(t, all, Frame{Address: offLast + 1, Type: "kernel", Mapping: vmlinux(), Lines: []Line{{Name: "last"}}}, known)
	assert.Equal(t, 1, result.Packs[inline.GaveLines])
}

// TestContract_1_2_KeepsFile: lines with a file are not replaced by a pack's lines without one.
func TestContract_1_2_KeepsFile(t *testing.T) {
	w := pack.NewWriter(pack.Info{BuildID: kernelID, Name: pack.KernelName, Extent: pack.Range{End: textSize}})
	w.Row(offLast, w.Node(0, w.Function("last", 0, 1), 0, 0), 0, 70)
	w.Row(textSize, 0, 0, 0)
	known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: pack.NewSet([]*pack.Pack{readPack(t, w)})}
	for _, line := range []Line{{Name: "last", File: "last.c"}, {Name: "last"}} {
		got, _ := linesAt(t, withPacks, Frame{Address: offLast + 1, Type: "kernel", Mapping: vmlinux(), Lines: []Line{line}}, known)
		if line.File != "" {
			assert.Equal(t, []Line{line}, got.Lines)
		} else {
			assert.Equal(t, int64(70), got.Lines[0].Line)
		}
	}
}

// TestContract_1_4_InvalidAtGateway: all kernel frames of an invalid message count as invalid, even those
// without a pack.
func TestContract_1_4_InvalidAtGateway(t *testing.T) {
	opts := withPacks
	opts.Gateway = true
	m := rewritetest.NewMessage().Profile(nil, "").Sample(
		Frame{Address: offLast, Type: "kernel", Mapping: vmlinux()}, Frame{Address: 3, Type: "kernel", Mapping: ext4Mapping()})
	m.Profiles.Dictionary().StackTable().AppendEmpty().LocationIndices().Append(99)
	result := rewrite.New(opts).Rewrite(m.Profiles, gatewayKnown(t, ext4Pack(t)))
	var want rewrite.Counts
	want[rewrite.OutcomeInvalid][timeline.OriginKernel] = 2
	assert.Equal(t, want, result.Counts)
}

// TestContract_4_4_InlineFrames: the attribute about inlined functions stays true, both of frames that came
// without a name and of named frames that gain lines.
func TestContract_4_4_InlineFrames(t *testing.T) {
	known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: testPacks(t)}
	for _, lines := range [][]Line{nil, {{Name: "a"}}} {
		mapping := perfMapping()
		mapping.Attributes = map[string]any{keyHasInlined: false}
		in := Frame{Address: text + offA + 17, Type: "kernel", Mapping: mapping, Lines: lines}
		got, _ := linesAt(t, withPacks, in, known)
		assert.Len(t, got.Lines, 3)
		assert.Equal(t, map[string]any{keyHasInlined: true}, got.Mapping.Attributes)
		got, _ = linesAt(t, rewrite.Options{DebugInfo: true}, in, known)
		assert.Len(t, got.Lines, 1)
		assert.Equal(t, map[string]any{keyHasInlined: false}, got.Mapping.Attributes)
	}
}
