// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Type is the type of a record.
type Type uint32

// The types of records that are parsed (enum perf_event_type of
// include/uapi/linux/perf_event.h). Others are left out. What TypeLost says is in a
// Batch, not among its records.
const (
	TypeLost     Type = 2
	TypeComm     Type = 3
	TypeExit     Type = 4
	TypeThrottle Type = 5
	TypeFork     Type = 7
	TypeSample   Type = 9
	TypeKsymbol  Type = 17
	TypeBPFEvent Type = 18
)

// A Record is one record of a ring. Which fields are set depends on the type.
type Record struct {
	Type Type
	CPU  uint32
	Time int64 // in nanoseconds of the event's clock

	// The process and thread that a sample or a throttled event interrupted,
	// that changed its name, exited or was forked, as numbers of the PID
	// namespace of this process. 0 is the idle task, or one of a namespace that
	// is not visible here; NoTask is one that has all but exited.
	PID, TID uint32

	Parent uint32   // Fork: the thread that forked
	Comm   string   // Comm: the thread's new name, at most 15 bytes
	Stack  []uint64 // Sample: the addresses of the kernel's stack, leaf first; can be empty
	Guest  bool     // Sample: the CPU was in a guest, in its kernel or its user code
	Lost   uint64   // Lost: how many records

	// Apart, so that samples, which are many, stay small.
	Symbol  *Symbol  // Ksymbol: what is new or gone
	Program *Program // BPFEvent: what happened to a program
}

// A Symbol is code that the kernel has made or is about to free (struct
// perf_record_ksymbol of tools/lib/perf/include/perf/event.h).
type Symbol struct {
	Addr       uint64 // of its first byte
	Len        uint32 // in bytes, as announced: that of a trampoline is a whole page
	Kind       SymbolKind
	Unregister bool   // it goes; else it has come
	Name       string // the kernel's, at most 511 bytes
}

// SymbolKind is the kind of code (enum perf_record_ksymbol_type of
// include/uapi/linux/perf_event.h). The kernel may have others.
type SymbolKind uint16

// The kinds of code.
const (
	KsymBPF SymbolKind = 1 // of a BPF program, or made for one: a trampoline, a dispatcher
	KsymOOL SymbolKind = 2 // out of line: made for a kprobe or by ftrace
)

// A Program is what happened to a BPF program (struct perf_record_bpf_event of
// tools/lib/perf/include/perf/event.h). The record of a load comes after those of the
// program's symbols.
type Program struct {
	Event ProgramEvent
	ID    uint32 // not used again before all others were; some kernels of about 6.1 give 0 at an unload
	Tag   [8]byte
}

// ProgramEvent is an event in the life of a BPF program (enum perf_bpf_event_type
// of include/uapi/linux/perf_event.h).
type ProgramEvent uint16

// The events in the life of a BPF program.
const (
	ProgramLoad   ProgramEvent = 1
	ProgramUnload ProgramEvent = 2
)

// NoTask stands for a process or thread whose number is not in use any more
// (perf_event_pid_type in kernel/events/core.c gives -1).
const NoTask = ^uint32(0)

// ErrMalformed says that a record is not in the kernel's format.
var ErrMalformed = errors.New("malformed perf record")

const (
	headerLen   = 8  // struct perf_event_header
	sampleIDLen = 24 // struct sample_id with PID and TID, time, CPU
	recordAlign = 8
)

// ksymbolUnregister is PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER.
const ksymbolUnregister = 1

// What the CPU did, of the header's field misc.
const (
	cpuModeMask        = 7 // PERF_RECORD_MISC_CPUMODE_MASK
	cpuModeGuestKernel = 4 // PERF_RECORD_MISC_GUEST_KERNEL
	cpuModeGuestUser   = 5 // PERF_RECORD_MISC_GUEST_USER
)

// parse reads a record, header included, of an event whose samples have what
// openRing asks for. It reports false for a type that is not passed on.
func parse(raw []byte) (r Record, ok bool, err error) {
	if len(raw) < headerLen {
		return Record{}, false, fmt.Errorf("%w: %d bytes", ErrMalformed, len(raw))
	}
	r.Type = Type(binary.NativeEndian.Uint32(raw))
	f := fields{raw[headerLen:], true}
	switch r.Type {
	case TypeSample:
		f.uint64() // the address, which the stack begins with
		r.PID, r.TID = f.uint32(), f.uint32()
		r.Time = int64(f.uint64())
		r.CPU = f.uint32()
		f.uint32()
		r.Stack = f.stack()
		r.Guest = isGuest(raw)
	case TypeLost:
		f.uint64()
		r.Lost = f.uint64()
		f.sampleID(&r)
	case TypeComm:
		pid, tid := f.uint32(), f.uint32()
		r.Comm = f.name()
		f.sampleID(&r)
		r.PID, r.TID = pid, tid
	case TypeFork, TypeExit:
		pid, _, tid, parent := f.uint32(), f.uint32(), f.uint32(), f.uint32()
		f.uint64()
		f.sampleID(&r)
		r.PID, r.TID, r.Parent = pid, tid, parent
	case TypeThrottle:
		f.uint64()
		f.uint64()
		f.uint64()
		f.sampleID(&r)
	case TypeKsymbol:
		r.Symbol = f.symbol()
		f.sampleID(&r)
	case TypeBPFEvent:
		r.Program = f.program()
		f.sampleID(&r)
	default:
		return Record{}, false, nil
	}
	if !f.ok {
		return Record{}, false, fmt.Errorf("%w: type %d, %d bytes", ErrMalformed, r.Type, len(raw))
	}
	return r, true, nil
}

// isGuest reports whether a sample is of a guest. The kernel does not unwind those: they
// have no stack (perf_callchain_kernel in arch/x86/events/core.c). A timer goes off just
// after the guest was left, and KVM says that it came from there (kvm_arch_pmi_in_guest in
// arch/x86/include/asm/kvm_host.h). On arm64, all that happens while a guest's CPU is loaded
// is the guest's, also what KVM does for it.
func isGuest(raw []byte) bool {
	mode := binary.NativeEndian.Uint16(raw[4:]) & cpuModeMask
	return mode == cpuModeGuestKernel || mode == cpuModeGuestUser
}
