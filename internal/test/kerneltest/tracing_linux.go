// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// The ways to attach programs to functions of the kernel that cilium/ebpf does not have, by the names that the kernel has
// for them (enum bpf_attach_type of include/uapi/linux/bpf.h).
const (
	FSession    = "BPF_TRACE_FSESSION"     // at the entry and the exit, since Linux 7.0
	FEntryMulti = "BPF_TRACE_FENTRY_MULTI" // at the entries of many functions, with a trampoline for each
)

// AttachTracing loads a program that does nothing and attaches it to functions of the kernel, in a way that is the name of
// an attach type. It skips the test if the kernel does not have it. The function that it returns detaches the program; the
// end of the test does, too.
func AttachTracing(t testing.TB, how, name string, functions ...string) (detach func()) {
	t.Helper()
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skipf("no BTF of the kernel (%v): trampolines are not tested", err)
	}
	kind, ok := attachType(t, spec, how)
	if !ok {
		t.Skipf("this kernel has no %s: what becomes of its frames is not tested", how)
	}
	ids := make([]uint32, 0, len(functions))
	for _, function := range functions {
		var fn *btf.Func
		if err := spec.TypeByName(function, &fn); err != nil {
			t.Fatalf("%s in the kernel's BTF: %v", function, err)
		}
		id, err := spec.TypeID(fn)
		if err != nil {
			t.Fatalf("%s in the kernel's BTF: %v", function, err)
		}
		ids = append(ids, uint32(id))
	}
	target := ids[0]
	if how == FEntryMulti {
		target = 0
	}
	program, err := loadTracing(name, kind, target)
	NeedTracing(t, err)
	if err != nil {
		t.Fatalf("loading BPF program %s as %s: %v", name, how, err)
	}
	link, err := attachTracing(program, kind, how, ids)
	if err != nil {
		t.Fatalf("attaching BPF program %s to %d functions by %s: %v", name, len(ids), how, err)
	}
	open := true
	detach = func() {
		if open {
			open = false
			_, _ = unix.Close(link), unix.Close(program)
		}
	}
	t.Cleanup(detach)
	return detach
}

// attachType returns the number of an attach type, if the running kernel has it.
func attachType(t testing.TB, spec *btf.Spec, name string) (kind uint32, ok bool) {
	t.Helper()
	var types *btf.Enum
	if err := spec.TypeByName("bpf_attach_type", &types); err != nil {
		t.Fatalf("the kernel's BTF: %v", err)
	}
	for _, v := range types.Values {
		if v.Name == name {
			return uint32(v.Value), true
		}
	}
	return 0, false
}

// progLoad is the part of union bpf_attr for BPF_PROG_LOAD up to the last field that is used here (include/uapi/linux/bpf.h).
type progLoad struct {
	progType, insnCount uint32
	insns, license      uint64
	logLevel, logSize   uint32
	logBuf              uint64
	_                   [2]uint32 // kern_version, prog_flags
	name                [16]byte
	_                   uint32 // prog_ifindex
	attachType          uint32
	_                   [2]uint32 // prog_btf_fd, func_info_rec_size
	_                   uint64    // func_info
	_                   [2]uint32 // func_info_cnt, line_info_rec_size
	_                   uint64    // line_info
	_                   uint32    // line_info_cnt
	target              uint32
}

func loadTracing(name string, kind, target uint32) (fd int, err error) {
	var buffer bytes.Buffer
	if err := (asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}).Marshal(&buffer, binary.LittleEndian); err != nil {
		return -1, err
	}
	code, license, log := buffer.Bytes(), []byte("GPL\x00"), make([]byte, 1<<16)
	attr := progLoad{
		progType: unix.BPF_PROG_TYPE_TRACING, insnCount: uint32(len(code) / asm.InstructionSize), attachType: kind, target: target,
		insns: pointer(&code[0]), license: pointer(&license[0]), logLevel: 1, logSize: uint32(len(log)), logBuf: pointer(&log[0]),
	}
	copy(attr.name[:len(attr.name)-1], name)
	fd, err = bpf(unix.BPF_PROG_LOAD, &attr, code, license, log)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, unix.ByteSliceToString(log))
	}
	return fd, err
}

// linkCreate is the part of union bpf_attr for BPF_LINK_CREATE, with the fields of a link of many functions.
type linkCreate struct {
	program    uint32
	_          uint32 // target_fd
	attachType uint32
	_          uint32 // flags
	ids        uint64
	_          uint64 // cookies
	count      uint32
}

func attachTracing(program int, kind uint32, how string, ids []uint32) (fd int, err error) {
	attr := linkCreate{program: uint32(program), attachType: kind}
	if how == FEntryMulti {
		attr.ids, attr.count = pointer(&ids[0]), uint32(len(ids))
	}
	return bpf(unix.BPF_LINK_CREATE, &attr, ids)
}

// bpf calls bpf(2) with a part of union bpf_attr, which points to some memory, and returns a file descriptor.
func bpf[T any](command uintptr, attr *T, memory ...any) (fd int, err error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, command, reflect.ValueOf(attr).Pointer(), reflect.TypeFor[T]().Size())
	runtime.KeepAlive(memory)
	runtime.KeepAlive(attr)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// pointer returns the address of memory that the caller keeps.
func pointer[T any](first *T) uint64 { return uint64(reflect.ValueOf(first).Pointer()) }

// TraceableFunctions returns n functions of the core kernel that programs can be attached to and that are not called all the
// time. Each has one name, and BTF. It skips the test if there are not that many.
func TraceableFunctions(t testing.TB, n int) (names []string) {
	t.Helper()
	list, err := os.ReadFile("/sys/kernel/tracing/available_filter_functions")
	if err != nil {
		t.Skipf("the functions that can be traced are not listed: links of many functions are not tested: %v", err)
	}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skipf("no BTF of the kernel: links of many functions are not tested: %v", err)
	}
	count := make(map[string]int)
	for name := range strings.Lines(string(list)) {
		count[strings.TrimSpace(name)]++
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		seldom := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		var fn *btf.Func
		if count[name] == 1 && slices.ContainsFunc([]string{"__x64_sys_", "tcp_", "udp_", "ip_", "inet_", "fib_", "sock_", "devlink_"}, seldom) &&
			spec.TypeByName(name, &fn) == nil {
			names = append(names, name)
		}
		if len(names) == n {
			return names
		}
	}
	t.Skipf("only %d functions can be traced: links of many functions are not tested", len(names))
	return nil
}
