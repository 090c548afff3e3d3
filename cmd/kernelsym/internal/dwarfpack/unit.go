// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import "fmt"

// A unit is a unit of .debug_info, in memory.
type unit struct {
	sections *sections
	format   format
	off      uint64 // in .debug_info
	data     []byte // from its header on
	abbrevs  *abbreviations
	dies     int        // where its first entry begins
	root     attributes // of its first entry
	files    *fileTable // nil until needed
}

// The types of units (section 7.5.1 of DWARF 5).
const (
	unitCompile      = 1
	unitType         = 2
	unitPartial      = 3
	unitSkeleton     = 4
	unitSplitCompile = 5
	unitSplitType    = 6
)

// unitLength returns the length of the unit at an offset, including its header.
func unitLength(s *sections, off uint64) (uint64, error) {
	var header [12]byte
	b := header[:min(uint64(len(header)), s.info.Size()-off)]
	if _, err := s.info.ReadAt(b, int64(off)); err != nil {
		return 0, err
	}
	r := reader{data: b, order: s.order}
	n, _ := r.length()
	if left := s.info.Size() - off - uint64(r.pos); r.short || n > left {
		return 0, errShort
	}
	if n > maxTable {
		return 0, fmt.Errorf("%w: %d bytes", ErrUnsupported, n)
	}
	return n + uint64(r.pos), nil
}

// isC reports whether the unit's language is C (section 7.12 of DWARF 5). In C, functions occur
// only in the unit itself, not in other entries.
func (u *unit) isC() bool {
	switch u.root.number(slotLanguage) {
	case 0x01, 0x02, 0x0c, 0x1d, 0x2c, 0x3e: // C89, C, C99, C11, C17, C23
		return true
	}
	return false
}

// reference returns the offset in .debug_info of the entry that a value refers to.
func (u *unit) reference(v value) (uint64, error) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		if v.v < uint64(u.dies) || v.v >= uint64(len(u.data)) {
			return 0, fmt.Errorf("%w: reference to %#x of the unit at %#x", ErrMalformed, v.v, u.off)
		}
		return u.off + v.v, nil
	case formRefAddr:
		return v.v, nil
	}
	return 0, fmt.Errorf("%w: %v of a reference (dwz with a supplementary file?)", ErrUnsupported, v.form)
}
