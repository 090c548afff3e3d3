// SPDX-License-Identifier: Apache-2.0

package symbolize

import (
	"strings"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// This file is contract 2.2 and 2.3: which role each frame of a stack has, and at which address a frame in
// that role is looked up.

// A Producer is who sent a frame, as far as that decides what its address means.
type Producer uint8

// The producers.
const (
	OtherProducer Producer = iota // sends instruction pointers as they were
	EBPFProfiler                  // the OTel eBPF profiler, which subtracts 1 from each (contract 2.2)
	OtherHost                     // a profile of another host or boot, whose frames are left alone
	NumProducers  = iota
)

// ProducerOf returns the producer of the profiles of a scope: EBPFProfiler for the OTel eBPF profiler and its
// forks, else OtherProducer.
func ProducerOf(scope string) Producer {
	switch {
	case strings.HasPrefix(scope, "go.opentelemetry.io/ebpf-profiler"), strings.HasSuffix(scope, "/ebpf-profiler"),
		scope == "ebpf-profiler", scope == "parca-agent":
		return EBPFProfiler
	}
	return OtherProducer
}

// A RoleKind says what the instruction pointer of a frame is.
type RoleKind uint8

// The kinds of roles.
const (
	Caller        RoleKind = iota // a return address, the byte after a call instruction
	Exact                         // the address of the instruction that the CPU was about to execute
	AfterThunk                    // exact if it is the first byte of a symbol, which lookup.find decides, else a return address
	Interruptible                 // exact or a return address, as entry code is not known
	Unknown                       // one of the first two
	numRoleKinds
)

// A Role is the part of a frame in a stack. Roles are comparable.
type Role struct {
	Kind     RoleKind
	Producer Producer

	// Caller is the next frame of the stack. It is set only where the frame may lie in a BPF trampoline, as
	// it is evidence for that (see contract 3.5).
	Caller *Frame
}

// NumPlainRoles is the number of roles without a caller.
const NumPlainRoles = int(numRoleKinds) * NumProducers

// Number returns the number of a role without a caller, less than NumPlainRoles. RoleNumber is its inverse.
func (r Role) Number() int { return int(r.Kind)*NumProducers + int(r.Producer) }

// RoleNumber returns the role with a number.
func RoleNumber(n int) Role {
	return Role{Kind: RoleKind(n / NumProducers), Producer: Producer(n % NumProducers)}
}

// Possible returns the roles that a frame whose role is Unknown may have. Its caller is no evidence for either.
func (r Role) Possible() (caller, exact Role) {
	return Role{Kind: Caller, Producer: r.Producer}, Role{Kind: Exact, Producer: r.Producer}
}

// A Walk goes through the frames of one stack, leaf first.
type Walk struct {
	kernel   *Kernel
	producer Producer
	before   codeKind               // what the frame before the next one lies in
	kinds    [numCodeKinds]RoleKind // of an ordinary frame, by the code before it
}

// codeKind is a kind of code that decides the role of the frame it was entered from.
type codeKind uint8

const (
	nothingBefore codeKind = iota // the next frame is the leaf
	ordinaryCode
	entryCode   // interrupts, exceptions and system calls enter the kernel here
	thunkCode   // an indirect or return thunk, which is jumped to and jumps
	unknownCode // perhaps entry code or a thunk
	numCodeKinds
)

// Walk begins a stack. In a profile of another host, all frames have the same role.
//
//	before            the frame itself                    role
//	nothing                                               Exact
//	entry code        in entry code                       Caller     entry code calls entry code
//	entry code        elsewhere                           Exact      interrupted
//	a thunk                                               AfterThunk
//	perhaps either    in entry code, not a first byte     Caller     in both cases
//	perhaps either    elsewhere                           Unknown
//	anything else                                         Caller     Interruptible without the core kernel
func (k *Kernel) Walk(p Producer) Walk {
	w := Walk{kernel: k, producer: p}
	if p == OtherHost {
		return w
	}
	w.kinds = [...]RoleKind{
		nothingBefore: Exact, ordinaryCode: Caller, entryCode: Exact, thunkCode: AfterThunk, unknownCode: Unknown,
	}
	if k.lacksCore() {
		w.kinds[ordinaryCode] = Interruptible
	}
	return w
}

// IsOrdinary reports whether a frame decides no role, and its own role needs no caller. Nearly all frames are ordinary.
func (f *Frame) IsOrdinary() bool { return f.decides == decidesNothing && !f.mayBeTrampoline }

// NextOrdinary passes an ordinary frame and returns its role. It also passes a frame that is no kernel code; then the
// role means nothing.
func (w *Walk) NextOrdinary() Role {
	role := Role{Kind: w.kinds[w.before], Producer: w.producer}
	w.before = ordinaryCode
	return role
}

// Next passes a frame and returns its role. caller is the next frame, nil if it is no kernel code.
func (w *Walk) Next(f, caller *Frame) Role {
	before := w.before
	role := w.NextOrdinary()
	if w.producer == OtherHost {
		return role
	}
	if before == entryCode && w.isInEntryCode(f) || before == unknownCode && w.isInEntryCode(f) && !w.isFirstByte(f) {
		role.Kind = Caller
	}
	if f.mayBeTrampoline && role.Kind != Unknown {
		role.Caller = caller
	}
	w.before = w.kernel.codeOf(f, role)
	return role
}

// NeedsCaller reports whether Walk.Next must be told the next frame.
func (f *Frame) NeedsCaller() bool { return f.mayBeTrampoline }

// codeOf returns the kind of code in which a frame in a role is looked up. Entry code and thunks belong to the
// core kernel, so it does not depend on the time.
func (k *Kernel) codeOf(f *Frame, r Role) codeKind {
	switch {
	case f.decides == decidesNothing:
		return ordinaryCode
	case f.decides == decidesUnknown && (k.lacksCore() || r.Producer == EBPFProfiler && f.isNamedBPF()):
		return ordinaryCode // without the core kernel, any frame may have been interrupted: Interruptible
	case f.decides == decidesUnknown:
		return unknownCode
	}
	if r.Kind != Unknown {
		return k.codeInRole(f, r)
	}
	caller, exact := r.Possible()
	code := k.codeInRole(f, caller)
	if code != k.codeInRole(f, exact) {
		return unknownCode
	}
	return code
}

func (k *Kernel) codeInRole(f *Frame, r Role) codeKind {
	l := k.newLookup(f, timeline.Always)
	_, addr := l.find(r)
	switch marks := landmarksOf(k.coreOf(f)); {
	case marks.IsEntry(addr):
		return entryCode
	case marks.IsThunk(addr):
		return thunkCode
	}
	return ordinaryCode
}

// isInEntryCode reports whether the instruction pointer of a frame lies in entry code.
func (w *Walk) isInEntryCode(f *Frame) bool {
	return f.decides == decidesByPlace && landmarksOf(w.kernel.coreOf(f)).IsEntry(f.ip(w.producer, f.image()))
}

// isFirstByte reports whether a symbol begins at the instruction pointer of a frame in entry code.
func (w *Walk) isFirstByte(f *Frame) bool {
	ip := f.ip(w.producer, f.image())
	return w.kernel.coreOf(f).Lookup(ip).Start == ip
}

// isNamedBPF reports whether a frame of the OTel eBPF profiler is a BPF frame (contract 2.5): it has a name, no
// mapping, and an offset in place of an address. Address 0 is none: that is how absolute addresses are hidden (see
// contract 4.1).
func (f *Frame) isNamedBPF() bool {
	return f.Named && f.Mapping == NoMapping && f.Address != 0 && !InKernelHalf(f.Address)
}

// ip returns the instruction pointer that a frame was sent for (contract 2.2). image is the image that a
// relative address counts from. For an address in looked-up form, it returns that.
func (f *Frame) ip(p Producer, image *timeline.Image) uint64 {
	addr := f.inMemory(image)
	if p == EBPFProfiler {
		addr++
	}
	return addr
}

// find looks a frame up in a role, and returns the address at which it did (contract 2.3).
func (l *lookup) find(r Role) (hit timeline.Hit, addr uint64) {
	ip := l.frame.ip(r.Producer, l.image)
	switch {
	case r.Kind == Exact, r.Producer != EBPFProfiler && l.frame.IsLookedUpForm():
		hit, _ = l.at(ip)
		return hit, ip
	case r.Kind == AfterThunk:
		if own, _ := l.at(ip); begins(own, ip) {
			return own, ip
		}
	}
	before, isWhole := l.at(ip - 1)
	switch {
	case before.Symbol.Exists() && r.Kind == Interruptible:
		if own, _ := l.at(ip); own != before {
			return timeline.Hit{Reason: timeline.ReasonUnresolved}, ip - 1
		}
	case isWhole && isUncovered(before):
		if own, _ := l.at(ip); begins(own, ip) {
			return own, ip
		}
	}
	return before, ip - 1
}

// isUncovered reports whether certainly no function, with or without a name, covers the address of a hit that holds for
// every part of its interval.
func isUncovered(hit timeline.Hit) bool {
	if hit.Image != nil {
		return !hit.Image.IsFunction() && !hit.Symbol.Exists()
	}
	return hit.Reason != timeline.ReasonUnobserved
}

// begins reports whether the symbol that was found at an address begins there.
func begins(hit timeline.Hit, addr uint64) bool {
	return hit.Symbol.Exists() && hit.Symbol.Start == addr
}
