// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"fmt"
	"strings"
	"unique"
)

// Origin is the kind of thing that kernel code belongs to.
type Origin uint8

// The origins, in the order in which they are listed in metrics.
const (
	OriginKernel     Origin = iota // the core kernel
	OriginModule                   // a loadable module
	OriginBPF                      // a JITed function of a BPF program
	OriginTrampoline               // a BPF trampoline, dispatcher or struct_ops image
	OriginOOL                      // an out-of-line page of ftrace or kprobes
	NumOrigins       = iota
)

// kinds is what is known of each origin: its name in metrics.
var kinds = [NumOrigins]string{"kernel", "module", "bpf", "trampoline", "ool"}

// String returns the origin's name in metrics.
func (o Origin) String() string {
	if int(o) < len(kinds) {
		return kinds[o]
	}
	return fmt.Sprintf("Origin(%d)", uint8(o))
}

// KernelName is the name of the image that is the core kernel.
const KernelName = "vmlinux"

// An Image is a piece of kernel code that is loaded and unloaded as one: the core
// kernel, a module, a function of a BPF program, a trampoline, a page of code that the
// kernel made out of line. It is immutable.
type Image struct {
	Start, End uint64 // its addresses, [Start, End)

	// Lifetime is when it certainly was there, in nanoseconds of CLOCK_BOOTTIME. It ends
	// at Forever while the image has not been unloaded; how far that is certain is known
	// to the table (see History.SetCertain).
	Lifetime Interval

	Origin   Origin
	TrueSize bool     // of a trampoline: it is as long as it was announced; see IsLong
	Program  *Program // what a BPF function is part of; nil if that is not known
	Lines    *Lines   // source lines of a BPF function; nil if there are none

	// MayBeNameless says that a BPF function has no name here because the kernel may have none for
	// it: only a list has shown it (contract 3.5).
	MayBeNameless bool

	// NamedSince is when a function's name became known. It had that before, too, if nothing
	// came or went unseen. It is 0 if the name was known when the lifetime began.
	NamedSince int64

	name unique.Handle[string]
	*Text
}

// Text is what the core kernel or a module has that other images have not. It is
// immutable.
type Text struct {
	BuildID string // GNU build id in lower-case hex, empty if it has none
	FileID  string // identifies the build in profiles, 32 hex digits, empty if it has none

	// Base is the address that offsets into the image count from: the lower of
	// _text and _stext of the core kernel, the address of .text of a module. It is 0 if
	// that is not known; then there is no build id and no file ID, either.
	Base uint64

	// Gap is what the image does not have of [Start, End): what lies between the text
	// of the core kernel and its init text.
	Gap Range

	*Landmarks // of the core kernel, else nil

	symbols symbols
}

// A Range is the addresses from Start up to, but not including, End.
type Range struct{ Start, End uint64 }

// Contains reports whether an address is in the range.
func (r Range) Contains(addr uint64) bool { return addr-r.Start < r.End-r.Start }

// Landmarks are the facts about the core kernel that decide what an address in a stack
// means (contract 2.3 and 3.5).
type Landmarks struct {
	Arch  string // as GOARCH
	Entry Range  // entry code: [__entry_text_start, __entry_text_end)
	Fred  Range  // asm_fred_entrypoint_kernel, entry code elsewhere

	// Thunks are the indirect and return thunks of x86, in the order of their addresses. They
	// do not overlap.
	Thunks []Range

	// SharedTrampolines says that the kernel puts BPF trampolines into pages that hold
	// other code, too, although it announces a whole page for each.
	SharedTrampolines bool
}

// IsEntry reports whether an address lies in entry code.
func (l *Landmarks) IsEntry(addr uint64) bool { return l.Entry.Contains(addr) || l.Fred.Contains(addr) }

// IsThunk reports whether an address lies in an indirect or return thunk.
func (l *Landmarks) IsThunk(addr uint64) bool { return l.hasThunk(addr, addr) }

// IsNear reports whether an address or one next to it lies in entry code or a thunk.
func (l *Landmarks) IsNear(addr uint64) bool {
	return l.hasThunk(addr-1, addr+1) || l.IsEntry(addr-1) || l.IsEntry(addr) || l.IsEntry(addr+1)
}

