// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// A text is the core kernel's code. Frames of filters are recognized by it.
type text struct{ *kerneltest.Symbols }

// inEntry reports whether an address lies in the kernel's entry code.
func (x text) inEntry(addr uint64) bool {
	return x.Address["__entry_text_start"] <= addr && addr < x.Address["__entry_text_end"]
}

// isPatchSite reports whether an address is where the trampoline of a function that begins at start
// returns to: right after the instruction that calls it.
func isPatchSite(addr, start uint64) bool {
	return addr == start+5 || addr == start+9 // after endbr64
}

// filters returns the frames of a sample that lie in a filter: outside the core kernel's code, and
// called by the function that runs filters. None may be named.
func (x text) filters(sm sample, kind string) (all []known) {
	for i := range len(sm.stack) - 1 {
		if x.InText(sm.stack[i]) || !x.InText(sm.stack[i+1]) {
			continue
		}
		names, start := x.Below(sm.stack[i+1] - 1)
		runs := slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(name, "sk_filter_trim_cap") || // socket filters
				strings.HasPrefix(name, "__seccomp_filter") || strings.HasPrefix(name, "seccomp_run_filters")
		})
		if runs && !isPatchSite(sm.stack[i+1], start) {
			all = append(all, known{frame: i, kind: kind})
		}
	}
	return all
}

// filterInstructions is large enough for a filter to be sampled often, and small enough for the
// memory that a socket may use.
const filterInstructions = 600

// classicCode returns the code of a classic filter that takes a while and regularly loads a word
// from an offset.
func classicCode(from, result uint32) *unix.SockFprog {
	var code []unix.SockFilter
	for i := range uint32(filterInstructions) {
		switch {
		case i%64 == 0:
			code = append(code, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: from})
		case i%16 == 8: // an emulated CPU is interrupted at jumps
			code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: i})
		default:
			code = append(code, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_MUL | unix.BPF_K, K: i | 1<<20})
		}
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: result})
	return &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
}

// A socketFilter is a pair of sockets. One of them has a filter that drops all packets.
type socketFilter struct{ filtered, other int }

// openSockets returns sockets without a filter. The end of the test closes them, unless they were
// closed before.
func openSockets(t *testing.T) *socketFilter {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	f := &socketFilter{fds[0], fds[1]}
	t.Cleanup(func() { f.close(t) })
	return f
}

// attachClassic returns sockets with a classic filter, which calls functions of the
// kernel.
func attachClassic(t *testing.T) *socketFilter {
	t.Helper()
	const random = 0xfffff000 + 56 // SKF_AD_OFF + SKF_AD_RANDOM
	f := openSockets(t)
	require.NoError(t, unix.SetsockoptSockFprog(f.filtered, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, classicCode(random, 0)))
	return f
}

func (f *socketFilter) close(t *testing.T) {
	t.Helper()
	if f.filtered >= 0 {
		require.NoError(t, unix.Close(f.filtered))
		require.NoError(t, unix.Close(f.other))
	}
	f.filtered = -1
}

// run runs the filter many times.
func (f *socketFilter) run(t testing.TB) {
	t.Helper()
	for range kerneltest.Sized(300, 30) {
		_, err := unix.Write(f.other, []byte{0})
		require.NoError(t, err)
	}
}

// sample runs a filter on this thread until there are that many samples of it.
func (f *socketFilter) sample(s *sampler, x text, kind string, samples int) []knownRow {
	s.t.Helper()
	return s.collect(samples, func() { f.run(s.t) }, func(sm sample) []known { return x.filters(sm, kind) })
}

// fillHoles loads programs of many sizes. They stay, so that code loaded next lies side by side.
func fillHoles(t *testing.T) {
	t.Helper()
	for n := range kerneltest.Sized(300, 30) {
		loadKnown(t, kerneltest.SmallProgram("truth_hole", int32(n), n%30*20))
	}
}

// waitUntilFreed gives the kernel time to free the memory of a closed program. The kernel does so
// after a grace period of RCU, for which this system call waits.
func waitUntilFreed() {
	const global = 1 // MEMBARRIER_CMD_GLOBAL (include/uapi/linux/membarrier.h)
	for range 3 {
		_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0)
	}
}

