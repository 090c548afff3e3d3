// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// A sample is a stack of the kernel, leaf first.
type sample struct {
	at    int64 // in nanoseconds since the Unix epoch
	tid   uint32
	stack []uint64
}

// A sampler samples the kernel. Its samples show the code that a thread runs.
type sampler struct {
	t     *testing.T
	rings *perfring.Reader
}

// startSampler starts sampling. The calling goroutine keeps its thread until the test ends.
func startSampler(t *testing.T) *sampler {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	rings, err := perfring.Open(perfring.Options{
		Event: perfring.Sampling{Frequency: uint64(kerneltest.Sized(10000, 1000))}, BytesPerCPU: 4 << 20, SysFS: "/sys",
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rings.Close()) })
	return &sampler{t, rings}
}

// take returns the samples since the last call: of one thread, or of all threads if tid is 0.
func (s *sampler) take(tid uint32) (samples []sample) {
	_, offset, uncertain := perfring.Monotonic.UnixOffset()
	for uncertain > int64(100*time.Microsecond) { // this thread was interrupted in between
		_, offset, uncertain = perfring.Monotonic.UnixOffset()
	}
	for _, r := range s.rings.Flush().Records {
		if r.Type == perfring.TypeSample && len(r.Stack) > 0 && (tid == 0 || r.TID == tid) {
			samples = append(samples, sample{r.Time + offset, r.TID, r.Stack})
		}
	}
	return samples
}

// A program is a BPF program and its name in the kernel.
type program struct {
	*ebpf.Program
	code   kerneltest.Code
	symbol string
}

// loadKnown loads a program of one function.
func loadKnown(t *testing.T, spec *ebpf.ProgramSpec) program {
	t.Helper()
	return describe(t, kerneltest.LoadBPF(t, spec))
}

func describe(t *testing.T, p *ebpf.Program) program {
	t.Helper()
	info, err := p.Info()
	require.NoError(t, err)
	return program{p, kerneltest.CodeOf(t, p)[0], fmt.Sprintf("bpf_prog_%s_%s", info.Tag, info.Name)}
}

// loadNth loads a program that keeps a CPU busy and differs from the last ones. Many programs have
// its size. Not everyone may load its type, so a list gives its name. /proc/kallsyms is not read to
// its end if other tests load thousands of programs.
func loadNth(t *testing.T, n int) program {
	t.Helper()
	return loadKnown(t, &ebpf.ProgramSpec{
		Name: fmt.Sprintf("truth_%d", n), Type: ebpf.SchedCLS, License: "GPL", Instructions: spinning(n, n%4*20),
	})
}

// spinning returns the code of a program that takes a while and returns 0. The code depends on n,
// its length on pad. The loop is short, because the verifier runs through it, too.
func spinning(n, pad int) asm.Instructions {
	const rounds = 100
	insns := asm.Instructions{
		asm.Mov.Imm(asm.R0, int32(n)),
		asm.Mov.Imm(asm.R1, 0),
		asm.Mul.Imm(asm.R0, 31).WithSymbol("loop"),
		asm.Add.Imm(asm.R1, 1),
		asm.JLT.Imm(asm.R1, rounds, "loop"),
	}
	for range pad {
		insns = append(insns, asm.Add.Imm(asm.R0, 1))
	}
	return append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// close closes a program. It can be called again.
func (p program) close(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Close())
}

// has reports whether an address lies in the code of a program.
func (p program) has(addr uint64) bool { return p.code.Start <= addr && addr < p.code.End }

// run runs a program on this thread until there are that many samples of it. All samples were taken
// while the program was loaded, so its frames are certain.
func (s *sampler) run(p program, kind string, samples int) (rows []knownRow) {
	s.t.Helper()
	return s.collect(samples, func() { kerneltest.RunBPF(s.t, p.Program, uint32(kerneltest.Sized(3000, 300))) },
		func(sm sample) []known { return p.in(sm, kind) })
}

// collect calls run on this thread until there are that many samples with known frames.
func (s *sampler) collect(samples int, run func(), in func(sample) []known) (rows []knownRow) {
	s.t.Helper()
	tid := uint32(unix.Gettid())
	s.take(tid)
	for last := time.Now(); len(rows) < samples; {
		if time.Since(last) > otelcol.Patience {
			s.t.Fatalf("the code was found in %d samples of %d, and in no other for a long time", len(rows), samples)
		}
		run()
		if found := find(s.take(tid), in); len(found) > 0 {
			rows, last = append(rows, found...), time.Now()
		}
	}
	return rows
}

// find returns the samples that have known frames.
func find(samples []sample, in func(sample) []known) (rows []knownRow) {
	for _, sm := range samples {
		if k := in(sm); len(k) > 0 {
			rows = append(rows, knownRow{sm, k})
		}
	}
	return rows
}

// in returns the frames of a sample that lie in the program.
func (p program) in(sm sample, kind string) (all []known) {
	for i, addr := range sm.stack {
		if p.has(addr) {
			all = append(all, known{frame: i, kind: kind, name: p.symbol})
		}
	}
	return all
}

// labeled returns samples whose known frames are counted as "kind, label".
func labeled(label string, rows []knownRow) []knownRow {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].known = slices.Clone(rows[i].known)
		for j := range rows[i].known {
			rows[i].known[j].kind += ", " + label
		}
	}
	return rows
}

// A lifetime is the time and the address at which a program was loaded.
type lifetime struct {
	code     kerneltest.Code
	from, to int64
}

// closeSince closes a program that was loaded after an instant, and returns its lifetime.
func (p program) closeSince(t *testing.T, from time.Time) lifetime {
	t.Helper()
	p.close(t)
	return lifetime{p.code, from.UnixNano(), time.Now().UnixNano()}
}

// reusedSoon is the longest time for which an address is free between a program and a filter there.
const reusedSoon = 10 * time.Second

// logReused logs how many filters had the address of a program.
func logReused(t *testing.T, rows []knownRow, loads []lifetime) {
	t.Helper()
	for _, shortly := range []time.Duration{reusedSoon, 50 * time.Millisecond} {
		kerneltest.Figure("truth: %s: %d frames of filters at addresses that a program had less than %v before or after",
			t.Name(), reused(rows, loads, shortly), shortly)
	}
}

// reused returns how many frames without a name lie at an address that a program had
// shortly before or after.
func reused(rows []knownRow, loads []lifetime, shortly time.Duration) (n int) {
	for _, row := range rows {
		for _, k := range row.known {
			if k.name == "" && slices.ContainsFunc(loads, func(l lifetime) bool {
				return l.code.Start <= row.stack[k.frame] && row.stack[k.frame] < l.code.End &&
					l.from-int64(shortly) < row.at && row.at < l.to+int64(shortly)
			}) {
				n++
			}
		}
	}
	return n
}
