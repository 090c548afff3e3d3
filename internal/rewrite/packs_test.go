// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// readPack returns the pack that a writer made.
func readPack(t testing.TB, w *pack.Writer) *pack.Pack {
	t.Helper()
	data, err := w.Bytes()
	require.NoError(t, err)
	p, err := pack.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return p
}

// withSymbols adds the symbols of an image, and returns the pack.
func withSymbols(t testing.TB, w *pack.Writer, m *timeline.Image) *pack.Pack {
	t.Helper()
	for s := range m.Symbols() {
		w.Symbol(pack.Symbol{
			Range: pack.Range{Start: uint32(s.Start - m.Start), End: uint32(s.End() - m.Start)},
			Name:  m.SymbolName(s).System, Folded: m.SymbolName(s).Folded,
		})
	}
	return readPack(t, w)
}

// corePack is the pack of the core kernel of testSnapshot:
//
//   - a: its code at a.c:11, with in2 (b.h:2), inlined into in1 (a.c:6), inlined at a.c:12,
//     from the 16th byte on;
//   - b: nothing is known of it;
//   - c: a line of assembler;
//   - core::fmt::write: itself in r.rs, with core::cell inlined;
//   - e: another function, whose name is none of e's;
//   - last: the function without what the compiler appended.
func corePack(t testing.TB) *pack.Pack {
	t.Helper()
	w := pack.NewWriter(pack.Info{
		BuildID: kernelID, Name: pack.KernelName, Arch: "amd64", Text: 0xffffffff81000000, Stext: 0xffffffff81000000,
		Extent: pack.Range{End: textSize},
	})
	function := func(name, file string) pack.Node { return w.Node(0, w.Function(name, w.File(file), 1), 0, 0) }
	a := function("a.isra.0", "a.c")
	in1 := w.Node(a, w.Function("in1", w.File("a.c"), 3), w.File("a.c"), 12)
	in2 := w.Node(in1, w.Function("in2", w.File("b.h"), 1), w.File("a.c"), 6)
	w.Row(offA, a, w.File("a.c"), 11)
	w.Row(offA+16, in2, w.File("b.h"), 2)
	w.Row(offA+32, 0, 0, 0)
	w.Row(offC, 0, w.File("c.S"), 40)
	rust := function(rustName, "r.rs")
	w.Row(offRust, w.Node(rust, w.Function("_RNvC4core4cell", w.File("cell.rs"), 1), w.File("r.rs"), 9), w.File("cell.rs"), 30)
	w.Row(offE, function("f", "f.c"), w.File("f.c"), 7)
	w.Row(offLast, function("last.constprop.0.cold", "last.c"), w.File("last.c"), 70)
	w.Row(textSize, 0, 0, 0)
	return withSymbols(t, w, testSnapshot(t).Core())
}

// ext4Pack returns the pack of the module ext4: ext4_read in read.c, ext4_write as a symbol only.
func ext4Pack(t testing.TB) *pack.Pack {
	t.Helper()
	w := pack.NewWriter(pack.Info{
		BuildID: ext4ID, Name: "ext4", Arch: "amd64", Extent: pack.Range{End: ext4Size},
	})
	w.Row(0, w.Node(0, w.Function("ext4_read", w.File("read.c"), 1), 0, 0), w.File("read.c"), 100)
	w.Row(0x80, w.Node(0, w.Function("ext4_read", w.File("read.c"), 1), 0, 0), w.File("read.c"), 101)
	w.Row(0x100, 0, 0, 0)
	image, _ := testSnapshot(t).ByBuildID(ext4ID)
	return withSymbols(t, w, image)
}

func testPacks(t testing.TB) *pack.Set {
	t.Helper()
	return pack.NewSet([]*pack.Pack{corePack(t), ext4Pack(t)})
}

// rewriteKnown rewrites a message, and checks the rules for every message.
func rewriteKnown(t testing.TB, opts rewrite.Options, pd pprofile.Profiles, known rewrite.Sources) rewrite.Result {
	t.Helper()
	before := copied(pd)
	r := rewrite.New(opts)
	result := r.Rewrite(pd, known)
	require.NoError(t, rewritetest.CheckRewritten(before, result.Profiles))
	after := marshal(t, result.Profiles)
	again := r.Rewrite(result.Profiles, known).Profiles
	require.True(t, bytes.Equal(after, marshal(t, again)), "contract 4.5: processing the output again changes nothing")
	return result
}

