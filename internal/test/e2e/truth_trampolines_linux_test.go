// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// needTrampolines skips the test if it cannot recognize trampolines.
func needTrampolines(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("where trampolines are called from is known on x86 only: their names are not tested")
	}
}

// traced returns the frames of a sample that lie in the trampoline of a function: they are called
// from its patch site, and lie in no program. Linux 7 jumps from there to trampolines that call the
// function themselves.
func (x text) traced(sm sample, function, kind string, p program, parts []kerneltest.PartSymbol) (all []known) {
	at := func(addr uint64) (isOf, isPatch bool) {
		names, start := x.Below(addr)
		return slices.Contains(names, function), isPatchSite(addr, start)
	}
	for i := range len(sm.stack) - 1 {
		addr := sm.stack[i]
		role := ", caller"
		switch isOf, isPatch := at(sm.stack[i+1]); {
		case x.InText(addr) || p.has(addr):
			continue
		case isOf && isPatch && i == 0:
			role = ", leaf"
		case isOf && isPatch:
		case i > 0:
			if called, _ := at(sm.stack[i-1]); !called && !p.has(sm.stack[i-1]) {
				continue
			}
			role = jumpedTo
		default:
			continue
		}
		part := nearest(parts, addr-1)
		if !strings.HasPrefix(part.Name, "bpf_trampoline_") || addr-part.Addr >= 4096 {
			continue // not built by BPF
		}
		all = append(all, known{frame: i, kind: kind + role, name: part.Name})
	}
	return all
}

const jumpedTo = ", caller, jumped to"

// A tracer is a way to have a program called by a trampoline.
type tracer struct {
	name     string
	typ      ebpf.ProgramType
	attach   ebpf.AttachType
	function string // of the kernel
	target   string // what the program names as its target
	run      func()
}

func tracers(t *testing.T) []tracer {
	pid := os.Getpid()
	pgid, sid := kerneltest.SyscallFunction(t, "getpgid"), kerneltest.SyscallFunction(t, "getsid")
	return []tracer{
		{"fentry", ebpf.Tracing, ebpf.AttachTraceFEntry, pgid, pgid, func() { _, _ = unix.Getpgid(pid) }},
		{"fexit", ebpf.Tracing, ebpf.AttachTraceFExit, sid, sid, func() { _, _ = unix.Getsid(pid) }},
		{"LSM", ebpf.LSM, ebpf.AttachLSMMac, "bpf_lsm_task_getscheduler", "task_getscheduler", func() {
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(pid), 0, 0)
		}},
	}
}

