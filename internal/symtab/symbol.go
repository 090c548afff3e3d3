// SPDX-License-Identifier: Apache-2.0

package symtab

import "math"

// A Symbol is the code at the addresses from Start up to, but not including, End, which has one name. The zero
// value stands for no symbol. Symbols of one image are comparable.
type Symbol struct {
	Start  uint64
	size   uint32
	number uint32 // of the symbol in its Text
}

// NewSymbol returns the symbol of code without a Text. It panics if the code is larger than 4 GiB.
func NewSymbol(start, end uint64) Symbol {
	if end-start > math.MaxUint32 {
		panic("symtab: symbol of more than 4 GiB")
	}
	return Symbol{Start: start, size: uint32(end - start)}
}

// Exists reports whether the symbol is not the zero value.
func (s Symbol) Exists() bool { return s.size != 0 }

// Contains reports whether the symbol covers an address.
func (s Symbol) Contains(addr uint64) bool { return addr-s.Start < uint64(s.size) }

// End returns the first address behind the symbol.
func (s Symbol) End() uint64 { return s.Start + uint64(s.size) }

// EndingAt returns the symbol without the addresses from end on, which is not below its start.
func (s Symbol) EndingAt(end uint64) Symbol {
	s.size = uint32(min(uint64(s.size), end-s.Start))
	return s
}
