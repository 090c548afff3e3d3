// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// code is the code of the running kernel.
type code struct{ *elf.File }

// openCode opens /proc/kcore, or skips the test.
func openCode(t *testing.T) code {
	t.Helper()
	f, err := elf.Open("/proc/kcore")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the kernel has no /proc/kcore: names of interrupted functions are not compared with its code")
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return code{f}
}

// before returns the bytes before an address.
func (c code) before(t *testing.T, addr uint64) (b [7]byte) {
	t.Helper()
	from := addr - uint64(len(b))
	for _, p := range c.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= from && from-p.Vaddr < p.Filesz {
			_, err := p.ReadAt(b[:], int64(from-p.Vaddr))
			require.NoError(t, err)
			return b
		}
	}
	t.Fatalf("/proc/kcore does not have %#x", addr)
	return b
}

// returnsTo reports whether the frame before it returns to an address of the core kernel: a call
// instruction ends there. A function's last instruction can be a call that never returns. Then the
// address is also the first byte of the next function. An interrupt there is not a return, because
// entry code is only called by its symbols.
func (c code) returnsTo(t *testing.T, x text, addr, from uint64) bool {
	t.Helper()
	b := c.before(t, addr)
	target := addr + uint64(int32(binary.LittleEndian.Uint32(b[3:])))
	if b[2] == 0xe8 && len(x.Names[target]) > 0 { // call symbol
		return x.inEntry(target) || !x.inEntry(from)
	}
	indirect := b[5] == 0xff && b[6]&0xf8 == 0xd0 || // call *%register
		b[1] == 0xff && b[2] == 0x15 || // call *symbol(%rip)
		b[0] == 0xff && b[1] == 0x14 && b[2] == 0x25 // call *symbol
	return indirect && !x.inEntry(from)
}

// firstBytes returns the frames of a sample at the first byte of a function, with the names that
// the code before them implies.
func (c code) firstBytes(t *testing.T, x text, sm sample) (all []known) {
	t.Helper()
	for i, addr := range sm.stack {
		if i == 0 || !x.InText(addr) || len(x.Names[addr]) == 0 || strings.HasPrefix(x.Names[addr][0], "__pfx_") {
			continue
		}
		k := known{i, "interrupted at its first byte", x.Names[addr][0], x.Names[addr]}
		if c.returnsTo(t, x, addr, sm.stack[i-1]) {
			names, _ := x.Below(addr - 1)
			k = known{i, "returns behind its end", names[0], names}
		}
		all = append(all, k)
	}
	return all
}

// timerStacks has a program record the stack of each timer that expires, including the code that
// the timer's interrupt interrupted. It returns a function that reads the next stack.
func timerStacks(t *testing.T) (next func() []uint64) {
	t.Helper()
	const frames = 127 // the length precedes them
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 8 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ring.Close() })
	p := kerneltest.LoadBPF(t, &ebpf.ProgramSpec{
		Name: "truth_timers", Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadMapPtr(asm.R1, ring.FD()),
			asm.Mov.Imm(asm.R2, 8*(frames+1)),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnRingbufReserve.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.Mov.Reg(asm.R7, asm.R0),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Reg(asm.R2, asm.R7),
			asm.Add.Imm(asm.R2, 8),
			asm.Mov.Imm(asm.R3, 8*frames),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnGetStack.Call(),
			asm.StoreMem(asm.R7, 0, asm.R0, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRingbufSubmit.Call(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
			asm.Return(),
		},
	})
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "hrtimer_expire_entry", Program: p})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r, err := ringbuf.NewReader(ring)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return func() (stack []uint64) {
		r.SetDeadline(time.Now().Add(otelcol.Patience))
		record, err := r.Read()
		require.NoError(t, err)
		raw := record.RawSample
		length := int64(binary.LittleEndian.Uint64(raw))
		for i := int64(8); i < 8+length; i += 8 {
			stack = append(stack, binary.LittleEndian.Uint64(raw[i:]))
		}
		return stack
	}
}

// testTruthFirstBytes takes real stacks with frames at the first byte of a function, and reads the
// code before it. After a call, the caller must be named; otherwise, the function that was
// interrupted there.
func testTruthFirstBytes(t *testing.T, tr *truth) {
	kerneltest.NeedVM(t) // elsewhere, the kernel's memory may hold the data of others
	if runtime.GOARCH != "amd64" {
		t.Skip("the test knows the calls of x86 only: names of interrupted functions are not compared with the kernel's code")
	}
	x, c := text{kerneltest.ReadSymbols(t)}, openCode(t)
	tr.begin(t) // a sampler has timers that expire
	next := timerStacks(t)
	kerneltest.Busy(t)
	const enough = 100
	var rows []knownRow
	for last := time.Now(); len(rows) < enough; {
		require.Less(t, time.Since(last), otelcol.Patience, "%d frames are at a function's first byte, and no other for a long time", len(rows))
		sm := sample{at: time.Now().UnixNano(), stack: next()}
		if found := find([]sample{sm}, func(sm sample) []known { return c.firstBytes(t, x, sm) }); len(found) > 0 {
			rows, last = append(rows, found...), time.Now()
		}
	}
	tr.send(rows)
	tr.report()
	interrupted, behind := tr.of("interrupted at its first byte"), tr.of("returns behind its end")
	assert.GreaterOrEqual(t, interrupted.right+behind.right, enough)
}
