// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"fmt"
	"slices"
)

// maxForeign bounds the number of bytes kept of units that other units refer to, including their
// line tables.
const maxForeign = 16 << 20

// units holds the starts of the units of .debug_info, and caches parts of some units.
type units struct {
	sections *sections
	starts   []uint64
	abbrevs  map[abbrevKey]*abbreviations
	foreign  map[uint64]*unit // by start: units that other units refer to
}

// findUnits finds the start of each unit.
func findUnits(s *sections) (*units, error) {
	all := &units{sections: s, abbrevs: map[abbrevKey]*abbreviations{}, foreign: map[uint64]*unit{}}
	for off := uint64(0); off < s.info.Size(); {
		if len(all.starts) > maxRecords {
			return nil, errRecords
		}
		n, err := unitLength(s, off)
		if err != nil {
			return nil, fmt.Errorf("section %s: unit at %#x: %w", s.info.Name(), off, err)
		}
		all.starts = append(all.starts, off)
		off += n
	}
	return all, nil
}

// start returns the start of the unit that contains an offset.
func (us *units) start(off uint64) (uint64, error) {
	i, found := slices.BinarySearch(us.starts, off)
	if !found {
		i--
	}
	if i < 0 {
		return 0, fmt.Errorf("%w: no unit at %#x", ErrMalformed, off)
	}
	return us.starts[i], nil
}

// of returns the unit that contains an offset: either u, or another unit, which is cached for a
// while.
func (us *units) of(u *unit, off uint64) (*unit, error) {
	if off-u.off < uint64(len(u.data)) {
		return u, nil
	}
	start, err := us.start(off)
	if err != nil {
		return nil, err
	}
	if kept := us.foreign[start]; kept != nil {
		return kept, nil
	}
	other, err := us.read(start, nil)
	if err != nil {
		return nil, fmt.Errorf("unit at %#x: %w", start, err)
	}
	if off-start < uint64(other.dies) {
		return nil, fmt.Errorf("%w: reference to %#x, the header of a unit", ErrMalformed, off)
	}
	const unitSize = 1 << 10 // in memory, without its data
	if us.sections.kept += unitSize + len(other.data); us.sections.kept > maxForeign {
		clear(us.foreign)
		us.sections.kept = 0
	}
	us.foreign[start] = other
	return other, nil
}

// read reads the unit at an offset, into buf if that is large enough.
func (us *units) read(off uint64, buf []byte) (*unit, error) {
	n, err := unitLength(us.sections, off)
	if err != nil {
		return nil, err
	}
	if err := us.sections.spend(n); err != nil {
		return nil, err
	}
	if uint64(cap(buf)) < n {
		buf = make([]byte, n+n/4)
	}
	u := &unit{sections: us.sections, off: off, data: buf[:n]}
	if err := readAt(us.sections.info, u.data, off); err != nil {
		return nil, err
	}
	return u, us.readHeader(u)
}

func readAt(s section, into []byte, off uint64) error {
	_, err := s.ReadAt(into, int64(off))
	return err
}

// readHeader reads the header of a unit, its abbreviations and its first entry. A type unit gets
// neither of the latter.
func (us *units) readHeader(u *unit) error {
	r := reader{data: u.data, order: us.sections.order}
	_, u.format.wide = r.length()
	u.format.version = uint16(r.uint(2))
	if u.format.version < 2 || u.format.version > 5 {
		return fmt.Errorf("%w: DWARF version %d", ErrUnsupported, u.format.version)
	}
	typ := uint64(unitCompile)
	var addr, abbrevs uint64
	if u.format.version >= 5 {
		typ, addr = r.uint(1), r.uint(1)
		abbrevs = r.uint(u.format.offsetSize())
	} else {
		abbrevs = r.uint(u.format.offsetSize())
		addr = r.uint(1)
	}
	switch {
	case r.short:
		return errShort
	case typ == unitSkeleton || typ == unitSplitCompile || typ == unitSplitType:
		return fmt.Errorf("%w: split DWARF (.dwo files)", ErrUnsupported)
	case typ == unitType:
		u.dies = len(u.data)
		return nil
	case typ != unitCompile && typ != unitPartial:
		return fmt.Errorf("%w: unit of type %d", ErrUnsupported, typ)
	case addr != addrSize:
		return fmt.Errorf("%w: addresses of %d bytes", ErrUnsupported, addr)
	}
	u.dies = r.pos
	var err error
	if u.abbrevs, err = us.abbreviations(u, abbrevs); err != nil {
		return fmt.Errorf("abbreviations at %#x: %w", abbrevs, err)
	}
	return us.readRoot(u, &r)
}

// readRoot reads the first entry of a unit.
func (us *units) readRoot(u *unit, r *reader) error {
	a, err := u.abbreviation(r)
	if a == nil || err != nil {
		u.dies = len(u.data)
		return err
	}
	if err := u.attributes(r, a, &u.root); err != nil {
		return err
	}
	if r.short {
		return errShort
	}
	if _, ok := u.root.get(slotDwoName); ok {
		return fmt.Errorf("%w: split DWARF (.dwo files)", ErrUnsupported)
	}
	return nil
}

// maxAbbrevs is the number of abbreviation tables that are kept. Each unit has its own, unless a
// linker or dwz merged them.
const maxAbbrevs = 16

// abbreviations returns the abbreviations at an offset.
func (us *units) abbreviations(u *unit, off uint64) (*abbreviations, error) {
	key := abbrevKey{off, u.format}
	if a := us.abbrevs[key]; a != nil {
		return a, nil
	}
	r, err := us.sections.at(tableAbbrev, off)
	if err != nil {
		return nil, err
	}
	a, err := r.abbreviations(u.format)
	if err != nil {
		return nil, err
	}
	if len(us.abbrevs) >= maxAbbrevs {
		clear(us.abbrevs)
	}
	us.abbrevs[key] = a
	return a, us.sections.spend(uint64(r.pos) - off)
}

// An abbrevKey has everything that determines the meaning of abbreviations.
type abbrevKey struct {
	off    uint64
	format format
}
