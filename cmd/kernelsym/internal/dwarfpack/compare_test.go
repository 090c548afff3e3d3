// SPDX-License-Identifier: Apache-2.0

package dwarfpack_test

import (
	"cmp"
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// differences counts the differences between a pack and a judge.
type differences struct {
	frames  int // differing in depth, in the name of an inner function, or in a line
	names   map[string]int
	aliases map[string][]string // of symbols
	shown   []string
	asked   int
	known   int // of these, addresses in a function
}

func (d *differences) add(format string, args ...any) {
	if d.frames++; d.frames <= 20 {
		d.shown = append(d.shown, fmt.Sprintf(format, args...))
	}
}

// report prints the figures and fails the test if there are differences.
func (d *differences) report(t *testing.T, judge string) {
	t.Helper()
	// This is the format of kerneltest, which is not used here because packages that use it are
	// tested in virtual machines.
	fmt.Println("bench pack_chain_differences", d.frames)
	t.Logf("%s: %d addresses asked, %d of them in functions; outermost names that no rule explains: %v",
		judge, d.asked, d.known, d.names)
	assert.Zero(t, d.frames, strings.Join(d.shown, "\n"))
	assert.Empty(t, d.names, "outermost names")
	assert.Greater(t, d.known, d.asked/10)
}

// frame is a frame of a judge. Its file is empty or "??" if the judge does not have it.
type frame struct {
	function, file string
	line           uint32
	inDWARF        bool // the judge takes the name from the debug information
}

// compare compares the pack's frames at an address with the judge's, innermost first.
func (d *differences) compare(where string, got []pack.Frame, want []frame, files bool) {
	d.asked++
	inFunction := len(got) > 0 && got[len(got)-1].Function != ""
	if !inFunction { // padding, assembler: the judge has the symbol's name
		var line uint32
		if len(got) > 0 {
			line = got[0].Line
		}
		if len(got) > 1 || len(want) != 1 || want[0].inDWARF || files && want[0].line != 0 && want[0].line != line {
			d.add("%s: %v instead of %v", where, got, want)
		}
		return
	}
	d.known++
	if len(got) != len(want) {
		d.add("%s: %v instead of %v", where, got, want)
		return
	}
	for i, g := range got {
		w := want[i]
		outermost := i == len(got)-1
		switch {
		case g.Line != w.line, !outermost && g.Function != w.function, files && !sameFile(g.File, w.file):
			d.add("%s: frame %d of %v instead of %v", where, i, got, want)
			return
		case outermost && !d.agree(w.function, g.Function):
			d.names[g.Function+" is "+w.function]++
		}
	}
}

// overridden are symbols of C functions whose name a function in assembler code also has
// (lib/crc32.c, arch/arm64/lib/crc32.S).
var overridden = map[string]string{"crc32_le_base": "crc32_le", "__crc32c_le_base": "__crc32c_le", "crc32_be_base": "crc32_be"}

// agree reports whether the outermost function matches the symbol that the judge, which uses the
// symbol table, has for an address. It matches by its name, by the name of another symbol at the
// same address, or by the name of the function in which the symbol is a label.
func (d *differences) agree(symbol, outermost string) bool {
	for _, alias := range append(d.aliases[symbol], symbol) {
		// objcopy puts these before the symbols of arm64's code for early boot, which is
		// init text (arch/arm64/kernel/pi/Makefile, drivers/firmware/efi/libstub/Makefile).
		alias = strings.TrimPrefix(strings.TrimPrefix(alias, "__efistub_"), "__pi_")
		if pack.Agree(alias, outermost) || overridden[alias] == outermost {
			return true
		}
	}
	return false
}

// aliases returns, for each code symbol, the names of the symbols at its address, and of the
// functions that contain it.
func aliases(t *testing.T, name string) map[string][]string {
	t.Helper()
	f, err := kelf.Open(name)
	require.NoError(t, err)
	defer f.Close()
	table, err := f.SymbolTable()
	require.NoError(t, err)
	type symbol struct {
		addr uint32
		end  uint32 // of a function, else addr
		name string
	}
	var symbols []symbol
	for i := range table.Len() {
		s := table.At(i)
		if addr, ok := f.Address(&s); ok && len(s.Name) > 0 {
			end := addr
			if s.Type == elf.STT_FUNC {
				end += uint32(s.Size)
			}
			symbols = append(symbols, symbol{addr, end, string(s.Name)})
		}
	}
	slices.SortFunc(symbols, func(a, b symbol) int { return cmp.Compare(a.addr, b.addr) })
	of := map[string][]string{}
	const near = 100 // symbols between a function's and a label in it
	for i, s := range symbols {
		for _, other := range symbols[max(0, i-near):min(len(symbols), i+near)] {
			if other.addr == s.addr || other.addr < s.addr && s.addr < other.end {
				of[s.name] = append(of[s.name], other.name)
			}
		}
	}
	return of
}

// sameFile reports whether a path from the top of the kernel tree is the file that a judge gives,
// which begins with the build directory. If there is no line, llvm-symbolizer gives a name without
// a directory, from the symbol table.
func sameFile(file, judge string) bool {
	if file == "" {
		return !strings.Contains(judge, "/")
	}
	judge = path.Clean(judge)
	return file == judge || strings.HasSuffix(judge, "/"+file)
}