// linesAt rewrites a frame at an address, the leaf of the only stack.
func linesAt(t *testing.T, opts rewrite.Options, f Frame, known rewrite.Sources) (Frame, rewrite.Result) {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(f)
	result := rewriteKnown(t, opts, m.Profiles, known)
	return rewritetest.Samples(result.Profiles)[0].Stack[0], result
}

var (
	withPacks        = rewrite.Options{DebugInfo: true, Inline: true}
	withPacksInPlace = rewrite.Options{DebugInfo: true, Inline: true, Addresses: rewrite.KeepAddresses}
)

func TestContract_10_1_Lines(t *testing.T) {
	known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: testPacks(t)}
	plain := func(name, file string, line int64) []Line {
		return []Line{{Name: name, System: name, File: file, Line: line}}
	}
	chain := []Line{
		{Name: "in2", System: "in2", File: "b.h", Line: 2}, {Name: "in1", System: "in1", File: "a.c", Line: 6},
		{Name: "a", System: "a", File: "a.c", Line: 12},
	}
	rust := []Line{
		{Name: "core::cell", System: "_RNvC4core4cell", File: "cell.rs", Line: 30},
		{Name: "core::fmt::write", System: rustName, File: "r.rs", Line: 9},
	}
	for _, tt := range []struct {
		name    string
		addr    uint64
		want    []Line
		outer   []Line // with Inline false, if that is another
		result  inline.Result
		unnamed bool
	}{
		{name: "not inlined", addr: text + offA + 3, want: plain("a", "a.c", 11), result: inline.GaveLines},
		{name: "inlined twice", addr: text + offA + 16, want: chain, outer: plain("a", "a.c", 12), result: inline.GaveInlined},
		{name: "nothing known", addr: text + offB, want: plain("b", "", 0), result: inline.GaveNothing},
		{name: "assembler", addr: text + offC + 8, want: plain("c", "c.S", 40), result: inline.GaveLines},
		{name: "no symbol, but a row", addr: text + 0x100, unnamed: true},
		{name: "Rust", addr: text + offRust, want: rust, outer: rust[1:], result: inline.GaveInlined},
		{name: "another function", addr: text + offE, want: plain("e", "", 0), result: inline.WrongFunction},
		{name: "what compilers append", addr: text + offLast, want: plain("last", "last.c", 70), result: inline.GaveLines},
		{name: "module", addr: ext4 + 0x80, want: plain("ext4_read", "read.c", 101), result: inline.GaveLines},
		{name: "module without lines", addr: ext4 + 0x100, want: plain("ext4_write", "", 0), result: inline.GaveNothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := Frame{Address: tt.addr, Type: "kernel"}
			got, result := linesAt(t, withPacks, in, known)
			assert.Equal(t, tt.want, got.Lines)
			var counts rewrite.PackCounts
			if !tt.unnamed {
				counts[tt.result]++
			}
			assert.Equal(t, counts, result.Packs)
			folded := Frame{Address: tt.addr, Type: "kernel", Attributes: map[string]any{keyFolded: false}}
			folded, _ = linesAt(t, withPacks, folded, known) // which takes the way of most modules
			assert.Equal(t, tt.want, folded.Lines)

			got, result = linesAt(t, rewrite.Options{DebugInfo: true}, in, known)
			if tt.outer == nil {
				tt.outer = tt.want
			} else {
				counts[inline.GaveLines], counts[inline.GaveInlined] = counts[inline.GaveInlined], 0
			}
			assert.Equal(t, tt.outer, got.Lines)
			assert.Equal(t, counts, result.Packs)
		})
	}
}

