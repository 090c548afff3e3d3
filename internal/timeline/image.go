// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unique"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// Origin is the kind of kernel code.
type Origin uint8

// The origins, in the order in which metrics list them.
const (
	OriginKernel     Origin = iota // the core kernel
	OriginModule                   // a loadable module
	OriginBPF                      // a JITed function of a BPF program
	OriginTrampoline               // a BPF trampoline, dispatcher or struct_ops image
	OriginOOL                      // an out-of-line page of ftrace or kprobes
	NumOrigins       = iota
)

// String returns the origin's name in metrics.
func (o Origin) String() string {
	return [NumOrigins]string{"kernel", "module", "bpf", "trampoline", "ool"}[o]
}

// KernelName is the name of the image that is the core kernel.
const KernelName = "vmlinux"

// An Image is a piece of kernel code that is loaded and unloaded as one: the core kernel, a module, a
// function of a BPF program, a trampoline, a page of code that the kernel made out of line. It is
// immutable.
type Image struct {
	Start, End uint64 // its addresses, [Start, End)

	// Lifetime is the interval in which the image was certainly loaded, in nanoseconds of
	// CLOCK_BOOTTIME. It ends at Forever while the image is loaded; the table says until when that is
	// certain (see Builder.SetCertain).
	Lifetime Interval

	Origin Origin

	// EndKnown says that the image is as long as it was announced. A trampoline is announced with the
	// length of a page, and a module can be announced too long; such an image ends where the next one
	// begins.
	EndKnown bool

	// MayBeNameless says that a BPF function has no name here because the kernel may have none for
	// it: only a list has shown it (see contract 3.5).
	MayBeNameless bool

	// IsLocated says of the core kernel that its addresses were found out although the kernel hides them (see contract 10.5).
	IsLocated bool

	TypeID uint32 // of a BPF function: the number of its type in the program's BTF; 0 if that is not known

	Program *Program      // the program that a BPF function belongs to; nil if it is not known
	Lines   *symtab.Lines // source lines of a BPF function; nil if there are none

	// NamedSince is the instant at which the name of a function became known. The function had it before,
	// too, if nothing was loaded or unloaded unseen. It is 0 if the name was known from the start.
	NamedSince int64

	Text *symtab.Text // of the core kernel and of modules, else nil
	name unique.Handle[string]
}

// A Program is the BPF program of a function. It is immutable.
type Program struct {
	ID        uint32
	Functions uint32 // how many functions it has, 0 if that is not known
	Type      string // as bpftool prints it ("xdp"), empty if it is not known
	Tag       string // 16 hex digits

	// Since is the instant at which it became known that the function belongs to this program. It did
	// before, too, if nothing was loaded or unloaded unseen. It is 0 if that was known from the start.
	Since int64
}

// NewImage returns an image that has a text: the core kernel, or a module, whose name is written as the
// kernel writes it ("nf_tables").
func NewImage(origin Origin, name string, text *symtab.Text, lifetime Interval) *Image {
	return &Image{
		Start: text.Start, End: text.End, Lifetime: lifetime, Origin: origin, EndKnown: origin == OriginKernel,
		Text: text, name: unique.Make(name),
	}
}

// NewFunction returns an image with one symbol, the kernel's name for all of it, that is loaded since an
// instant. A function without a name owns its addresses and names nothing. The end of a trampoline is
// not known, unless it is a dispatcher, which has a page of its own.
func NewFunction(origin Origin, name string, start uint64, size uint32, since int64) *Image {
	return &Image{
		Start: start, End: start + uint64(size), Lifetime: Since(since), Origin: origin,
		EndKnown: origin != OriginTrampoline || strings.HasPrefix(name, "bpf_dispatcher_"), name: unique.Make(name),
	}
}

// IsFunction reports whether the image is code that has one symbol, the kernel's for all of it: a function of a BPF program,
// a trampoline, or a page. Others, the core kernel and modules, have a text with symbols.
func (m *Image) IsFunction() bool { return m.Text == nil }

