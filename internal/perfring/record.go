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
// include/uapi/linux/perf_event.h). Others are left out. A Batch has the number of lost records
// in a field, and no record of TypeLost.
const (
	TypeLost     Type = 2
	TypeComm     Type = 3
	TypeExit     Type = 4
	TypeThrottle Type = 5
	TypeFork     Type = 7
	TypeSample   Type = 9
	TypeSwitch   Type = 15 // PERF_RECORD_SWITCH_CPU_WIDE, since Linux 4.3; also stands for threadSwitch
	TypeKsymbol  Type = 17
	TypeBPFEvent Type = 18
	TypeCgroup   Type = 19
)

// threadSwitch is the type of a switch in the ring of one thread: PERF_RECORD_SWITCH.
const threadSwitch Type = 14

// A Record is one record of a ring. Which fields are set depends on the type.
type Record struct {
	Type Type
	CPU  uint32
	Time int64 // in nanoseconds of the event's clock

	// The process and thread that was interrupted by a sample or throttled event, left a CPU or returned
	// to it, changed its name, exited or was forked. The numbers are from the PID namespace of this process. 0 is
	// the idle task, or a task of a namespace that is not visible here; NoTask is a task that
	// has all but exited.
	PID, TID uint32

	Parent   uint32   // Fork: the thread that forked
	Comm     string   // Comm: the thread's new name, at most 15 bytes
	Stack    []uint64 // Sample: the addresses of the kernel's stack, leaf first; can be empty
	Guest    bool     // Sample: the CPU was in a guest, in its kernel or its user code
	Switch   Switch   // Switch: what the thread did
	InCgroup uint64   // Sample: the id of the interrupted task's cgroup, see [Sampling.Cgroups]; 0 without
	Lost     uint64   // Lost: how many records

	// These are pointers, so that samples, the most frequent records, stay small.
	Symbol  *Symbol  // Ksymbol: what is new or gone
	Program *Program // BPFEvent: what happened to a program
	Cgroup  *Cgroup  // Cgroup: the new cgroup
}

// Switch is the kind of a context switch, as seen by one of its two threads.
type Switch uint8

// The kinds of switches.
const (
	SwitchIn       Switch = 1 + iota // it began to run on the CPU
	SwitchBlocked                    // it left the CPU to wait for something
	SwitchRunnable                   // it left the CPU, but could have gone on: it was preempted, or yielded. Since Linux 4.17
)

// A Symbol is code that the kernel has made or is about to free (struct
// perf_record_ksymbol of tools/lib/perf/include/perf/event.h).
type Symbol struct {
	Addr       uint64 // address of its first byte
	Len        uint32 // in bytes, as announced: a whole page for a trampoline
	Kind       SymbolKind
	Unregister bool   // the code is about to be freed; if false, it is new
	Name       string // its name in the kernel, at most 511 bytes
}

// SymbolKind is the kind of code (enum perf_record_ksymbol_type of
// include/uapi/linux/perf_event.h). The kernel may have other kinds.
type SymbolKind uint16

// The kinds of code.
const (
	KsymBPF SymbolKind = 1 // of a BPF program, or made for one: a trampoline, a dispatcher
	KsymOOL SymbolKind = 2 // out of line: made for a kprobe or by ftrace
)