// TestContract_10_1_Callers has a location that is exact in one stack and a caller in another. It is split
// only if the answers differ.
func TestContract_10_1_Callers(t *testing.T) {
	known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: testPacks(t)}
	for _, tt := range []struct {
		offset    uint64
		leaf      string // of the leaf's innermost function
		caller    string
		locations int // with addresses kept: relative ones are different anyway
	}{
		{offA + 16, "in2", "a", 2},
		{offA + 17, "in2", "in2", 1},
		{offA + 15, "a", "a", 1},
	} {
		f := Frame{Address: text + tt.offset, Type: "kernel"}
		m := rewritetest.NewMessage().Profile(nil, "").Sample(f).Sample(Frame{Address: 0x42, Type: "native"}, f)
		opts := withPacks
		opts.Addresses = rewrite.KeepAddresses
		result := rewriteKnown(t, opts, m.Profiles, known)
		samples := rewritetest.Samples(result.Profiles)
		assert.Equal(t, tt.leaf, nameIn(samples[0].Stack[0]))
		assert.Equal(t, tt.caller, nameIn(samples[1].Stack[1]))
		assert.Equal(t, 2+tt.locations, result.Profiles.Dictionary().LocationTable().Len())
	}
}

// TestBuildsInUse: each build is reported once, whether it has a pack or not, and none if packs are not used.
func TestBuildsInUse(t *testing.T) {
	message := func() *rewritetest.Message {
		return rewritetest.NewMessage().Profile(nil, "").Sample(
			Frame{Address: text + offA, Type: "kernel"}, Frame{Address: ext4 + 3, Type: "kernel"},
			Frame{Address: odd + 3, Type: "kernel"}, Frame{Address: ext4 + 0x103, Type: "kernel"},
			Frame{Address: text + offLast + 3, Type: "kernel"},
		)
	}
	for _, packs := range []*pack.Set{nil, pack.NewSet(nil), testPacks(t)} {
		known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: packs}
		result := rewrite.New(withPacks).Rewrite(message().Profiles, known)
		assert.ElementsMatch(t, []string{kernelID, ext4ID}, result.BuildIDs)
		assert.Empty(t, result.FileIDs)
		result = rewrite.New(rewrite.Options{}).Rewrite(message().Profiles, known)
		assert.Empty(t, result.BuildIDs)
		assert.Equal(t, rewrite.PackCounts{}, result.Packs)
		assert.Equal(t, "ext4_write", nameIn(rewritetest.Samples(result.Profiles)[0].Stack[3]))
	}
}

// TestContract_1_2_GainsLines has frames that came with a name.
func TestContract_1_2_GainsLines(t *testing.T) {
	known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: testPacks(t)}
	last := Line{Name: "last", System: "last", File: "last.c", Line: 70}
	perf := &Mapping{File: "[kernel.kallsyms]", Start: text, Limit: text + textSize, FileID: vmlinux().FileID}
	untrue := *perf
	untrue.Attributes = map[string]any{keyHasFunctions: true, keyHasLines: false, keyHasFiles: false}
	isTrue := untrue
	isTrue.Attributes = map[string]any{keyHasFunctions: true, keyHasLines: true, keyHasFiles: true}
	noID := untrue
	noID.FileID = ""
	for _, tt := range []struct {
		name    string
		in      Line
		mapping *Mapping
		want    Line
		moved   *Mapping
		all     Line // with rewrite: all, if that is another
	}{
		{name: "ours", in: Line{Name: "last", System: "last"}, want: last},
		{name: "without system name", in: Line{Name: "last"}, want: last},
		{name: "with a file", in: Line{Name: "last", File: "somewhere.c"}, want: last},
		{name: "with a start line", in: Line{Name: "last", Start: 61}, want: Line{Name: "last", System: "last", Start: 61, File: "last.c", Line: 70}},
		{name: "with a number", in: Line{Name: "last", Line: 1}, want: Line{Name: "last", Line: 1}},
		{name: "another", in: Line{Name: "first"}, want: Line{Name: "first"}, all: last},
		{name: "mapping kept", in: Line{Name: "last"}, want: last, mapping: perf, moved: perf},
		{name: "flags stay true", in: Line{Name: "last"}, want: last, mapping: &untrue, moved: &isTrue},
		{name: "flags that cannot stay true", in: Line{Name: "last"}, want: Line{Name: "last"}, mapping: &noID, moved: &noID, all: last},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := Frame{Address: text + offLast + 1, Mapping: tt.mapping, Lines: []Line{tt.in}}
			got, result := linesAt(t, withPacksInPlace, in, known)
			assert.Equal(t, Frame{Address: in.Address, Mapping: tt.moved, Lines: []Line{tt.want}}, got, "nothing else changes")
			assert.Equal(t, one(rewrite.OutcomeNamed, timeline.OriginKernel), result.Counts)
			assert.Equal(t, []string{kernelID}, append(result.BuildIDs, kernelID)[:1])

			all := withPacks
			all.All = true
			got, _ = linesAt(t, all, in, known)
			if tt.all == (Line{}) {
				tt.all = tt.want
			}
			assert.Equal(t, []Line{tt.all}, got.Lines)
			assert.Equal(t, uint64(offLast+1), got.Address)
		})
	}
}

