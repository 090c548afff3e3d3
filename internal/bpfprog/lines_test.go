// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/btf/btftest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestFileNameThatIsNotUTF8: the kernel accepts file names of any bytes, but a message with invalid UTF-8 is
// refused.
func TestFileNameThatIsNotUTF8(t *testing.T) {
	lines := linesFrom(t, "\x00/home/j\xfcrgen/prog.c\x00", bpf.Line{Addr: start, File: 1, LineCol: 5<<10 | 1})
	assert.Equal(t, symtab.Position{File: "/home/j\uFFFDrgen/prog.c", Line: 5, Column: 1}, lines[0].Position(0))
}

// start is where the first function of linesFrom begins. The second one begins 16 bytes before.
const start = 0xffffffffc0001000

// linesFrom returns the lines of a program of two functions, with these lines and BTF with these strings.
func linesFrom(t *testing.T, strings string, lines ...bpf.Line) []*symtab.Lines {
	t.Helper()
	p := &bpf.Program{Functions: []bpf.Function{{Addr: start, Len: 1 << 16}, {Addr: start - 16, Len: 16}}, Lines: lines}
	q := querier{programs: &fakePrograms{types: btftest.File(nil, strings)}, pace: func() {}}
	all, err := q.linesOf(p)
	require.NoError(t, err)
	return all
}

// TestLinesOfFunctions verifies that each function has its own lines, whatever their order.
func TestLinesOfFunctions(t *testing.T) {
	lines := linesFrom(t, "\x00a.c\x00b.h\x00",
		bpf.Line{Addr: start, File: 1, LineCol: 1 << 10}, bpf.Line{Addr: start - 16, File: 5, LineCol: 2 << 10},
		bpf.Line{Addr: start + 1<<16, File: 1, LineCol: 3 << 10}, bpf.Line{Addr: start + 8, File: 5, LineCol: 4 << 10})
	require.Equal(t, 2, lines[0].Len())
	require.Equal(t, 1, lines[1].Len())
	assert.Equal(t, symtab.Position{File: "a.c", Line: 1}, lines[0].Position(0))
	assert.Equal(t, symtab.Position{File: "b.h", Line: 4}, lines[0].Position(1))
	assert.Equal(t, symtab.Position{File: "b.h", Line: 2}, lines[1].Position(0))
}

// TestFileNamesWithinAString verifies that lines whose files are named by the ends of one string keep none of them: the
// kernel accepts such names, and they could take as much as the length of the string for each line.
func TestFileNamesWithinAString(t *testing.T) {
	const n = 1000
	var all []bpf.Line
	for i := range uint32(n) {
		all = append(all, bpf.Line{Addr: start, File: 5 + i, LineCol: 1 << 10})
	}
	all = append(all, bpf.Line{Addr: start + 1, File: 1, LineCol: 2 << 10})
	lines := linesFrom(t, "\x00a.c\x00"+strings.Repeat("b", n)+"\x00", all...)[0]
	assert.Equal(t, symtab.Position{Line: 1}, lines.Position(0))
	assert.Equal(t, symtab.Position{File: "a.c", Line: 2}, lines.Position(1))
}

// TestManyFiles verifies that a program keeps the names of so many files only, and goes on to use these.
func TestManyFiles(t *testing.T) {
	names, all := "\x00", []bpf.Line(nil)
	for i := range uint32(maxFiles + 1) {
		all = append(all, bpf.Line{Addr: start + uint64(i), File: uint32(len(names)), LineCol: 1 << 10})
		names += fmt.Sprintf("%d.c\x00", i)
	}
	all = append(all, bpf.Line{Addr: start + maxFiles + 1, File: 1, LineCol: 1 << 10})
	lines := linesFrom(t, names, all...)[0]
	assert.Equal(t, symtab.Position{File: fmt.Sprintf("%d.c", maxFiles-1), Line: 1}, lines.Position(maxFiles-1))
	assert.Equal(t, symtab.Position{Line: 1}, lines.Position(maxFiles))
	assert.Equal(t, symtab.Position{File: "0.c", Line: 1}, lines.Position(maxFiles+1))
}

// TestRingsAreEmptiedWhileLinesAreRead verifies that many lines do not keep records waiting.
func TestRingsAreEmptiedWhileLinesAreRead(t *testing.T) {
	p := &bpf.Program{Functions: []bpf.Function{{Addr: start, Len: 1 << 20}}}
	for i := range uint64(100 * linesPerPace) {
		p.Lines = append(p.Lines, bpf.Line{Addr: start + i, LineCol: 1 << 10})
	}
	emptied := 0
	q := querier{programs: &fakePrograms{types: btftest.File(nil, "\x00")}, pace: func() { emptied++ }}
	_, err := q.linesOf(p)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, emptied, 100)
}
