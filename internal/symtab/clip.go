package symtab

import "slices"

// Clipped returns the module as if its code ended at end: where something else
// begins, which may not have been known when it was built. Symbols above are left
// out. It returns the module itself if it ends there or before anyway.
func (m *Module) Clipped(end uint64) *Module {
	if end >= m.End {
		return m
	}
	c := &Module{ModuleInfo: m.ModuleInfo}
	c.End = max(end, m.Start)
	n := 0
	for n < m.Len() && m.Symbol(n).Start < c.End {
		n++
	}
	s := &c.symbols
	s.names = m.symbols.names // of which the first n are used
	s.extents = slices.Clone(m.symbols.extents[:n])
	for _, l := range m.symbols.large {
		if l.symbol < uint32(n) {
			s.large = append(s.large, l)
		}
	}
	if n > 0 {
		if last := m.Symbol(n - 1); last.End > c.End {
			s.setLastSize(uint32(c.End - last.Start))
		}
	}
	for range scanWidth {
		s.extents = append(s.extents, noExtent)
	}
	s.buildIndex()
	return c
}

// setLastSize sets the size of the last symbol, while there are no extents behind
// it.
func (s *symbols) setLastSize(size uint32) {
	last := len(s.extents) - 1
	if n := len(s.large); n > 0 && s.large[n-1].symbol == uint32(last) {
		s.large = s.large[:n-1]
	}
	if size >= largeSize {
		s.large = append(s.large, large{symbol: uint32(last), size: size})
	}
	s.extents[last] = newExtent(s.extents[last].offset(), size)
}
