// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// bpfChurn loads and unloads BPF programs, one at a time. Each is loaded for 40 ms.
func bpfChurn() *churn {
	return &churn{name: "BPF programs", mayMiss: mayMiss(), visit: func(_ context.Context, _ *collector, n int) (*visit, error) {
		prog, p, err := loadProgram(n)
		if err != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
		at := time.Now()
		time.Sleep(20 * time.Millisecond)
		return &visit{at: at, places: []place{p}}, prog.Close()
	}}
}

// mayMiss returns the share of programs that may have no name. A virtual machine can be so slow
// that programs are forgotten before a profile of them arrives.
func mayMiss() float64 {
	if kerneltest.InVM() {
		return 0.5
	}
	return 0.05
}

// loadProgram loads a program that differs from the last ones and has a common size.
func loadProgram(n int) (*ebpf.Program, place, error) {
	name := fmt.Sprintf("soak_%d", n%1000)
	insns := asm.Instructions{asm.Mov.Imm(asm.R0, int32(n))}
	for range n % 4 {
		insns = append(insns, asm.Add.Imm(asm.R0, 1))
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL", Instructions: append(insns, asm.Return()),
	})
	if err != nil {
		return nil, place{}, err
	}
	info, err := prog.Info()
	if err != nil {
		return nil, place{}, errors.Join(err, prog.Close())
	}
	addrs, ok := info.JitedKsymAddrs()
	if _, err := hex.DecodeString(info.Tag); err != nil || !ok || len(addrs) == 0 {
		return nil, place{}, errors.Join(errors.New("the kernel does not say where a program lies"), prog.Close())
	}
	symbol := "bpf_prog_" + info.Tag + "_" + name // as the kernel has it
	return prog, place{addr: uint64(addrs[0]), isName: func(n string) bool { return n == symbol }}, nil
}