// AsLocated returns the core kernel as one that was located.
func (m *Image) AsLocated() *Image {
	c := *m
	c.IsLocated = true
	return &c
}

// WithProgram returns the function as part of a program, with source lines.
func (m *Image) WithProgram(p *Program, lines *symtab.Lines) *Image {
	c := *m
	c.Program, c.Lines = p, lines
	return &c
}

// WithType returns the function with the number of its type in the program's BTF.
func (m *Image) WithType(id uint32) *Image {
	c := *m
	c.TypeID = id
	return &c
}

// WithName returns the function with another name, which is known since an instant; see NamedSince.
func (m *Image) WithName(name string, since int64) *Image {
	c := *m
	c.name, c.NamedSince, c.MayBeNameless = unique.Make(name), since, false
	return &c
}

// WithLifetime returns the image with another lifetime. What became known of a function only after that
// lifetime is dropped.
func (m *Image) WithLifetime(lifetime Interval) *Image {
	c := *m
	c.Lifetime = lifetime
	if m.NamedSince != 0 && lifetime.To <= m.NamedSince {
		c.name = unique.Make("")
	}
	if p := m.Program; p != nil && p.Since != 0 && lifetime.To <= p.Since {
		c.Program, c.Lines, c.TypeID = nil, nil, 0
	}
	return &c
}

// endingAt returns the image without the addresses from end on.
func (m *Image) endingAt(end uint64) *Image {
	c := *m
	c.End = end
	return &c
}

// Name returns the image's name: KernelName, the name of a module, or the kernel's symbol for a function,
// which is empty if there is none.
func (m *Image) Name() string { return m.name.Value() }

// IsLoaded reports whether the image has not been unloaded.
func (m *Image) IsLoaded() bool { return m.Lifetime.To == Forever }

// Contains reports whether addr is an address of the image.
func (m *Image) Contains(addr uint64) bool {
	return addr-m.Start < m.End-m.Start && (m.IsFunction() || !m.Text.Gap.Contains(addr))
}

// Yields reports whether an address that the image shares with another is the other's: a trampoline
// that was announced with a page (see contract 3.5).
func (m *Image) Yields() bool { return m.IsFunction() && !m.EndKnown }

// Lookup returns the symbol that covers an address of the image, the zero value if none does. It does not
// allocate.
func (m *Image) Lookup(addr uint64) symtab.Symbol {
	if !m.IsFunction() {
		symbol := m.Text.Lookup(addr)
		if m.End < m.Text.End && symbol.Exists() {
			symbol = symbol.EndingAt(m.End)
		}
		return symbol
	}
	if m.Name() == "" || addr-m.Start >= m.End-m.Start {
		return symtab.Symbol{}
	}
	return symtab.NewSymbol(m.Start, m.End)
}

// SymbolName returns the names of a symbol of the image.
func (m *Image) SymbolName(s symtab.Symbol) *symtab.Name {
	if !m.IsFunction() {
		return m.Text.Name(s)
	}
	return &symtab.Name{Name: m.Name(), System: m.Name()}
}

// Len returns the number of symbols of the image.
func (m *Image) Len() int {
	switch {
	case !m.IsFunction():
		return m.Text.Len()
	case m.Name() == "":
		return 0
	}
	return 1
}

// Symbols yields the symbols of the image, in the order of their addresses.
func (m *Image) Symbols() iter.Seq[symtab.Symbol] {
	return func(yield func(symtab.Symbol) bool) {
		if m.IsFunction() {
			if m.Name() != "" {
				yield(symtab.NewSymbol(m.Start, m.End))
			}
			return
		}
		for i := range m.Text.Len() {
			if symbol := m.Text.Symbol(i); symbol.Start >= m.End || !yield(symbol.EndingAt(m.End)) {
				return
			}
		}
	}
}

// Base returns the address that offsets into the image count from, 0 if it is not known.
func (m *Image) Base() uint64 {
	if !m.IsFunction() {
		return m.Text.Base
	}
	return m.Start
}

// BuildID returns the GNU build id of the core kernel or of a module, empty if there is none.
func (m *Image) BuildID() string {
	if m.IsFunction() {
		return ""
	}
	return m.Text.BuildID
}

