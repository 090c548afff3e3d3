// SPDX-License-Identifier: Apache-2.0

package symtab

import "unique"

// A Symbol names the code at the addresses [Start, End). The zero value stands for no symbol.
type Symbol struct {
	Start, End uint64

	// A symbol of a Text is found by its number, as names are decoded only when they are asked for. Any
	// other symbol has the name itself.
	text   *Text
	number uint32
	name   unique.Handle[string]
}

// SymbolOf returns the symbol of code that has one name from its start to its end.
func SymbolOf(start, end uint64, name unique.Handle[string]) Symbol {
	return Symbol{Start: start, End: end, name: name}
}

// Exists reports whether the symbol is not the zero value.
func (s Symbol) Exists() bool { return s.End != 0 }

// Name returns the names of the symbol. For a symbol of a Text the result is shared: the same symbol
// returns the same strings again while they are in use.
func (s Symbol) Name() *Name {
	if s.text != nil {
		return s.text.symbols.names.name(s.number)
	}
	name := s.name.Value()
	return &Name{Name: name, System: name}
}

// EndingAt returns the symbol without the addresses from end on.
func (s Symbol) EndingAt(end uint64) Symbol {
	s.End = min(s.End, end)
	return s
}
