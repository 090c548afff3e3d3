// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import "fmt"

// The kinds of entries in a list of ranges (section 7.25 of DWARF 5).
const (
	rangeEnd          = 0
	rangeBasex        = 1
	rangeStartxEndx   = 2
	rangeStartxLength = 3
	rangeOffsetPair   = 4
	rangeBase         = 5
	rangeStartEnd     = 6
	rangeStartLength  = 7
)

// address returns the address that a value stands for.
func (u *unit) address(v value) (uint64, error) {
	switch v.form {
	case formAddr:
		return v.v, nil
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4:
		return u.sections.indexed(tableAddr, u.root.number(slotAddrBase), v.v, addrSize)
	}
	return 0, fmt.Errorf("%w: %v of an address", ErrUnsupported, v.form)
}

// ranges calls add for the ranges of an entry.
func (u *unit) ranges(a *attributes, add func(start, end uint64)) error {
	if v, ok := a.get(slotRanges); ok {
		if u.format.version < 5 {
			return u.rangeList(v, add)
		}
		return u.rnglist(v, add)
	}
	low, ok := a.get(slotLowPC)
	high, ok2 := a.get(slotHighPC)
	if !ok || !ok2 {
		return nil
	}
	start, err := u.address(low)
	if err != nil {
		return err
	}
	switch high.form {
	case formData1, formData2, formData4, formData8, formUdata, formSdata, formImplicitConst:
		add(start, start+high.v)
		return nil
	}
	end, err := u.address(high)
	if err == nil {
		add(start, end)
	}
	return err
}

// baseAddress returns the address that a unit's ranges are relative to.
func (u *unit) baseAddress() (uint64, error) {
	low, ok := u.root.get(slotLowPC)
	if !ok {
		return 0, nil
	}
	return u.address(low)
}

// rangeList reads a list of .debug_ranges (section 2.17.3 of DWARF 4).
func (u *unit) rangeList(v value, add func(start, end uint64)) error {
	r, err := u.sections.at(tableRanges, v.v)
	if err != nil {
		return err
	}
	base, err := u.baseAddress()
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		start, end := r.uint(addrSize), r.uint(addrSize)
		switch {
		case n > maxRecords:
			return errRecords
		case r.short:
			return errShort
		case start == 0 && end == 0:
			return u.sections.spend(uint64(r.pos) - v.v)
		case start == ^uint64(0):
			base = end
		default:
			add(base+start, base+end)
		}
	}
}

// rnglist reads a list of .debug_rnglists.
func (u *unit) rnglist(v value, add func(start, end uint64)) error {
	off := v.v
	if v.form == formRnglistx {
		base := u.root.number(slotRnglistsBase)
		relative, err := u.sections.indexed(tableRnglists, base, v.v, u.format.offsetSize())
		if err != nil {
			return err
		}
		off = base + relative
	}
	r, err := u.sections.at(tableRnglists, off)
	if err != nil {
		return err
	}
	list := rangeReader{unit: u, r: r}
	if list.base, err = u.baseAddress(); err != nil {
		return err
	}
	for n := 0; ; n++ {
		start, end, err := list.next()
		switch {
		case n > maxRecords:
			return errRecords
		case err != nil:
			return err
		case list.done:
			return u.sections.spend(uint64(r.pos) - off)
		case start < end:
			add(start, end)
		}
	}
}

// A rangeReader reads a list of .debug_rnglists.
type rangeReader struct {
	unit *unit
	r    *reader
	base uint64
	done bool
}

// next reads an entry. It returns an empty range for one that only sets the base.
func (l *rangeReader) next() (start, end uint64, err error) {
	r := l.r
	switch kind := r.uint(1); kind {
	case rangeEnd:
		l.done = true
	case rangeBasex:
		l.base, err = l.indexed()
	case rangeStartxEndx:
		if start, err = l.indexed(); err == nil {
			end, err = l.indexed()
		}
	case rangeStartxLength:
		start, err = l.indexed()
		end = start + r.uleb()
	case rangeOffsetPair:
		start, end = l.base+r.uleb(), l.base+r.uleb()
	case rangeBase:
		l.base = r.uint(addrSize)
	case rangeStartEnd:
		start, end = r.uint(addrSize), r.uint(addrSize)
	case rangeStartLength:
		start = r.uint(addrSize)
		end = start + r.uleb()
	default:
		return 0, 0, fmt.Errorf("%w: entry of kind %d in a list of ranges", ErrUnsupported, kind)
	}
	if r.short {
		err = errShort
	}
	return start, end, err
}

// indexed reads the index of an address.
func (l *rangeReader) indexed() (uint64, error) {
	return l.unit.address(value{formAddrx, l.r.uleb()})
}
