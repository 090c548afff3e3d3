// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/btf/btftest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestFileNameThatIsNotUTF8: the kernel accepts file names of any bytes, but a message with invalid UTF-8 is
// refused.
func TestFileNameThatIsNotUTF8(t *testing.T) {
	types, err := btf.Parse(btftest.File(btftest.Type(0, uint8(btf.KindFunc), 0), "\x00/home/j\xfcrgen/prog.c\x00"))
	require.NoError(t, err)
	const start = 0xffffffffc0001000
	lines := linesOf(&bpf.Program{Lines: []bpf.Line{{Addr: start, File: 1, LineCol: 5<<10 | 1}}}, &bpf.Function{Addr: start, Len: 16}, types)
	assert.Equal(t, symtab.Position{File: "/home/j\uFFFDrgen/prog.c", Line: 5, Column: 1}, lines.Position(0))
}
