// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const tracing = "/sys/kernel/tracing"

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0))
}

// waitForNames waits until code with each of the names is loaded and the table equals the kernel's list.
func waitForNames(t *testing.T, latest func() published, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, latest, name, func(table *timeline.Table) bool {
			for _, is := range trampolines(table) {
				if strings.HasPrefix(is, name) {
					return true
				}
			}
			return false
		})
	}
	agree(t, latest)
}

// TestHiddenByTheSysctl has the kernel hide addresses from all users.
func TestHiddenByTheSysctl(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedBPF(t)
	const file = "/proc/sys/kernel/kptr_restrict"
	was, err := os.ReadFile(file)
	require.NoError(t, err)
	write(t, file, "2")
	t.Cleanup(func() { write(t, file, string(was)) })
	testHidden(t)
}

// TestTrampolinesHiddenBySysctls verifies that, while a sysctl hides BPF code in kallsyms, the error names it, and only
// trampolines from before the start have no names. Once it no longer does, they have.
func TestTrampolinesHiddenBySysctls(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedBPF(t)
	kerneltest.AttachFentry(t, "before", kerneltest.SyscallFunction(t, "getpgid"))
	hasTrampoline := func(table *timeline.Table) bool {
		return slices.ContainsFunc(table.Loaded(), func(m *timeline.Image) bool { return strings.HasPrefix(m.Name(), "bpf_trampoline_") })
	}
	for _, sysctl := range []struct{ name, hides, lists string }{
		{"bpf_jit_harden", "1", "0"},
		{"bpf_jit_harden", "2", "0"},
		{"bpf_jit_kallsyms", "0", "1"},
	} {
		file := "/proc/sys/net/core/" + sysctl.name
		write(t, file, sysctl.hides)
		t.Cleanup(func() { write(t, file, sysctl.lists) })
		s := newSource(everything)
		latest := run(t, s)
		require.ErrorIs(t, latest().degraded, kallsyms.ErrBPFHidden)
		require.ErrorContains(t, latest().degraded, "because the sysctl net.core."+sysctl.name+" is "+sysctl.hides)
		assert.False(t, hasTrampoline(latest().table))
		after := kerneltest.AttachFentry(t, "after", kerneltest.SyscallFunction(t, "getsid"))
		eventually(t, latest, "the new trampoline", hasTrampoline)
		require.NoError(t, after.Close())
		eventually(t, latest, "it is gone", func(table *timeline.Table) bool { return !hasTrampoline(table) })

		write(t, file, sysctl.lists)
		s.mu.Lock()
		s.state.kallsyms.read = time.Time{} // as after a minute
		s.state.wake()
		s.mu.Unlock()
		eventually(t, latest, "the old trampoline", hasTrampoline)
		require.NoError(t, latest().degraded)
	}
}

// addKprobe puts a kprobe into a function, after its entry, where ftrace would handle it. It returns a
// function that removes it.
func addKprobe(t *testing.T, function string) (remove func()) {
	t.Helper()
	events := filepath.Join(tracing, "kprobe_events")
	name := "kernelsym_" + function
	add := func(offset int) error {
		f, err := os.OpenFile(events, os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		defer f.Close()
		_, err = fmt.Fprintf(f, "p:%s %s+%d\n", name, function, offset)
		return err
	}
	const behindEntry = 5 // the call of ftrace; offsets inside of an instruction are refused
	offset := behindEntry
	for add(offset) != nil {
		offset++
		require.Less(t, offset, 100, "no place for a kprobe in %s", function)
	}
	enable := filepath.Join(tracing, "events", "kprobes", name, "enable")
	write(t, enable, "1")
	return func() {
		write(t, enable, "0")
		f, err := os.OpenFile(events, os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		defer f.Close()
		_, err = fmt.Fprintf(f, "-:%s\n", name)
		require.NoError(t, err)
	}
}

// TestKprobes compares the pages of kprobes, before a source starts and while it
// runs, not optimized and optimized.
func TestKprobes(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedBPF(t)
	const optimize = "/proc/sys/debug/kprobes-optimization"
	_, err := os.Stat(optimize)
	canOptimize := err == nil // arm64 does not
	if canOptimize {
		write(t, optimize, "0")
		t.Cleanup(func() { write(t, optimize, "1") })
	}
	t.Run("before", func(t *testing.T) {
		defer addKprobe(t, "do_sys_openat2")()
		latest := run(t, newSource(everything))
		require.NoError(t, latest().degraded)
		waitForNames(t, latest, "kprobe_insn_page")
	})
	t.Run("while it runs", func(t *testing.T) {
		latest := run(t, newSource(everything))
		remove := addKprobe(t, "do_sys_openat2")
		waitForNames(t, latest, "kprobe_insn_page")
		if canOptimize {
			write(t, optimize, "1")
			waitForNames(t, latest, "kprobe_insn_page", "kprobe_optinsn_page")
		}
		remove()
		checkPrograms(t, latest, loadAll(t, "after"))
	})
}

// TestFtrace traces in an instance of its own, for which the kernel makes a
// trampoline.
func TestFtrace(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedBPF(t)
	if runtime.GOARCH == "arm64" {
		t.Skip("arm64 has a trampoline for all that is traced, in the kernel itself: others are not tested")
	}
	trace := func(t *testing.T, name, function string) {
		dir := filepath.Join(tracing, "instances", name)
		require.NoError(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
		write(t, filepath.Join(dir, "set_ftrace_filter"), function)
		write(t, filepath.Join(dir, "current_tracer"), "function")
		t.Cleanup(func() { write(t, filepath.Join(dir, "current_tracer"), "nop") })
	}
	trace(t, "before", "do_sys_openat2")
	latest := run(t, newSource(everything))
	require.NoError(t, latest().degraded)
	waitForNames(t, latest, "ftrace_trampoline")
	had := trampolines(latest().table)
	t.Run("while it runs", func(t *testing.T) {
		trace(t, "after", "ksys_read")
		eventually(t, latest, "another trampoline", func(table *timeline.Table) bool {
			return len(trampolines(table)) > len(had)
		})
		agree(t, latest)
	})
	agree(t, latest)
}

// TestXDPDispatcher attaches programs to the loopback interface, which the kernel
// calls by a dispatcher that it makes anew for each.
func TestXDPDispatcher(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedBPF(t)
	latest := run(t, newSource(everything))
	attach := func(name string) {
		prog := kerneltest.LoadBPF(t, &ebpf.ProgramSpec{
			Name: name, Type: ebpf.XDP, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
		})
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: 1, Flags: link.XDPGenericMode})
		require.NoError(t, err)
		waitForNames(t, latest, "bpf_dispatcher_xdp")
		if name == "second" {
			fresh := run(t, newSource(everything))
			waitForNames(t, fresh, "bpf_dispatcher_xdp")
		}
		require.NoError(t, l.Close())
		agree(t, latest)
	}
	attach("first")
	attach("second")
}
