// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// newProgram loads a BPF program that returns a number.
func newProgram(name string, n int32) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, n), asm.Return()},
	})
}

func load(t *testing.T, name string, n int32) *ebpf.Program {
	t.Helper()
	prog, err := newProgram(name, n)
	require.NoError(t, err)
	return prog
}

// TestProgramOfTheRunningKernel follows the life of a BPF program, with several
// readers: the kernel writes records of different lengths for them.
func TestProgramOfTheRunningKernel(t *testing.T) {
	kerneltest.NeedBPF(t)
	var readers []*Reader
	for range 4 {
		readers = append(readers, open(t, roomy()))
	}
	start := Boottime.Now()
	name := fmt.Sprintf("life_%d", os.Getpid())
	prog := load(t, name, 1)
	info, err := prog.Info()
	require.NoError(t, err)
	id, _ := info.ID()
	addrs, _ := info.JitedKsymAddrs()
	lens, _ := info.JitedFuncLens()
	require.Len(t, addrs, 1)
	require.NoError(t, prog.Close())

	symbol := Symbol{
		Addr: uint64(addrs[0]), Len: lens[0], Kind: KsymBPF,
		Name: fmt.Sprintf("bpf_prog_%s_%s", info.Tag, name),
	}
	gone := symbol
	gone.Unregister = true
	tag, err := hex.DecodeString(info.Tag)
	require.NoError(t, err)
	program := Program{Event: ProgramLoad, ID: uint32(id), Tag: [8]byte(tag)}
	unload := program
	unload.Event = ProgramUnload
	for _, r := range readers {
		symbols, programs := lifeOf(t, r, symbol.Name, program.ID, start)
		assert.Equal(t, []Symbol{symbol, gone}, symbols)
		assert.Equal(t, []Program{program, unload}, programs)
	}
}

// lifeOf returns a reader's records of a program up to its end, all younger than start. Other
// programs can have had its address before and after.
func lifeOf(t *testing.T, r *Reader, name string, id uint32, start int64) (symbols []Symbol, programs []Program) {
	t.Helper()
	isUnload := func(rec Record) bool {
		return rec.Type == TypeBPFEvent && rec.Program.Event == ProgramUnload && rec.Program.ID == id
	}
	for _, rec := range readUntil(t, r, isUnload) {
		if int(rec.PID) == os.Getpid() { // tests of other packages load programs, too
			assert.True(t, start < rec.Time && rec.Time < Boottime.Now(), "time of %+v", rec)
		}
		switch {
		case rec.Type == TypeKsymbol && rec.Symbol.Name == name:
			symbols = append(symbols, *rec.Symbol)
		case rec.Type == TypeBPFEvent && rec.Program.ID == id:
			programs = append(programs, *rec.Program)
		}
	}
	assert.False(t, slices.ContainsFunc(r.Flush().Records, isUnload), "twice")
	return symbols, programs
}
