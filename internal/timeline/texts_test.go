// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// text is the address where the core kernel begins.
const text = 0xffff800081000000

// rounds returns how many inputs a test tries: n, or a tenth of that with -short, which is meant for the race
// detector.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// line is a line of a kernel's symbol list.
type line struct {
	addr uint64
	typ  byte
	name string
}

// newText returns an image whose text has the symbols on the lines.
func newText(t testing.TB, origin Origin, name string, info symtab.TextInfo, lifetime Interval, lines ...line) *Image {
	t.Helper()
	var s symtab.Sorter
	for _, l := range lines {
		s.Add(l.addr, l.typ, []byte(l.name))
	}
	built, err := s.Build(info)
	require.NoError(t, err)
	return NewImage(origin, name, built, lifetime)
}

// newCore returns a core kernel with a function for every 16 bytes.
func newCore(t testing.TB, size uint64) *Image {
	t.Helper()
	var lines []line
	for at := uint64(0); at < size; at += 16 {
		lines = append(lines, line{text + at, 'T', "f"})
	}
	return newText(t, OriginKernel, KernelName, symtab.TextInfo{Base: text, Start: text, End: text + size}, Always, lines...)
}
