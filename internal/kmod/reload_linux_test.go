// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// loadPrograms loads n BPF programs, which the kernel JITs and lists.
func loadPrograms(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, rlimit.RemoveMemlock())
	for _, name := range []string{"bpf_jit_enable", "bpf_jit_kallsyms"} {
		require.NoError(t, os.WriteFile("/proc/sys/net/core/"+name, []byte("1"), 0))
	}
	listed := func() int { return bytes.Count(readFile(t, "/proc/kallsyms"), []byte("\t[bpf]\n")) }
	before := listed()
	t.Cleanup(func() { // runs after the cleanups below
		eventually(t, "the programs are unloaded", func() bool { return listed() <= before })
	})
	for range n {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.SocketFilter, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
	}
	require.GreaterOrEqual(t, listed(), n)
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// readEverything makes all tables from one reading of all that the kernel lists. Without following modules,
// a change would take at least that.
func readEverything(t *testing.T) {
	t.Helper()
	list := readFile(t, "/proc/kallsyms")
	_, err := kallsyms.ParseCore(bytes.NewReader(list), runtime.GOARCH, "", "")
	require.NoError(t, err)
	r := newReader(NewSource("/proc", "/sys", 0, timeline.Limits{}))
	modules, err := r.source.roots.readList()
	require.NoError(t, err)
	scan := r.beginScan()
	withoutSymbols, ok := r.applyScan(scan, modules, r.readLoads(scan, modules))
	require.True(t, ok)
	require.NoError(t, newParser(modules, withoutSymbols).parse(bytes.NewReader(list)))
	scanner := kallsyms.NewScanner(bytes.NewReader(list))
	err = scanner.SkipToModules()
	for line := (kallsyms.Line{}); err == nil; {
		err = scanner.Scan(&line)
	}
	require.ErrorIs(t, err, io.EOF)
}

// TestReload loads one module, with a hundred modules and a few hundred BPF programs loaded. It prints the
// ratio of two CPU times: to read that module, and to read everything again.
func TestReload(t *testing.T) {
	kerneltest.NeedModules(t)
	const name = "macvlan"
	loadMany(t)
	loadPrograms(t, 300)
	s := NewSource("/proc", "/sys", 0, timeline.Limits{})
	require.True(t, s.state.feed.open(t.Context(), func() {}, func(connection, error) {}))
	defer s.stop()
	f := newStepper(t, s)
	measure := func(f func()) time.Duration {
		start := cpuTime(t)
		f()
		return cpuTime(t) - start
	}
	var one, whole times
	for range 3 {
		_ = kerneltest.UnloadModule(name)
		f.scan()
		require.NoError(t, kerneltest.LoadModule(name))
		one = append(one, measure(f.scan))
		require.Positive(t, find(f.last.Table, name).Len())
		whole = append(whole, measure(func() { readEverything(t) }))
	}
	slices.Sort(one)
	slices.Sort(whole)
	kerneltest.Figure("module_reload_vs_full %.3f (CPU time: one module %s, everything %s)",
		float64(one[len(one)/2])/float64(whole[len(whole)/2]), one.median(), whole.median())
}