// start attaches a program until the test ends.
func (tc tracer) start(t *testing.T) program {
	t.Helper()
	prog, err := kerneltest.NewBPF(&ebpf.ProgramSpec{
		Name: "truth_" + tc.name, Type: tc.typ, AttachType: tc.attach, AttachTo: tc.target, License: "GPL",
		Instructions: spinning(1, 0),
	})
	kerneltest.NeedTracing(t, err)
	require.NoError(t, err)
	t.Cleanup(func() { _ = prog.Close() })
	p := describe(t, prog)
	var l link.Link
	if tc.typ == ebpf.LSM {
		l, err = link.AttachLSM(link.LSMOptions{Program: p.Program})
	} else {
		l, err = link.AttachTracing(link.TracingOptions{Program: p.Program})
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return p
}

// needBPFModule skips the test where BPF is not among the kernel's security modules.
func needBPFModule(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("securityfs", dir, "securityfs", 0, ""); errors.Is(err, unix.ENODEV) {
		t.Skip("the kernel has no security modules: their programs are not tested")
	} else {
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	list, err := os.ReadFile(filepath.Join(dir, "lsm"))
	require.NoError(t, err)
	if !slices.Contains(strings.Split(strings.TrimSpace(string(list)), ","), "bpf") {
		t.Skipf("the kernel's security modules are %s, without bpf: its programs are not tested", list)
	}
}

// testTruthTrampolines verifies the names of trampolines that call programs. Where the kernel calls
// trampolines, at least 95 % of their frames that are callers must have names.
func testTruthTrampolines(t *testing.T, tr *truth) {
	needTrampolines(t)
	x := text{kerneltest.ReadSymbols(t)}
	for _, tc := range tracers(t) {
		t.Run(tc.name, func(t *testing.T) {
			if tc.typ == ebpf.LSM {
				needBPFModule(t)
			}
			s := tr.begin(t)
			p := tc.start(t)
			parts := kerneltest.ReadParts(t)
			rows := s.collect(kerneltest.Sized(1000, 60), func() {
				for range kerneltest.Sized(1000, 100) {
					tc.run()
				}
			}, func(sm sample) []known {
				return append(x.traced(sm, tc.function, tc.name, p, parts), p.in(sm, tc.name+", program")...)
			})
			tr.send(rows)
			tr.report()
			tr.allNamed(tc.name + ", program")
			v := tr.of(tc.name + ", caller")
			switch jumped := tr.of(tc.name + jumpedTo); {
			case tr.disturbed != "":
			case v.right+v.unnamed == 0 && jumped.right+jumped.unnamed > 0 && !kerneltest.OlderThan(t, 6, 13):
				// The kernel jumps, so nothing decides the name. The report has checked that no
				// name is wrong.
			default:
				assert.Positive(t, v.right)
				assert.GreaterOrEqual(t, 100*v.right, 95*(v.right+v.unnamed))
			}
		})
	}
}

// testTruthTrampolinesUnseen verifies that trampolines get no wrong name whose records were lost, among trampolines that
// are known, before the collector has listed them.
func testTruthTrampolinesUnseen(t *testing.T, tr *truth) {
	needTrampolines(t)
	x, s := text{kerneltest.ReadSymbols(t)}, tr.begin(t)
	pid := uintptr(os.Getpid())
	var all []tracer
	for name, number := range map[string]uintptr{
		"getpgid": unix.SYS_GETPGID, "getsid": unix.SYS_GETSID, "sched_getparam": unix.SYS_SCHED_GETPARAM,
		"sched_getscheduler": unix.SYS_SCHED_GETSCHEDULER, "sched_get_priority_max": unix.SYS_SCHED_GET_PRIORITY_MAX,
		"getresuid": unix.SYS_GETRESUID, "getresgid": unix.SYS_GETRESGID, "getitimer": unix.SYS_GETITIMER,
	} {
		function := kerneltest.SyscallFunction(t, name)
		all = append(all, tracer{"unseen_" + name, ebpf.Tracing, ebpf.AttachTraceFEntry, function, function, func() {
			_, _, _ = unix.RawSyscall(number, pid, 0, 0) // what it returns does not matter
		}})
	}
	sampled := func(kind string, tc tracer, p program) []knownRow {
		parts := kerneltest.ReadParts(t)
		return s.collect(kerneltest.Sized(200, 20), func() {
			for range kerneltest.Sized(1000, 100) {
				tc.run()
			}
		}, func(sm sample) []known { return x.traced(sm, tc.function, kind, p, parts) })
	}
	var rows []knownRow
	const seen = 3
	for _, tc := range all[:seen] {
		rows = append(rows, sampled("seen", tc, tc.start(t))...)
	}
	tr.send(rows)
	rows = nil

	before := tr.metric("lost_records")
	require.NoError(t, tr.Signal(syscall.SIGSTOP))
	flood(t)
	programs := make([]program, len(all))
	for i, tc := range all[seen:] {
		programs[seen+i] = tc.start(t)
	}
	require.NoError(t, tr.Signal(syscall.SIGCONT))
	for i, tc := range all[seen:] {
		rows = append(rows, sampled("unseen", tc, programs[seen+i])...)
	}
	tr.send(rows)
	tr.report()
	tr.waitUntilFollowed(s, loadNth(t, 1<<20+1)) // the kernel reports a loss with the next record
	assert.Greater(t, tr.metric("lost_records"), before)
	v := tr.of("unseen, caller")
	assert.Positive(t, v.right+v.unnamed)
}

// testTruthFilterBehindTrampoline verifies that classic filters get no name if they lie after a
// trampoline, in the page that it is announced with.
func testTruthFilterBehindTrampoline(t *testing.T, tr *truth) {
	needTrampolines(t)
	s, x := tr.begin(t), text{kerneltest.ReadSymbols(t)}
	fillHoles(t)
	wanted := kerneltest.Sized(6, 2)
	found := 0
	var all []knownRow
	for n, call := range []string{
		"getpgid", "getsid", "getpriority", "sched_getparam", "sched_getscheduler", "sched_get_priority_max",
		"getresuid", "getresgid", "getgroups", "times", "umask", "personality", "getrusage", "sysinfo",
		"sched_getaffinity", "get_robust_list", "getitimer", "clock_getres", "sched_get_priority_min", "getcpu",
	} {
		kerneltest.AttachFentry(t, fmt.Sprintf("truth_fentry_%d", n), kerneltest.SyscallFunction(t, call))
		rows := attachClassic(t).sample(s, x, "filter", kerneltest.Sized(30, 5))
		if behind(rows, kerneltest.ReadParts(t), "bpf_trampoline_", "filter behind a trampoline") > 0 {
			found++
		}
		all = append(all, rows...)
		if found == wanted || n == wanted && kerneltest.OlderThan(t, 6, 8) { // before 6.8, each has its own pages
			break
		}
	}
	tr.send(all)
	tr.sendUndated(labeled("no timestamp", all))
	tr.report()
	t.Logf("%d filters lie behind trampolines", found)
	if kerneltest.InVM() && !kerneltest.OlderThan(t, 6, 8) { // outside a virtual machine, other tests have programs, too
		assert.Positive(t, found, "filters lie behind trampolines")
	}
}
