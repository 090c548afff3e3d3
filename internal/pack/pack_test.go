// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
)

var testInfo = pack.Info{
	BuildID: "0123456789abcdef0123456789abcdef01234567", Name: "nf_tables", Arch: "amd64", Release: "6.12.0",
	Base: 0x40, Extent: pack.Range{End: 0x2000},
	Sections: []pack.Section{{".noinstr.text", pack.Range{End: 0x40}}, {".text", pack.Range{Start: 0x40, End: 0x2000}}},
}

// read returns the pack that a writer made.
func read(t testing.TB, w *pack.Writer) *pack.Pack {
	t.Helper()
	data, err := w.Bytes()
	require.NoError(t, err)
	p, err := pack.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return p
}

// small returns a pack with a chain of two, a line of assembler and a gap.
func small() *pack.Writer {
	w := pack.NewWriter(testInfo)
	c, h, s := w.File("net/a.c"), w.File("include/b.h"), w.File("net/c.S")
	outer, inner := w.Function("outer", c, 100), w.Function("inner", h, 7)
	code := w.Node(0, outer, 0, 0)
	inlined := w.Node(code, inner, c, 98)
	w.Row(0x40, code, c, 101)
	w.Row(0x48, inlined, h, 9)
	w.Row(0x50, inlined, c, 3)
	w.Row(0x60, 0, 0, 0)
	w.Row(0x80, 0, s, 12)
	w.Row(0x90, 0, 0, 0)
	w.Symbol(pack.Symbol{Range: pack.Range{Start: 0x40, End: 0x60}, Name: "outer.isra.0"})
	w.Symbol(pack.Symbol{Range: pack.Range{Start: 0x80, End: 0x90}, Name: "asm", Folded: true})
	return w
}

func TestFind(t *testing.T) {
	p := read(t, small())
	assert.Equal(t, &testInfo, p.Info())
	assert.True(t, p.HasLines())
	for _, test := range []struct {
		addr uint32
		want []pack.Frame
	}{
		{0x3f, nil},
		{0x40, []pack.Frame{{Function: "outer", File: "net/a.c", Line: 101}}},
		{0x47, []pack.Frame{{Function: "outer", File: "net/a.c", Line: 101}}},
		{0x48, []pack.Frame{{Function: "inner", File: "include/b.h", Line: 9}, {Function: "outer", File: "net/a.c", Line: 98}}},
		{0x5f, []pack.Frame{{Function: "inner", File: "net/a.c", Line: 3}, {Function: "outer", File: "net/a.c", Line: 98}}},
		{0x60, nil},
		{0x80, []pack.Frame{{File: "net/c.S", Line: 12}}},
		{0x90, nil},
		{1<<32 - 1, nil},
	} {
		got := p.Find(test.addr, nil)
		for i := range got {
			got[i].ID = 0
		}
		assert.Equal(t, test.want, got, "%#x", test.addr)
	}
	assert.Equal(t, []pack.Range{{0x40, 0x48}, {0x48, 0x50}, {0x50, 0x60}, {0x80, 0x90}}, slices.Collect(p.Rows()))
	assert.Equal(t, []pack.Symbol{
		{Range: pack.Range{Start: 0x40, End: 0x60}, Name: "outer.isra.0"},
		{Range: pack.Range{Start: 0x80, End: 0x90}, Name: "asm", Folded: true},
	}, slices.Collect(p.Symbols()))
}

// TestIDs verifies that frames have the same ID if, and only if, function and file are the
// same.
func TestIDs(t *testing.T) {
	p, _ := random(t, 3000)
	ids := map[uint64][2]string{}
	names := map[[2]string]bool{}
	for r := range p.Rows() {
		for _, f := range p.Find(r.Start, nil) {
			name := [2]string{f.Function, f.File}
			if had, ok := ids[f.ID]; ok {
				require.Equal(t, had, name)
			}
			ids[f.ID], names[name] = name, true
		}
	}
	assert.Greater(t, len(names), 100)
}

// random returns a pack of n rows, and the frames that it must return for the address of each.
func random(t testing.TB, n int) (*pack.Pack, map[uint32][]pack.Frame) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	w := pack.NewWriter(testInfo)
	name := func(prefix string, n int) string {
		return prefix + string(rune('a'+rng.IntN(26))) + string(rune('0'+rng.IntN(n)))
	}
	type at struct {
		node   pack.Node
		frames []pack.Frame // the innermost without its file and line
	}
	nodes := []at{{}}
	for range n / 3 {
		parent := at{}
		if rng.IntN(3) > 0 {
			if parent = nodes[rng.IntN(len(nodes))]; len(parent.frames) >= 16 {
				parent = at{}
			}
		}
		function, call := name("fn_", 10), name("dir/", 8)
		callLine := rng.Uint32N(5000)
		node := w.Node(parent.node, w.Function(function, w.File(name("dir/", 8)), rng.Uint32N(3000)), w.File(call), callLine)
		frames := []pack.Frame{{Function: function}}
		for i, f := range parent.frames {
			if i == 0 {
				f.File, f.Line = call, callLine
			}
			frames = append(frames, f)
		}
		nodes = append(nodes, at{node, frames})
	}
	want := map[uint32][]pack.Frame{}
	addr := rng.Uint32N(100)
	for range n {
		from := nodes[rng.IntN(len(nodes))]
		file, line := name("dir/", 8), rng.Uint32N(5000)
		if rng.IntN(20) == 0 {
			from, file = nodes[0], ""
		}
		w.Row(addr, from.node, w.File(file), line)
		frames := append([]pack.Frame(nil), from.frames...)
		if len(frames) == 0 && file != "" {
			frames = []pack.Frame{{}}
		}
		if len(frames) > 0 {
			frames[0].File, frames[0].Line = file, line
		}
		want[addr] = frames
		addr += 1 + rng.Uint32N(200)
	}
	w.Row(addr, 0, 0, 0)
	return read(t, w), want
}

