// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"cmp"
	"slices"
)

// A Text is the code of an image that has symbols of its own: the core kernel or a module, at the
// addresses where it is loaded. It is immutable.
type Text struct {
	// Start and End are the addresses [Start, End) of the code.
	Start, End uint64

	BuildID string // GNU build id in lower-case hex, empty if there is none
	FileID  string // identifies the build in profiles, 32 hex digits, empty if there is no build id

	// Base is the address that offsets count from: the lower of _text and _stext of the core kernel, the
	// start of .text of a module. It is 0 if it is not known; then there is no build id and no file ID.
	Base uint64

	// Gap lies in [Start, End) but is not part of the code: the addresses between the text of the core
	// kernel and its init text.
	Gap Range

	Landmarks *Landmarks // of the core kernel, else nil

	symbols symbols
	aliases []alias // in the order of their symbols
}

// An alias is a further name at the address of a symbol.
type alias struct {
	symbol uint32 // number
	name   string
}

// A Range is the addresses from Start up to, but not including, End.
type Range struct{ Start, End uint64 }

// Contains reports whether an address is in the range.
func (r Range) Contains(addr uint64) bool { return addr-r.Start < r.End-r.Start }

// Main returns the code up to the gap.
func (t *Text) Main() Range {
	if t.Gap != (Range{}) {
		return Range{t.Start, t.Gap.Start}
	}
	return Range{t.Start, t.End}
}

// Len returns the number of addresses at which a symbol starts.
func (t *Text) Len() int { return t.symbols.len() }

// Symbol returns symbol number i, counted from 0 in the order of the addresses. It panics if there is no
// such symbol.
func (t *Text) Symbol(i int) Symbol {
	start := t.Start + uint64(t.symbols.extents[i].offset())
	size := min(t.symbols.size(i), t.End-start)
	return Symbol{Start: start, size: uint32(size), number: uint32(i)}
}

// Lookup returns the symbol that covers an address of the code, the zero value if none does. It is exact: it
// never returns the nearest symbol. It does not allocate.
func (t *Text) Lookup(addr uint64) Symbol {
	offset := addr - t.Start
	i := t.symbols.floor(uint32(offset))
	if i < 0 {
		return Symbol{}
	}
	start := uint64(t.symbols.extents[i].offset())
	size := min(t.symbols.size(i), t.End-t.Start-start)
	if offset >= start+size {
		return Symbol{}
	}
	return Symbol{Start: t.Start + start, size: uint32(size), number: uint32(i)}
}

// Name returns the names of a symbol of the text. The result is shared: the same symbol has the same strings
// again while they are in use.
func (t *Text) Name(s Symbol) *Name { return t.symbols.names.name(s.number) }

// HasName reports whether one of the kernel's symbols at the start of a symbol has a name: the symbol's own, or one that
// was given up for it (see contract 3.3). The text must not be that of a pack.
func (t *Text) HasName(s Symbol, name string) bool {
	var buf [128]byte
	if own, _ := t.symbols.names.appendName(buf[:0], s.number); string(own) == name {
		return true
	}
	first, _ := slices.BinarySearchFunc(t.aliases, s.number, func(a alias, symbol uint32) int { return cmp.Compare(a.symbol, symbol) })
	for _, a := range t.aliases[first:] {
		if a.symbol != s.number {
			break
		}
		if a.name == name {
			return true
		}
	}
	return false
}
