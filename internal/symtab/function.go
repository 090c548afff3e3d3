package symtab

import (
	"strings"
	"unique"
)

// A Function is a piece of kernel code with one symbol that is loaded and
// unloaded by itself: a function of a BPF program, a trampoline, a page of code
// that the kernel made out of line. It is immutable.
type Function struct {
	Start  uint64 // its first address
	Size   uint32 // in bytes
	Slack  Slack  // how much longer than Valid it may have been there
	Origin Origin
	// Guessed says that Size is only the most that it can be, as the kernel does not
	// tell: the function ends where another begins.
	Guessed bool
	Valid   Interval // when it certainly was there

	name    unique.Handle[string]
	Program *Program // nil if that is not known, or it belongs to none
	Lines   *Lines   // nil if there are none
}

// NewFunction returns a function with the kernel's own symbol for it, without
// program and lines. The size of a trampoline is taken for a guess: what the kernel
// announces is a page.
func NewFunction(origin Origin, name string, start uint64, size uint32, valid Interval) *Function {
	return &Function{
		Start: start, Size: size, Valid: valid, Origin: origin, Guessed: origin == OriginTrampoline,
		name: unique.Make(name),
	}
}

// Of returns the function as part of a program, with lines.
func (f *Function) Of(p *Program, lines *Lines) *Function {
	of := *f
	of.Program, of.Lines = p, lines
	return &of
}

// End returns the address behind the function.
func (f *Function) End() uint64 { return f.Start + uint64(f.Size) }

// Name returns the kernel's symbol.
func (f *Function) Name() string { return f.name.Value() }

// Contains reports whether addr is an address of the function.
func (f *Function) Contains(addr uint64) bool { return addr-f.Start < uint64(f.Size) }

// Tag returns the tag of a function of a BPF program, 16 hex digits that stand
// in its symbol, "bpf_prog_TAG" or "bpf_prog_TAG_NAME" (bpf_get_prog_name in
// kernel/bpf/core.c); empty if it has none. The tag of a program's functions
// other than the first is not that of the program.
func (f *Function) Tag() string { return TagOf(f.Name()) }

// TagOf returns the tag in a symbol; see [Function.Tag].
func TagOf(symbol string) string {
	const digits = 16
	tag, ok := strings.CutPrefix(symbol, "bpf_prog_")
	if !ok || len(tag) < digits || len(tag) > digits && tag[digits] != '_' {
		return ""
	}
	return tag[:digits]
}

func (f *Function) lifetime() (Interval, Slack) { return f.Valid, f.Slack }

func (f *Function) span() (start uint64, size uint32) {
	if f.Guessed {
		return f.Start, f.Size | isGuess
	}
	return f.Start, f.Size
}

// A Program is what a BPF function is part of. It is immutable.
type Program struct {
	ID   uint32
	Type string // as bpftool has it ("xdp"), empty if that is not known
	Tag  string // 16 hex digits
}
