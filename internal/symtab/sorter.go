// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"math/bits"
	"slices"
)

// A Sorter collects symbols in any order for a [Builder]: the kernel lists those
// of a module as they stand in its symbol table. Its zero value is ready for
// use. It keeps its memory for the next module and is not safe for concurrent
// use.
type Sorter struct {
	symbols, sorted []unsorted
	names           []byte
	builder         Builder
}

type unsorted struct {
	addr uint64
	from uint32 // in names
	len  uint16
	typ  byte
}

// Add adds a symbol; see [Builder.Add]. Of symbols with one address, the order
// in which they are added counts.
func (s *Sorter) Add(addr uint64, typ byte, name []byte) {
	if s.symbols == nil { // to grow from nothing would copy what a large module has several times
		s.symbols, s.names = make([]unsorted, 0, 1<<13), make([]byte, 0, 1<<18)
	}
	name = name[:min(len(name), MaxNameLen+1)] // of one that is too long, no more is needed
	s.symbols = append(s.symbols, unsorted{addr: addr, from: uint32(len(s.names)), len: uint16(len(name)), typ: typ})
	s.names = append(s.names, name...)
}

// Build makes a text of the symbols that lie in [info.Start, info.End), and resets the sorter. For the
// errors, see [Builder.Build].
func (s *Sorter) Build(info TextInfo) (*Text, error) {
	size := info.End - info.Start
	s.symbols = slices.DeleteFunc(s.symbols, func(u unsorted) bool { return u.addr-info.Start >= size })
	s.sort(info.Start, size)
	for _, u := range s.symbols {
		s.builder.Add(u.addr, u.typ, s.names[u.from:u.from+uint32(u.len)])
	}
	s.symbols, s.names = s.symbols[:0], s.names[:0]
	return s.builder.Build(info)
}

// sort sorts by the offset from start, which is below size, one byte of it after the other:
// to compare offsets takes several times as long. Equal ones stay in their order.
func (s *Sorter) sort(start, size uint64) {
	s.sorted = slices.Grow(s.sorted[:0], len(s.symbols))[:len(s.symbols)]
	for shift := 0; shift < bits.Len64(size); shift += 8 {
		var next [256 + 1]int // where one with that byte goes
		for i := range s.symbols {
			next[int(byte((s.symbols[i].addr-start)>>shift))+1]++
		}
		for i := range next[1:] {
			next[i+1] += next[i]
		}
		for _, u := range s.symbols {
			to := &next[byte((u.addr-start)>>shift)]
			s.sorted[*to] = u
			*to++
		}
		s.symbols, s.sorted = s.sorted, s.symbols
	}
}