// TestPacksAreNotKept: a rewriter's caches do not keep packs in memory.
func TestPacksAreNotKept(t *testing.T) {
	r := rewrite.New(withPacks)
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: text + offA + 17, Type: "kernel"})
	rewriteOnce := func() weak.Pointer[pack.Pack] {
		p := corePack(t)
		result := r.Rewrite(m.Profiles, rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: pack.NewSet([]*pack.Pack{p})})
		require.Equal(t, 1, result.Packs[inline.GaveInlined])
		return weak.Make(p)
	}
	p := rewriteOnce()
	require.Eventually(t, func() bool {
		runtime.GC()
		return p.Value() == nil
	}, time.Minute, time.Millisecond)
	assert.Equal(t, "in2", nameIn(rewritetest.Samples(m.Profiles)[0].Stack[0]))
}

// TestPacksChange: new and replaced packs are used from the next message on.
func TestPacksChange(t *testing.T) {
	r := rewrite.New(withPacks)
	lineOf := func(packs *pack.Set) int64 {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: text + offLast, Type: "kernel"})
		known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: packs}
		return rewritetest.Samples(r.Rewrite(m.Profiles, known).Profiles)[0].Stack[0].Lines[0].Line
	}
	packs := testPacks(t)
	w := pack.NewWriter(pack.Info{BuildID: kernelID, Name: pack.KernelName, Extent: pack.Range{End: textSize}})
	w.Row(offLast, 0, w.File("last.c"), 71)
	w.Row(textSize, 0, 0, 0)
	other := pack.NewSet([]*pack.Pack{readPack(t, w)})
	assert.Equal(t, []int64{0, 70, 70, 71, 70, 0},
		[]int64{lineOf(nil), lineOf(packs), lineOf(packs), lineOf(other), lineOf(packs), lineOf(nil)})
}

// TestContract_10_1_AliasesCount verifies that a frame that keeps an alias of its name counts as one to which a pack gave
// nothing, and not at all if the pack has lines that the frame did not get.
func TestContract_10_1_AliasesCount(t *testing.T) {
	lines := pack.NewWriter(pack.Info{
		BuildID: kernelID, Name: pack.KernelName, Arch: "amd64", Text: text, Stext: text, Extent: pack.Range{End: textSize},
	})
	lines.Row(offE, lines.Node(0, lines.Function("e", lines.File("e.c"), 1), 0, 0), lines.File("e.c"), 7)
	lines.Row(textSize, 0, 0, 0)
	for _, tt := range []struct {
		set  *pack.Set
		want int
	}{{pack.NewSet(nil), 1}, {pack.NewSet([]*pack.Pack{withSymbols(t, lines, testSnapshot(t).Core())}), 0}} {
		m := rewritetest.NewMessage().Profile(nil, "scope").Sample(withName(Frame{Address: text + offE + 4, Type: "kernel"}, "e_alias"))
		result := rewrite.New(withPacks).Rewrite(m.Profiles, rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Packs: tt.set})
		want := rewrite.PackCounts{}
		want[inline.GaveNothing] = tt.want
		assert.Equal(t, want, result.Packs)
		assert.Equal(t, "e_alias", nameIn(rewritetest.Samples(result.Profiles)[0].Stack[0]))
	}
}
