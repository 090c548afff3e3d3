// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// jitedLine is the source line at which the kernel says that the code at an address begins.
type jitedLine struct {
	addr uint64
	symtab.Position
}

// jitedLines returns the kernel's lines of each function of a program, in the kernel's order. It judges the
// code under test, and shares nothing with it.
func jitedLines(t *testing.T, p *ebpf.Program) (starts []uint64, lens []uint32, lines [][]jitedLine) {
	t.Helper()
	info, err := p.Info()
	require.NoError(t, err)
	ksyms, _ := info.JitedKsymAddrs()
	lens, _ = info.JitedFuncLens()
	addrs, _ := info.JitedLineInfos()
	infos, err := info.LineInfos()
	require.NoError(t, err)
	require.Len(t, infos, len(addrs))
	slices.SortFunc(infos, func(a, b btf.LineOffset) int { return int(a.Offset) - int(b.Offset) })
	for _, start := range ksyms {
		starts = append(starts, uint64(start))
	}
	for i, addr := range addrs {
		if slices.Contains(starts, addr) { // a function begins
			lines = append(lines, nil)
		}
		l := infos[i].Line
		function := &lines[len(lines)-1]
		*function = append(*function, jitedLine{addr, symtab.Position{
			File: l.FileName(), Line: l.LineNumber(), Column: l.LineColumn(),
		}})
	}
	require.Len(t, lines, len(starts), "each function has lines")
	return starts, lens, lines
}

// TestSourceLines compares the line of every byte with the kernel's information, for a program loaded before
// the source started and for one loaded later.
func TestSourceLines(t *testing.T) {
	kerneltest.NeedBPF(t)
	spec := kerneltest.HotProgram(t)
	before := kerneltest.LoadBPF(t, spec)
	latest := run(t, newSource(everything))
	after := kerneltest.LoadBPF(t, spec)
	for name, p := range map[string]*ebpf.Program{"before": before, "after": after} {
		t.Run(name, func(t *testing.T) {
			starts, lens, want := jitedLines(t, p)
			table := eventually(t, latest, "lines are known", func(table *timeline.Table) bool {
				hit, ok := at(table, starts[0], timeline.Present)
				return ok && hit.Image.Lines != nil
			})
			files := map[string]bool{}
			for i, start := range starts {
				compareLines(t, table, start, start+uint64(lens[i]), want[i])
				for _, l := range want[i] {
					files[l.File[strings.LastIndexByte(l.File, '/')+1:]] = true
				}
			}
			assert.Equal(t, map[string]bool{"hot.c": true, "hot.h": true}, files, "the program has lines of two files")
		})
	}
}

func compareLines(t *testing.T, table *timeline.Table, start, end uint64, want []jitedLine) {
	t.Helper()
	next := 0
	for addr := start; addr < end; addr++ {
		for next < len(want) && want[next].addr <= addr {
			next++
		}
		hit, ok := at(table, addr, timeline.Present)
		require.True(t, ok)
		i, ok := hit.Image.Lines.Find(uint32(addr - start))
		require.True(t, ok, "%#x", addr)
		require.Equal(t, want[next-1].Position, hit.Image.Lines.Position(i), "%#x", addr)
	}
	require.Equal(t, len(want), next, "all records are of this function")
}

// TestWithoutSourceLines verifies that lines are not queried when they are not wanted.
func TestWithoutSourceLines(t *testing.T) {
	kerneltest.NeedBPF(t)
	opts := everything
	opts.SourceLines = false
	latest := run(t, newSource(opts))
	kerneltest.LoadBPF(t, kerneltest.HotProgram(t))
	table := eventually(t, latest, "the program is known", func(table *timeline.Table) bool {
		functions := bpfFunctions(table)
		return len(functions) > 0 && functions[0].Program != nil && functions[0].Program.Type != ""
	})
	for _, f := range bpfFunctions(table) {
		assert.Nil(t, f.Lines)
	}
}

// bpfFunctions returns the loaded functions of BPF programs.
func bpfFunctions(table *timeline.Table) []*timeline.Image {
	return slices.DeleteFunc(table.Loaded(), func(f *timeline.Image) bool { return f.Origin != timeline.OriginBPF })
}