// TestFindAll compares each row of a large pack with the written one.
func TestFindAll(t *testing.T) {
	p, want := random(t, 20_000)
	var frames []pack.Frame
	for addr, chain := range want {
		frames = p.Find(addr, frames[:0])
		require.Len(t, frames, len(chain), "%#x", addr)
		for i, f := range frames {
			f.ID = 0
			require.Equal(t, chain[i], f, "%#x", addr)
		}
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	p, want := random(t, 2_000)
	frames := make([]pack.Frame, 0, 64)
	var addrs []uint32
	for addr := range want {
		addrs = append(addrs, addr)
	}
	i := 0
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		frames = p.Find(addrs[i%len(addrs)], frames[:0])
		i++
	}))
}

// TestWriterRefuses verifies that a writer refuses everything that no reader would accept.
func TestWriterRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		write func(w *pack.Writer)
		want  error
	}{
		"row out of order":       {func(w *pack.Writer) { w.Row(8, 0, w.File("a"), 1); w.Row(8, 0, 0, 0) }, pack.ErrOrder},
		"symbol out of order":    {func(w *pack.Writer) { w.Symbol(symbol(8, 16)); w.Symbol(symbol(15, 20)) }, pack.ErrOrder},
		"no end":                 {func(w *pack.Writer) { w.Row(8, 0, w.File("a"), 1) }, pack.ErrInput},
		"function without name":  {func(w *pack.Writer) { w.Function("", w.File("a"), 1) }, pack.ErrInput},
		"empty symbol":           {func(w *pack.Writer) { w.Symbol(symbol(8, 8)) }, pack.ErrInput},
		"node without function":  {func(w *pack.Writer) { w.Node(0, 0, 0, 0) }, pack.ErrInput},
		"unknown parent":         {func(w *pack.Writer) { w.Node(5, w.Function("a", 0, 0), 0, 0) }, pack.ErrInput},
		"line beyond 31 bits":    {func(w *pack.Writer) { w.Row(8, 0, w.File("a"), 1<<31) }, pack.ErrInput},
		"name that is not UTF-8": {func(w *pack.Writer) { w.Symbol(pack.Symbol{Range: pack.Range{End: 1}, Name: "\xff"}) }, pack.ErrInput},
		"deep chain": {func(w *pack.Writer) {
			var n pack.Node
			for range 65 {
				n = w.Node(n, w.Function("a", 0, 0), 0, 0)
			}
		}, pack.ErrInput},
	} {
		t.Run(name, func(t *testing.T) {
			w := pack.NewWriter(testInfo)
			test.write(w)
			_, err := w.Bytes()
			assert.ErrorIs(t, err, test.want)
		})
	}
	for _, many := range []pack.Info{
		{BuildID: testInfo.BuildID, Name: "vmlinux", Marks: pack.Marks{Thunks: make([]pack.Range, 4097)}},
		{BuildID: testInfo.BuildID, Name: "nf_tables", Sections: make([]pack.Section, 4097)},
	} {
		_, err := pack.NewWriter(many).Bytes()
		require.ErrorIs(t, err, pack.ErrInput, many.Name)
	}
	for _, id := range []string{"", "0123456789abcde", "0123456789ABCDEF", "../../0123456789abcdef"} {
		_, err := pack.NewWriter(pack.Info{BuildID: id, Name: "vmlinux"}).Bytes()
		assert.ErrorIs(t, err, pack.ErrInput, id)
	}
}

func symbol(start, end uint32) pack.Symbol {
	return pack.Symbol{Range: pack.Range{Start: start, End: end}, Name: "s"}
}

func TestSet(t *testing.T) {
	p := read(t, small())
	s := pack.NewSet([]*pack.Pack{p})
	assert.Same(t, p, s.ByBuildID(testInfo.BuildID))
	assert.Same(t, p, s.ByFileID(buildid.FileID(testInfo.BuildID)))
	assert.Nil(t, s.ByBuildID("fedcba9876543210"))
	s = nil
	assert.Nil(t, s.ByBuildID(testInfo.BuildID))
	assert.Nil(t, s.ByFileID(""))
}
