// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// loadSized loads a program with that many instructions. With filterInstructions, it is about as
// long as a classic filter.
func loadSized(t *testing.T, n, instructions int) program {
	t.Helper()
	return loadKnown(t, &ebpf.ProgramSpec{
		Name: "truth_sized", Type: ebpf.SocketFilter, License: "GPL", Instructions: spinning(n, instructions),
	})
}

// testTruthFilterOfThread has threads with a seccomp filter exit while programs are loaded, because
// the filter's memory is then free at once.
func testTruthFilterOfThread(t *testing.T, tr *truth) {
	s, x := tr.begin(t), text{kerneltest.ReadSymbols(t)}
	fillHoles(t)
	var rows []knownRow
	var loads []lifetime
	const kind = "filter of a thread that exits"
	enough := kerneltest.Sized(1000, 20)
	deadline := time.Now().Add(2 * otelcol.Patience)
	for n := 0; len(rows) < enough || reused(rows, loads, reusedSoon) == 0; n++ {
		if time.Now().After(deadline) {
			// Before 5.18, programs have pages of their own. In a virtual machine, memory is freed
			// late.
			if len(rows) == 0 || !kerneltest.InVM() && !kerneltest.OlderThan(t, 5, 18) && reused(rows, loads, reusedSoon) == 0 {
				t.Fatalf("no program takes the address of a filter, with %d samples of filters", len(rows))
			}
			break
		}
		s.take(0)
		tid, ended := make(chan uint32, 1), make(chan error)
		go func() {
			runtime.LockOSThread() // for good: the filter ends with the thread
			tid <- uint32(unix.Gettid())
			program := classicCode(0, unix.SECCOMP_RET_ALLOW)
			err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, reflect.ValueOf(program).Pointer(), 0, 0)
			for range kerneltest.Sized(2000, 500) {
				_, _, _ = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
			}
			ended <- err
		}()
		for i, more := 0, 5; more > 0; i++ {
			select {
			case err := <-ended:
				require.NoError(t, err)
				ended = nil
			default:
				from := time.Now()
				loads = append(loads, loadSized(t, n*100+i, filterInstructions).closeSince(t, from))
				if ended == nil {
					more--
				}
			}
		}
		found := find(s.take(<-tid), func(sm sample) []known { return x.filters(sm, kind) })
		if n%2 == 0 && len(found) > 0 {
			tr.send(found)
		}
		rows = append(rows, found...)
	}
	tr.send(labeled("sent in the end", rows))
	tr.sendUndated(labeled("no timestamp", rows))
	tr.report()
	logReused(t, rows, loads)
}

// testTruthNameless verifies that programs that were loaded without CAP_BPF, between others, get no
// name. The kernel has no symbols for them.
func testTruthNameless(t *testing.T, tr *truth) {
	allowEveryone(t)
	s, x := tr.begin(t), text{kerneltest.ReadSymbols(t)}
	var all []knownRow
	for n := range kerneltest.Sized(50, 3) {
		named := loadSized(t, n, filterInstructions)
		rows := s.run(named, "program", 5)
		named.close(t)
		f, p := openSockets(t), loadUnprivileged(t, n)
		require.NoError(t, unix.SetsockoptInt(f.filtered, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, p.FD()))
		rows = append(rows, f.sample(s, x, "program without a name", 10)...)
		if n == 0 {
			for _, symbol := range kerneltest.ReadParts(t) {
				require.NotContains(t, symbol.Name, "truth_nobody", "the kernel has no symbol for it")
			}
		}
		f.close(t)
		require.NoError(t, p.Close())
		if n%2 == 0 {
			tr.send(rows)
		}
		all = append(all, rows...)
	}
	tr.send(labeled("sent in the end", all))
	tr.sendUndated(labeled("no timestamp", all))
	tr.report()
	tr.allNamed("program", "program, sent in the end")
}

// allowEveryone lets all users load programs until the test ends.
func allowEveryone(t *testing.T) {
	t.Helper()
	const name = "/proc/sys/kernel/unprivileged_bpf_disabled"
	was, err := os.ReadFile(name)
	require.NoError(t, err)
	if err := os.WriteFile(name, []byte("0"), 0); err != nil {
		require.Equal(t, "1", strings.TrimSpace(string(was)), "only 1 cannot be changed: %v", err)
		t.Skip("kernel.unprivileged_bpf_disabled is 1, which cannot be changed: programs without names are not tested")
	}
	t.Cleanup(func() { require.NoError(t, os.WriteFile(name, was, 0)) })
}

// loadUnprivileged loads a program from a thread without any capability.
func loadUnprivileged(t *testing.T, n int) *ebpf.Program {
	t.Helper()
	code := asm.Instructions{asm.Mov.Imm(asm.R0, int32(n))}
	for i := range int32(filterInstructions) {
		if code = append(code, asm.Mul.Imm(asm.R0, i)); i%16 == 0 { // no loop, which would need CAP_BPF
			code = append(code, asm.FnGetPrandomU32.Call())
		}
	}
	code = append(code, asm.Mov.Imm(asm.R0, 0), asm.Return())
	type result struct {
		program *ebpf.Program
		err     error
	}
	loaded := make(chan result)
	go func() {
		runtime.LockOSThread() // for good: the thread without capabilities ends with the goroutine
		header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		err := unix.Capset(header, &none[0])
		var p *ebpf.Program
		if err == nil {
			p, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "truth_nobody", Type: ebpf.SocketFilter, License: "GPL", Instructions: code})
		}
		loaded <- result{p, err}
	}()
	r := <-loaded
	require.NoError(t, r.err)
	return r.program
}
