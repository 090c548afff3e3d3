// SPDX-License-Identifier: Apache-2.0

package symbolize

import (
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Frame is a location of a profile, or any other address, with the statements of its producer. After
// [Kernel.Locate] the kernel that located it can answer questions about it.
type Frame struct {
	Address uint64   // as it was sent
	Mapping *Mapping // NoMapping if there is none
	Typed   bool     // it came with the frame type "kernel"
	Named   bool     // it came with a function name

	// MayBeOther says that the frame is kernel code in only one of the two readings of a message with
	// another entry 0 (see contract 1.6). It is no candidate, but it can decide the role of the next frame.
	MayBeOther bool

	form            form
	decides         decision
	isTimeless      bool
	mayBeTrampoline bool
}

// form says what an address counts from (contract 2).
type form uint8

const (
	formNone     form = iota // not known
	formAbsolute             // zero: it is an address in memory
	formInImage              // the base of the image that the mapping identifies
	formInModule             // the base of a module that the mapping names; which load, the time decides
)

// decision says whether a frame may decide the role of the next frame of its stack (see contract 2.3).
type decision uint8

const (
	decidesNothing decision = iota
	decidesByPlace          // it lies in or next to entry code or a thunk
	decidesUnknown          // it may lie in entry code or a thunk, and nothing says where it lies
)

// InKernelHalf reports whether an address lies in the kernel half of the address space of x86-64 and arm64.
func InKernelHalf(addr uint64) bool { return addr>>63 != 0 }

// IsKernelAddress reports whether an address lies in the kernel half and may be one of kernel code (contract 1.1c). The
// vsyscall page of x86-64 holds user code. The last page holds the numbers with which perf marks the parts of a stack
// (PERF_CONTEXT_MAX in include/uapi/linux/perf_event.h).
func IsKernelAddress(addr uint64) bool {
	const (
		page     = 1 << 12
		vsyscall = 0xffffffffff600000
	)
	return InKernelHalf(addr) && addr < 1<<64-page && (addr < vsyscall || addr >= vsyscall+page)
}

// IsKernelCode reports whether a frame without a frame type is kernel code (contract 1.1b, 1.1c), in both
// readings of its mapping if there are two. If it is in only one, IsKernelCode sets f.MayBeOther, unless the
// frame's address shows that it cannot decide anything.
func (k *Kernel) IsKernelCode(f *Frame) bool {
	name, inHalf := &f.Mapping.name, IsKernelAddress(f.Address)
	if f.Mapping.MayBeNone && !inHalf { // without a mapping, it is no kernel code
		f.MayBeOther = name.isKernel
		return false
	}
	is := inHalf
	switch {
	case name.inBracket:
		is = k.Snapshot().IsModule(name.module)
	case f.Mapping.File != "":
		is = name.isKernel
	}
	f.MayBeOther = !is && f.Mapping.MayBeNone && (!k.readsAbsolute() || k.Snapshot().Landmarks().IsNear(f.Address))
	return is
}

// Locate works out what the address of a frame means (contract 2), and what follows from that alone.
func (k *Kernel) Locate(f *Frame) {
	switch {
	case f.MayBeOther:
		f.decides = decidesUnknown
		return
	case k.gateway:
		k.locateInPack(f)
	case !InKernelHalf(f.Address):
		k.locateInImage(f)
	case k.readsAbsolute():
		f.form = formAbsolute
	}
	switch f.form {
	case formNone:
		f.isTimeless = true
		if k.mayBeInEntryCode(f) {
			f.decides = decidesUnknown
		}
		return
	case formInModule:
		return
	}
	core, image := k.coreOf(f), f.image()
	addr := f.inMemory(image)
	if (image == nil || image == core) && landmarksOf(core).IsNear(addr) { // an offset in a module does not lead out of it
		f.decides = decidesByPlace
	}
	switch {
	case f.form == formInImage, core != nil && core.Contains(addr-1) && core.Contains(addr) && core.Contains(addr+1):
		f.isTimeless = true
	case k.Snapshot().Landmarks().SharedTrampolines:
		f.mayBeTrampoline = k.Snapshot().MayBeTrampoline(addr-1, addr+2)
	}
}

// locateInImage finds what a relative address counts from: the image that the ids of its mapping identify or, if it has
// none, the file name.
func (k *Kernel) locateInImage(f *Frame) {
	m := f.Mapping
	switch image := k.imageOf(m); {
	case image != nil && image.Base() != 0:
		f.form = formInImage
	case m.namesModule():
		f.form = formInModule
	}
}

// locateInPack finds the image of the pack of a frame's build (contract 10.2).
func (k *Kernel) locateInPack(f *Frame) {
	if !f.canHavePack() {
		return
	}
	if image := k.imageOf(f.Mapping); image != nil && f.Address <= image.End-image.Base() {
		f.form = formInImage
	}
}

// image returns the image that a relative address counts from, nil if it is not known.
func (f *Frame) image() *timeline.Image {
	if f.form != formInImage {
		return nil
	}
	return f.Mapping.image
}

// coreOf returns the core kernel that the stack of a frame was in, nil if it is not known.
func (k *Kernel) coreOf(f *Frame) *timeline.Image {
	if k.gateway && f.canHavePack() {
		if image := k.imageOf(f.Mapping); image != nil && image.Origin == timeline.OriginKernel {
			return image
		}
	}
	return k.Snapshot().Core()
}

// canHavePack reports whether a frame identifies the build of its code, which a gateway needs.
func (f *Frame) canHavePack() bool {
	return f.Typed && !InKernelHalf(f.Address) && !f.Mapping.MayBeNone && f.Mapping.hasID()
}

// mayBeInEntryCode reports whether a frame whose address means nothing may lie in entry code or a thunk: its
// mapping may be that of a core kernel, and has no ids that identify it. A gateway does not know every core
// kernel.
func (k *Kernel) mayBeInEntryCode(f *Frame) bool {
	switch m := f.Mapping; {
	case !m.mayBeCore():
		return false
	case k.gateway:
		return !k.hasPack(f)
	case m.MayBeNone:
		return true
	default:
		return !m.name.isGuest && !m.hasID()
	}
}

// inMemory returns the address in memory that a frame was sent with, which counts from the base of an image
// unless it is absolute.
func (f *Frame) inMemory(image *timeline.Image) uint64 {
	if f.form == formAbsolute {
		return f.Address
	}
	return image.Base() + f.Address
}

// landmarksOf returns the landmarks of a core kernel, none if it is not known.
func landmarksOf(core *timeline.Image) *symtab.Landmarks {
	if core == nil || core.Text.Landmarks == nil {
		return &noLandmarks
	}
	return core.Text.Landmarks
}

var noLandmarks symtab.Landmarks

// IsAbsolute reports whether the frame was sent with an address in memory.
func (f *Frame) IsAbsolute() bool { return f.form == formAbsolute }

// IsLookedUpForm reports whether the frame was sent with the address at which it is looked up, whatever its
// role is. The OTel eBPF profiler never sends such frames (see contract 2.2).
func (f *Frame) IsLookedUpForm() bool { return f.form != formAbsolute && f.Mapping.isLookedUpForm() }

// IsTimeless reports whether what the frame is does not depend on the time: it is code of the core kernel, or
// its mapping identifies the build, or its address means nothing.
func (f *Frame) IsTimeless() bool { return f.isTimeless }

// WantsPack returns the ids of the pack that a gateway needs for a frame, empty if it needs none. It needs
// one for a candidate, and for any frame that may be in a core kernel, as that can decide the roles of others.
func (k *Kernel) WantsPack(f *Frame, isCandidate bool) (buildID, fileID string) {
	switch m := f.Mapping; {
	case !f.canHavePack():
	case f.form == formInImage && (isCandidate || m.image.Origin == timeline.OriginKernel):
		return m.image.BuildID(), ""
	case !k.hasPack(f) && (isCandidate || m.mayBeCore()):
		return m.BuildID, m.FileID
	}
	return "", ""
}

// hasPack reports whether a gateway has the pack of a frame's build.
func (k *Kernel) hasPack(f *Frame) bool { return f.canHavePack() && k.imageOf(f.Mapping) != nil }
