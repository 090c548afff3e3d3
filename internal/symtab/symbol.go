// SPDX-License-Identifier: Apache-2.0

package symtab

// A Symbol names the kernel code in [Start, End). It is valid as long as its image is.
// The zero value is that of no symbol.
type Symbol struct {
	Start, End uint64
	Image      *Image
	number     uint32
}

// Name returns the symbol's names. Of a module's, the result is shared: the same
// symbol gives the same strings again while it is in use (see nameCache).
func (s Symbol) Name() *Name {
	if s.Image.Text == nil {
		name := s.Image.Name()
		return &Name{Name: name, System: name}
	}
	return s.Image.symbols.names.name(s.number)
}

// Len returns the number of addresses at which a symbol of the image starts.
func (m *Image) Len() int {
	switch {
	case m.Text != nil:
		return m.symbols.len()
	case m.Name() == "":
		return 0
	}
	return 1
}

// Symbol returns the image's symbol number i, counted from 0 in the order of
// their addresses. It panics if there is no such symbol.
func (m *Image) Symbol(i int) Symbol {
	if m.Text == nil {
		return Symbol{Start: m.Start, End: m.End, Image: m}
	}
	start := m.Start + uint64(m.symbols.extents[i].offset())
	return Symbol{Start: start, End: min(start+m.symbols.size(i), m.End), Image: m, number: uint32(i)}
}

// Lookup returns the symbol that covers an address of the image, the zero value if none
// does. It is exact: it never returns the nearest symbol. It does not allocate.
func (m *Image) Lookup(addr uint64) Symbol {
	if m.Text == nil {
		if m.Name() == "" || addr-m.Start >= m.End-m.Start {
			return Symbol{}
		}
		return Symbol{Start: m.Start, End: m.End, Image: m}
	}
	offset := addr - m.Start
	i := m.symbols.floor(uint32(offset))
	if i < 0 {
		return Symbol{}
	}
	start := uint64(m.symbols.extents[i].offset())
	end := start + m.symbols.size(i)
	if offset >= end {
		return Symbol{}
	}
	return Symbol{Start: m.Start + start, End: min(m.Start+end, m.End), Image: m, number: uint32(i)}
}