// A Program is an event in the life of a BPF program (struct perf_record_bpf_event of
// tools/lib/perf/include/perf/event.h). The record of a load comes after the records of the
// program's symbols.
type Program struct {
	Event ProgramEvent
	ID    uint32 // not reused before all others were used; some kernels of about 6.1 report 0 for an unload
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

// A Cgroup is a new cgroup of the hierarchy that perf events use: the one of cgroup v2, unless the controller perf_event
// is mounted as v1 (struct perf_record_cgroup of tools/lib/perf/include/perf/event.h).
type Cgroup struct {
	ID   uint64 // number of its directory's inode, on a 64-bit kernel; not reused
	Path string // from the root of the hierarchy, in whatever namespace this process is; see MaxCgroupPath
}

// MaxCgroupPath is the length in bytes that a cgroup's path in a record cannot reach. Of a longer one, the end is
// missing (perf_event_cgroup in kernel/events/core.c).
const MaxCgroupPath = 4096 - 8

// NoTask stands for a process or thread whose number is no longer in use (perf_event_pid_type
// in kernel/events/core.c gives -1).
const NoTask = ^uint32(0)

// ErrLost says that records of a [Thread] may be missing.
var ErrLost = errors.New("a ring had no room for records")

// ErrMalformed says that a record is not in the kernel's format.
var ErrMalformed = errors.New("malformed perf record")

// recordFields are the fields of samples, and those at the ends of other records (enum perf_event_sample_format of
// include/uapi/linux/perf_event.h).
type recordFields uint64

const (
	fieldIP        recordFields = 1 << 0
	fieldTID       recordFields = 1 << 1
	fieldTime      recordFields = 1 << 2
	fieldCallchain recordFields = 1 << 5
	fieldCPU       recordFields = 1 << 7
	fieldCgroup    recordFields = 1 << 21 // since Linux 5.7; in a sample, the id follows the stack

	nameFields   = fieldTime // records of names have the thread in their body
	endFields    = fieldTID | fieldTime | fieldCPU
	sampleFields = endFields | fieldIP | fieldCallchain
)

const (
	headerLen   = 8  // struct perf_event_header
	sampleIDLen = 24 // struct sample_id with endFields
	recordAlign = 8
)

// ksymbolUnregister is PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER.
const ksymbolUnregister = 1

// The CPU mode in the header's field misc.
const (
	cpuModeMask        = 7 // PERF_RECORD_MISC_CPUMODE_MASK
	cpuModeGuestKernel = 4 // PERF_RECORD_MISC_GUEST_KERNEL
	cpuModeGuestUser   = 5 // PERF_RECORD_MISC_GUEST_USER
)

// parse reads a record, header included. A sample has sampleFields, and fieldCgroup if has contains it; the end of another
// record has the fields of has that are endFields. It reports false for a type that is left out.
func parse(raw []byte, has recordFields) (r Record, ok bool, err error) {
	if len(raw) < headerLen {
		return Record{}, false, fmt.Errorf("%w: %d bytes", ErrMalformed, len(raw))
	}
	r.Type = Type(binary.NativeEndian.Uint32(raw))
	f := fields{raw[headerLen:], true}
	switch r.Type {
	case TypeSample:
		f.uint64() // the address, with which the stack begins, too
		r.PID, r.TID = f.uint32(), f.uint32()
		r.Time = int64(f.uint64())
		r.CPU = f.uint32()
		f.uint32()
		r.Stack = f.stack()
		if has&fieldCgroup != 0 {
			r.InCgroup = f.uint64()
		}
		r.Guest = isGuest(raw)
	case TypeLost:
		f.uint64()
		r.Lost = f.uint64()
		f.sampleID(&r, has)
	case TypeComm:
		pid, tid := f.uint32(), f.uint32()
		r.Comm = f.name()
		f.sampleID(&r, has)
		r.PID, r.TID = pid, tid
	case TypeFork, TypeExit:
		pid, _, tid, parent := f.uint32(), f.uint32(), f.uint32(), f.uint32()
		f.uint64()
		f.sampleID(&r, has)
		r.PID, r.TID, r.Parent = pid, tid, parent
	case TypeSwitch:
		f.uint32() // the process and thread on the other side of the switch
		f.uint32()
		f.sampleID(&r, has)
		r.Switch = switchOf(raw)
	case threadSwitch:
		r.Type = TypeSwitch
		f.sampleID(&r, has)
		r.Switch = switchOf(raw)
	case TypeThrottle:
		f.uint64()
		f.uint64()
		f.uint64()
		f.sampleID(&r, has)
	case TypeKsymbol:
		r.Symbol = f.symbol()
		f.sampleID(&r, has)
	case TypeBPFEvent:
		r.Program = f.program()
		f.sampleID(&r, has)
	case TypeCgroup:
		r.Cgroup = &Cgroup{ID: f.uint64(), Path: f.name()}
		f.sampleID(&r, has)
	default:
		return Record{}, false, nil
	}
	if !f.ok {
		return Record{}, false, fmt.Errorf("%w: type %d, %d bytes", ErrMalformed, r.Type, len(raw))
	}
	return r, true, nil
}

// isGuest reports whether a sample was taken in a guest. The kernel does not unwind guests, so
// these samples have no stack (perf_callchain_kernel in arch/x86/events/core.c). A timer fires
// just after the CPU has left the guest, and KVM attributes it to the guest
// (kvm_arch_pmi_in_guest in arch/x86/include/asm/kvm_host.h). On arm64, everything that happens
// while a guest's CPU is loaded counts as the guest's, including the work that KVM does for it.
func isGuest(raw []byte) bool {
	mode := binary.NativeEndian.Uint16(raw[4:]) & cpuModeMask
	return mode == cpuModeGuestKernel || mode == cpuModeGuestUser
}

// The flags of switches in the header's field misc.
const (
	switchOut        = 1 << 13 // PERF_RECORD_MISC_SWITCH_OUT
	switchOutPreempt = 1 << 14 // PERF_RECORD_MISC_SWITCH_OUT_PREEMPT
)

func switchOf(raw []byte) Switch {
	switch misc := binary.NativeEndian.Uint16(raw[4:]); {
	case misc&switchOut == 0:
		return SwitchIn
	case misc&switchOutPreempt == 0:
		return SwitchBlocked
	}
	return SwitchRunnable
}