// FileID returns the file ID of the image (see contract 4.2, 4.3), which is the same on each machine that has its content.
// It is empty for a module without build id.
func (m *Image) FileID() string {
	if !m.IsFunction() {
		return m.Text.FileID
	}
	return buildid.ContentFileID(m.content(m.Lines))
}

// LoadedFileID returns the file ID of the image at the addresses where it is loaded, which differ from
// boot to boot (see contract 4.2, 4.3). It is empty for a module without build id.
func (m *Image) LoadedFileID() string {
	switch {
	case m.IsFunction():
		return buildid.LoadedFileID(m.content(m.Lines), m.Start)
	case m.Text.BuildID == "":
		return ""
	}
	return buildid.LoadedFileID(m.Text.BuildID, m.Text.Base)
}

// HasFileID reports whether a file ID is one of the image: FileID or, if loads is true, LoadedFileID; now or before the
// source lines of a function became known.
func (m *Image) HasFileID(id string, loads bool) bool {
	if !m.IsFunction() {
		return id == m.Text.FileID || loads && id == m.LoadedFileID()
	}
	anywhere, here := m.functionFileIDs()
	return slices.Contains(anywhere, id) || loads && slices.Contains(here, id)
}

// functionFileIDs returns the file IDs of an image without Text: those of its content, wherever it is loaded, and those
// of this load.
func (m *Image) functionFileIDs() (anywhere, here []string) {
	anywhere, here = []string{m.FileID()}, []string{m.LoadedFileID()}
	if m.Lines != nil {
		before := m.content(nil)
		anywhere, here = append(anywhere, buildid.ContentFileID(before)), append(here, buildid.LoadedFileID(before, m.Start))
	}
	return anywhere, here
}

// hasContentOf reports whether an image without Text certainly has the file IDs of another.
func (m *Image) hasContentOf(other *Image) bool {
	return m.name == other.name && m.Start == other.Start && m.End == other.End && m.Origin == other.Origin &&
		m.Lines == other.Lines
}

// content identifies the content of an image without Text, so that one offset has one name, file and line (see contract 4.3):
// its symbol and, for a BPF function, its length and the digest of its source lines. One symbol can have several images:
// the verifier inlines what it knows of maps and constants, and the JIT compiler depends on the kernel and the CPU.
func (m *Image) content(lines *symtab.Lines) string {
	switch {
	case m.Origin != OriginBPF:
		return m.Name()
	case lines == nil:
		return fmt.Sprintf("%s:%d", m.Name(), m.End-m.Start)
	}
	return fmt.Sprintf("%s:%d:%s", m.Name(), m.End-m.Start, lines.Digest())
}

// Tag returns the tag of a function of a BPF program; see TagOf. The tag of a program's functions other
// than the first is not that of the program.
func (m *Image) Tag() string { return TagOf(m.Name()) }

// TagOf returns the tag in a symbol, "bpf_prog_TAG" or "bpf_prog_TAG_NAME" (bpf_get_prog_name in
// kernel/bpf/core.c): 16 hex digits, or nothing if the symbol has none.
func TagOf(symbol string) string {
	const digits = 16
	tag, ok := strings.CutPrefix(symbol, "bpf_prog_")
	if !ok || len(tag) < digits || len(tag) > digits && tag[digits] != '_' {
		return ""
	}
	return tag[:digits]
}

// sameAnswer reports whether two images say the same of an address in both: they are one load, or two
// loads of one build at one address.
func sameAnswer(a, b *Image) bool {
	switch {
	case a == b:
		return true
	case a.name != b.name || a.Start != b.Start || a.Origin != b.Origin:
		return false
	case !a.IsFunction() || !b.IsFunction():
		return a.BuildID() != "" && a.BuildID() == b.BuildID() && a.Base() == b.Base()
	case a.Program == nil || b.Program == nil:
		return a.Program == b.Program && a.End == b.End
	}
	return a.Program.ID == b.Program.ID && a.End == b.End
}
