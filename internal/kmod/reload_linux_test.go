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

// loadPrograms loads BPF programs, which are JITed and listed.
func loadPrograms(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, rlimit.RemoveMemlock())
	for _, name := range []string{"bpf_jit_enable", "bpf_jit_kallsyms"} {
		require.NoError(t, os.WriteFile("/proc/sys/net/core/"+name, []byte("1"), 0))
	}
	listed := func() int { return bytes.Count(readFile(t, "/proc/kallsyms"), []byte("\t[bpf]\n")) }
	before := listed()
	t.Cleanup(func() { // after those below
		eventually(t, "they are gone", func() bool { return listed() <= before })
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

// cpuTime is the CPU time that this process took so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// readWhole makes all tables anew, of one read of everything that the kernel
// lists: what has to be done at least without following modules.
func readWhole(t *testing.T) {
	t.Helper()
	list := readFile(t, "/proc/kallsyms")
	_, err := kallsyms.ParseCore(bytes.NewReader(list), runtime.GOARCH, "", "")
	require.NoError(t, err)
	r := newReader(NewSource("/proc", "/sys", 0, timeline.Limits{}))
	modules, err := r.list()
	require.NoError(t, err)
	scan := r.begin()
	unnamed, ok := r.apply(scan, modules, r.find(scan, modules))
	require.True(t, ok)
	require.NoError(t, newParser(modules, unnamed).parse(bytes.NewReader(list)))
	scanner := kallsyms.NewScanner(bytes.NewReader(list))
	err = scanner.SkipToModules()
	for line := (kallsyms.Line{}); err == nil; {
		err = scanner.Scan(&line)
	}
	require.ErrorIs(t, err, io.EOF)
}

// TestReload prints how much CPU it takes to take over one module that was
// loaded, over what a whole reload takes, with a hundred modules and some hundred
// BPF programs.
func TestReload(t *testing.T) {
	kerneltest.NeedModules(t)
	const name = "macvlan"
	loadMany(t)
	loadPrograms(t, 300)
	s := NewSource("/proc", "/sys", 0, timeline.Limits{})
	require.True(t, s.feed.open(t.Context(), func() {}, func(events, error) {}))
	defer s.stop()
	f := &stepper{reader: newReader(s), t: t}
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
		whole = append(whole, measure(func() { readWhole(t) }))
	}
	slices.Sort(one)
	slices.Sort(whole)
	kerneltest.Figure("module_reload_vs_full %.3f (CPU time: one module %s, everything %s)",
		float64(one[len(one)/2])/float64(whole[len(whole)/2]), one.median(), whole.median())
}
