// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"math"
	"slices"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// An area is code at the addresses [start, end), whose first byte has the pack address pack.
type area struct {
	start, end uint64
	pack       uint32
}

// areas are sorted and do not overlap.
type areas []area

// find returns the area that contains an address, or nil.
func (a areas) find(addr uint64) *area {
	i, ok := slices.BinarySearchFunc(a, addr, func(a area, addr uint64) int {
		switch {
		case addr < a.start:
			return 1
		case addr >= a.end:
			return -1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &a[i]
}

// Offset returns the pack addresses of the code [start, end). These are addresses in the file: in
// the core kernel's ELF file, or in a module's debug information as [Section.ReadAt] relocates it.
// Offset returns false if the range is empty, is not code that a pack covers, or is not in one
// area.
func (f *File) Offset(start, end uint64) (pack.Range, bool) {
	a := f.areas.find(start)
	if a == nil || end > a.end || end <= start {
		return pack.Range{}, false
	}
	return pack.Range{Start: a.pack + uint32(start-a.start), End: a.pack + uint32(end-a.start)}, true
}

// Address returns the pack address of a symbol, or false if it is not in code that a pack covers.
func (f *File) Address(s *Symbol) (uint32, bool) {
	addr, ok := f.symbolAddress(s)
	if !ok || addr == math.MaxUint64 {
		return 0, false
	}
	r, ok := f.Offset(addr, addr+1)
	return r.Start, ok
}

// symbolAddress returns the address of a symbol, or false if it is not in a section of the file.
func (f *File) symbolAddress(s *Symbol) (uint64, bool) {
	switch {
	case !f.IsModule():
		return s.Value, true
	case int(s.Section) == 0 || int(s.Section) >= len(f.bases):
		return s.Value, false
	}
	return f.bases[s.Section] + s.Value, true
}
