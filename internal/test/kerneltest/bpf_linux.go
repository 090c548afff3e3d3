// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/moby/sys/capability"
)

// SmallProgram describes a BPF program of one function, without BTF. Its instructions, and so its
// tag, depend on n; its length depends on pad.
func SmallProgram(name string, n int32, pad int) *ebpf.ProgramSpec {
	insns := asm.Instructions{asm.Mov.Imm(asm.R0, n)}
	for range pad {
		insns = append(insns, asm.Add.Imm(asm.R0, 1))
	}
	return &ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: append(insns, asm.Return()),
	}
}

// LoadBPF loads a program. The end of the test closes it, unless it was closed before.
func LoadBPF(t testing.TB, spec *ebpf.ProgramSpec) *ebpf.Program {
	t.Helper()
	prog, err := NewBPF(spec)
	if err != nil {
		t.Fatalf("loading BPF program %s: %v", spec.Name, err)
	}
	t.Cleanup(func() { _ = prog.Close() })
	return prog
}

// NewBPF loads a program.
func NewBPF(spec *ebpf.ProgramSpec) (*ebpf.Program, error) {
	if err := rlimit.RemoveMemlock(); err != nil { // the limit applies before Linux 5.11
		return nil, err
	}
	return ebpf.NewProgram(spec)
}

//go:embed testdata/bpf/hot.o
var hotObject []byte

// HotProgram describes a BPF program that keeps a CPU busy: testdata/bpf/hot.c. It has three
// functions, BTF, and source lines in two files.
func HotProgram(t testing.TB) *ebpf.ProgramSpec {
	t.Helper()
	collection, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(hotObject))
	if err != nil {
		t.Fatal(err)
	}
	return collection.Programs["kernelsym_test_hot_program"]
}

// Distinct gives a program its own tag, by an instruction that loads n and does nothing else. Other
// tests can load the same program at the same time.
func Distinct(spec *ebpf.ProgramSpec, n int32) *ebpf.ProgramSpec {
	first := spec.Instructions[0]
	head := asm.Mov.Imm(asm.R0, n).WithMetadata(first.Metadata) // the symbol and the line
	first.Metadata = asm.Metadata{}
	spec.Instructions = append(asm.Instructions{head, first}, spec.Instructions[1:]...)
	return spec
}

// RunBPF runs a program in the kernel that many times. The program must take a packet.
func RunBPF(t testing.TB, prog *ebpf.Program, times uint32) {
	t.Helper()
	if _, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: times}); err != nil {
		t.Fatalf("running a BPF program: %v", err)
	}
}

// SyscallFunction returns the kernel's name for the function of a system call.
func SyscallFunction(t testing.TB, name string) string {
	t.Helper()
	prefix, ok := map[string]string{"amd64": "__x64_sys_", "arm64": "__arm64_sys_"}[runtime.GOARCH]
	if !ok {
		t.Skipf("the names of the functions of system calls are not known on %s: tracing them is not tested", runtime.GOARCH)
	}
	return prefix + name
}

// AttachFentry attaches a program that does nothing to the entry of a kernel function, by a
// trampoline. The end of the test detaches it, unless it was detached before.
func AttachFentry(t testing.TB, name, function string) link.Link {
	t.Helper()
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skipf("no BTF of the kernel (%v): trampolines are not tested", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: function, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	NeedTracing(t, err)
	if err != nil {
		t.Fatalf("loading BPF program %s: %v", name, err)
	}
	defer func() { _ = prog.Close() }()
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		t.Fatalf("attaching BPF program %s to %s: %v", name, function, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// NeedTracing skips the test if err, from loading a program that traces the kernel, shows that even
// root may not do that.
func NeedTracing(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, os.ErrPermission) && Has(t, capability.CAP_SYS_ADMIN) && !InVM() {
		t.Skipf("this kernel is locked down, even for root (%v): trampolines are not tested", err)
	}
}

// A PartSymbol is a line of the running kernel's symbol list for code that the kernel has made
// while it runs.
type PartSymbol struct {
	Addr uint64
	Name string
	Part string // "bpf", "__builtin__ftrace", "__builtin__kprobes"
}

// ReadParts returns the end of /proc/kallsyms: the symbols of code that the kernel has made while
// it runs.
func ReadParts(t testing.TB) (symbols []PartSymbol) {
	t.Helper()
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		if !bytes.HasSuffix(scanner.Bytes(), []byte("]")) {
			continue // the kernel itself: most lines
		}
		line, part, ok := strings.Cut(scanner.Text(), "\t[")
		part = strings.TrimSuffix(part, "]")
		if !ok || part != "bpf" && !strings.HasPrefix(part, "__builtin__") {
			continue
		}
		s := PartSymbol{Part: part}
		var typ string
		if _, err := fmt.Sscanf(line, "%x %s %s", &s.Addr, &typ, &s.Name); err != nil {
			t.Fatalf("%v: %q", err, scanner.Text())
		}
		symbols = append(symbols, s)
	}
	return symbols
}

// LoopProgram describes a BPF program of one function that keeps a CPU busy, without BTF. Its tag
// depends on n, its length on pad.
func LoopProgram(name string, n int32, pad int) *ebpf.ProgramSpec {
	const rounds = 4000
	insns := asm.Instructions{
		asm.Mov.Imm(asm.R0, n),
		asm.Mov.Imm(asm.R1, 0),
		asm.Add.Reg(asm.R0, asm.R1).WithSymbol("loop"),
		asm.Mul.Imm(asm.R0, 31),
		asm.Add.Imm(asm.R1, 1),
		asm.JLT.Imm(asm.R1, rounds, "loop"),
	}
	for range pad {
		insns = append(insns, asm.Add.Imm(asm.R0, 1))
	}
	return &ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: append(insns, asm.Return()),
	}
}

// A Code is the address range of a function of a program.
type Code struct{ Start, End uint64 }

// CodeOf returns the address ranges of the functions of a program, the main one first.
func CodeOf(t testing.TB, prog *ebpf.Program) (code []Code) {
	t.Helper()
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	addrs, _ := info.JitedKsymAddrs()
	lens, ok := info.JitedFuncLens()
	if !ok || len(addrs) != len(lens) || len(addrs) == 0 {
		t.Fatal("the kernel does not say where a program lies")
	}
	for i, addr := range addrs {
		code = append(code, Code{uint64(addr), uint64(addr) + uint64(lens[i])})
	}
	return code
}
