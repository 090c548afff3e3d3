package symtab

import (
	"cmp"
	"slices"
)

// A Sorter collects symbols in any order for a [Builder]: the kernel lists those
// of a module as they stand in its symbol table. Its zero value is ready for
// use. It keeps its memory for the next module and is not safe for concurrent
// use.
type Sorter struct {
	symbols []unsorted
	names   []byte
}

type unsorted struct {
	addr     uint64
	from, to int // in names
	typ      byte
}

// Add adds a symbol; see [Builder.Add]. Of symbols with one address, the order
// in which they are added counts.
func (s *Sorter) Add(addr uint64, typ byte, name []byte) {
	from := len(s.names)
	s.names = append(s.names, name...)
	s.symbols = append(s.symbols, unsorted{addr: addr, from: from, to: len(s.names), typ: typ})
}

// Reset forgets the symbols.
func (s *Sorter) Reset() { s.symbols, s.names = s.symbols[:0], s.names[:0] }

// Build makes a module of the symbols that lie in [info.Start, info.End) and
// resets the sorter. Its errors are those of [Builder.Build].
func (s *Sorter) Build(info ModuleInfo) (*Module, error) {
	defer s.Reset()
	slices.SortStableFunc(s.symbols, func(a, b unsorted) int { return cmp.Compare(a.addr, b.addr) })
	var b Builder
	for _, sym := range s.symbols {
		if info.Start <= sym.addr && sym.addr < info.End {
			b.Add(sym.addr, sym.typ, s.names[sym.from:sym.to])
		}
	}
	return b.Build(info)
}