// hasThunk reports whether one of the addresses from first to last lies in a thunk.
func (l *Landmarks) hasThunk(first, last uint64) bool {
	low, high := 0, len(l.Thunks) // the first thunk that ends behind first is in between
	for low < high {
		if mid := int(uint(low+high) / 2); l.Thunks[mid].End <= first {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low < len(l.Thunks) && l.Thunks[low].Start <= last
}

// NewFunction returns an image with one symbol, the kernel's name for all of it, that is
// there since an instant. A function without a name owns its addresses and names nothing.
func NewFunction(origin Origin, name string, start uint64, size uint32, since int64) *Image {
	lifetime := Interval{From: since, To: Forever}
	return &Image{Start: start, End: start + uint64(size), Lifetime: lifetime, Origin: origin, name: unique.Make(name)}
}

// Of returns the function as part of a program, with lines.
func (m *Image) Of(p *Program, lines *Lines) *Image {
	of := *m
	of.Program, of.Lines = p, lines
	return &of
}

// Lived returns the image with another lifetime. What is known of a function only since that
// ended is not known then.
func (m *Image) Lived(lifetime Interval) *Image {
	lived := *m
	lived.Lifetime = lifetime
	if m.NamedSince != 0 && lifetime.To <= m.NamedSince {
		lived.name = unique.Make("")
	}
	if p := m.Program; p != nil && p.Since != 0 && lifetime.To <= p.Since {
		lived.Program, lived.Lines = nil, nil
	}
	return &lived
}

// Named returns the function with another name, which is known since an instant; see NamedSince.
func (m *Image) Named(name string, since int64) *Image {
	named := *m
	named.name, named.NamedSince, named.MayBeNameless = unique.Make(name), since, false
	return &named
}

// upTo returns the image as if it ended at end.
func (m *Image) upTo(end uint64) *Image {
	c := *m
	c.End = end
	return &c
}

// IsLong reports whether the image was announced longer than it is, so that it ends where
// the next one begins, and what is in its place can be something else (contract 3.5).
func (m *Image) IsLong() bool { return m.Origin == OriginTrampoline && !m.TrueSize }

// Name returns the image's name: KernelName, that of a module as the kernel writes it
// ("nf_tables"), or the kernel's symbol for a function, empty if it has none.
func (m *Image) Name() string { return m.name.Value() }

// IsLive reports whether the image has not been unloaded.
func (m *Image) IsLive() bool { return m.Lifetime.To == Forever }

// Contains reports whether addr is an address of the image.
func (m *Image) Contains(addr uint64) bool {
	return addr-m.Start < m.End-m.Start && (m.Text == nil || !m.Gap.Contains(addr))
}

// OffsetBase returns the address that offsets into the image count from, 0 if that is not known.
func (m *Image) OffsetBase() uint64 {
	if m.Text != nil {
		return m.Base
	}
	return m.Start
}

// Tag returns the tag of a function of a BPF program, 16 hex digits that stand
// in its symbol, "bpf_prog_TAG" or "bpf_prog_TAG_NAME" (bpf_get_prog_name in
// kernel/bpf/core.c); empty if it has none. The tag of a program's functions
// other than the first is not that of the program.
func (m *Image) Tag() string { return TagOf(m.Name()) }

// TagOf returns the tag in a symbol; see [Image.Tag].
func TagOf(symbol string) string {
	const digits = 16
	tag, ok := strings.CutPrefix(symbol, "bpf_prog_")
	if !ok || len(tag) < digits || len(tag) > digits && tag[digits] != '_' {
		return ""
	}
	return tag[:digits]
}

// A Program is what a BPF function is part of. It is immutable.
type Program struct {
	ID        uint32
	Functions uint32 // how many it has, 0 if that is not known
	Type      string // as bpftool has it ("xdp"), empty if that is not known
	Tag       string // 16 hex digits

	// Since is when it became known that the function is of this program. Before that, it was
	// too, if nothing came or went unseen. It is 0 if that was known when the lifetime began.
	Since int64
}

// sameAnswer reports whether two images say the same of an address in both: they are one
// load, or two loads of one build at one address.
func sameAnswer(a, b *Image) bool {
	switch {
	case a == b:
		return true
	case a.name != b.name || a.Start != b.Start || a.Origin != b.Origin:
		return false
	case a.Text != nil || b.Text != nil:
		return a.Text != nil && b.Text != nil && a.BuildID != "" && a.BuildID == b.BuildID && a.Base == b.Base
	case a.Program == nil || b.Program == nil:
		return a.Program == b.Program && a.End == b.End
	}
	return a.Program.ID == b.Program.ID && a.End == b.End
}