// nearest returns the last BPF symbol at or below an address.
func nearest(parts []kerneltest.PartSymbol, addr uint64) (best kerneltest.PartSymbol) {
	for _, p := range parts {
		if p.Part == "bpf" && p.Addr <= addr && p.Addr > best.Addr {
			best = p
		}
	}
	return best
}

// behind changes the kind of filter frames that lie after other code, within a page. The name of
// that code has the prefix.
func behind(rows []knownRow, parts []kerneltest.PartSymbol, prefix, kind string) (n int) {
	for _, row := range rows {
		for i, k := range row.known {
			addr := row.stack[k.frame]
			if at := nearest(parts, addr); strings.HasPrefix(at.Name, prefix) && addr-at.Addr < 4096 {
				row.known[i].kind = kind
				n++
			}
		}
	}
	return n
}

// withoutAdmin starts a command without CAP_SYS_ADMIN.
func withoutAdmin(cmd *exec.Cmd) error {
	all, err := capability.ListSupported()
	if err != nil {
		return err
	}
	return kerneltest.StartWith(cmd, slices.DeleteFunc(all, func(c capability.Cap) bool {
		return c == capability.CAP_SYS_ADMIN
	})...)
}

// testFilters verifies that no frame of a filter is named.
func (o old) testFilters(t *testing.T, tr *truth) {
	s, x := tr.begin(t), text{kerneltest.ReadSymbols(t)}
	var rows []knownRow
	for _, f := range o.filters {
		rows = append(rows, f.sample(s, x, "filter", kerneltest.Sized(30, 4))...)
	}
	n := behind(rows, kerneltest.ReadParts(t), "bpf_prog_", "filter behind a program")
	tr.send(rows)
	tr.sendUndated(labeled("no timestamp", rows))
	tr.report()
	t.Logf("%d frames of filters that lie behind programs", n)
	// Before 5.18, programs have pages of their own. Outside a virtual machine, other tests have
	// programs, too.
	if kerneltest.InVM() && !kerneltest.OlderThan(t, 5, 18) {
		assert.Positive(t, n, "filters lie behind programs")
	}
}

// TestTruthFilterBehindProgram verifies that classic filters get no name if they lie right after
// small programs when a collector starts. The collector may not list programs, so it does not know
// how long they are.
func TestTruthFilterBehindProgram(t *testing.T) {
	needTruth(t)
	o := loadOld(t, 0)
	o.testFilters(t, startTruth(t, withoutAdmin))
}

// testTruthFiltersAmongPrograms verifies names if classic filters and programs have the same
// addresses, one after the other. It sends their samples with and without timestamps.
func testTruthFiltersAmongPrograms(t *testing.T, tr *truth) {
	s, x := tr.begin(t), text{kerneltest.ReadSymbols(t)}
	fillHoles(t)
	var loads []lifetime
	var all []knownRow
	const tries = 200 // on a busy machine, they take far longer than the deadline
	deadline := time.Now().Add(otelcol.Patience)
	for n := 0; n < kerneltest.Sized(tries, 10) || reused(all, loads, reusedSoon) == 0; n++ {
		if n >= tries && time.Now().After(deadline) && reused(all, loads, reusedSoon) == 0 {
			// Before 5.18, programs have pages of their own. In a virtual machine, memory is freed
			// late.
			if !kerneltest.InVM() && !kerneltest.OlderThan(t, 5, 18) {
				t.Fatal("no filter takes the address of a program")
			}
			break
		}
		from := time.Now()
		p := loadSized(t, n, 2*filterInstructions) // longer than a filter, so that the filter fits into its memory
		programs := s.run(p, "program", 5)
		loads = append(loads, p.closeSince(t, from))
		waitUntilFreed()
		f := attachClassic(t)
		filters := f.sample(s, x, "filter", kerneltest.Sized(10, 5))
		if reused(filters, loads, reusedSoon) > 0 {
			f.close(t)
		} // otherwise, it stays in a hole that no program fits into, so that the next one gets another address
		if n%2 == 0 {
			tr.send(append(slices.Clone(programs), filters...))
			tr.sendUndated(labeled("no timestamp, alone", filters))
		}
		all = append(append(all, programs...), filters...)
	}
	tr.send(labeled("sent in the end", all))
	tr.sendUndated(labeled("no timestamp", all))
	tr.report()
	logReused(t, all, loads)
	tr.allNamed("program", "program, sent in the end")
}
