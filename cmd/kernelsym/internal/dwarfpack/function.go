// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"fmt"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// maxOrigins bounds the number of entries that lead from a function to its name.
const maxOrigins = 16

// functions holds the functions of one unit at a time, by the offsets of their entries.
type functions struct {
	units *units
	files *files
	w     *pack.Writer
	known map[uint64]pack.Function // of the unit
	attrs attributes               // of the entry being read
}

// at returns the function that the entry at an offset of .debug_info describes, or 0 if it has no
// name.
func (fs *functions) at(u *unit, off uint64) (pack.Function, error) {
	if f, ok := fs.known[off]; ok {
		return f, nil
	}
	var d declaration
	at := off
	for range maxOrigins {
		in, err := fs.units.of(u, at)
		if err != nil {
			return 0, err
		}
		next, more, err := fs.describe(in, at, &d)
		if err != nil {
			return 0, fmt.Errorf("entry at %#x: %w", at, err)
		}
		if !more {
			if d.file == 0 {
				d.line = 0
			}
			var f pack.Function
			if d.name() != "" {
				f = fs.w.Function(d.name(), d.file, d.line)
			}
			fs.known[off] = f
			return f, nil
		}
		at = next
	}
	return 0, fmt.Errorf("entry at %#x: %w: %d origins", off, ErrMalformed, maxOrigins)
}

// A declaration is the description of a function. Each field comes from the first entry that has
// it.
type declaration struct {
	linkage, plain string
	file           pack.File
	line           uint32
}

// name returns the linkage name or, if there is none, the plain name.
func (d *declaration) name() string {
	if d.linkage != "" {
		return d.linkage
	}
	return d.plain
}

// describe adds the description in the entry at an offset, and returns the entry that has more.
func (fs *functions) describe(u *unit, off uint64, d *declaration) (next uint64, more bool, err error) {
	r := reader{data: u.data, pos: int(off - u.off), order: u.sections.order}
	a, err := u.abbreviation(&r)
	if err != nil {
		return 0, false, err
	}
	if a == nil {
		return 0, false, fmt.Errorf("%w: no entry", ErrMalformed)
	}
	attrs := &fs.attrs
	if err := u.attributes(&r, a, attrs); err != nil {
		return 0, false, err
	}
	if r.short {
		return 0, false, errShort
	}
	if err := u.name(attrs, slotLinkageName, &d.linkage); err != nil {
		return 0, false, err
	}
	if err := u.name(attrs, slotName, &d.plain); err != nil {
		return 0, false, err
	}
	if v, ok := attrs.get(slotDeclFile); ok && d.file == 0 {
		if d.file, err = fs.files.number(u, v.v); err != nil {
			return 0, false, err
		}
	}
	if line := attrs.number(slotDeclLine); d.line == 0 && line <= maxLine {
		d.line = uint32(line)
	}
	for _, s := range [...]slot{slotOrigin, slotSpecification} {
		if v, ok := attrs.get(s); ok {
			next, err = u.reference(v)
			return next, true, err
		}
	}
	return 0, false, nil
}

// name reads a name, unless it is already known.
func (u *unit) name(attrs *attributes, s slot, name *string) error {
	v, ok := attrs.get(s)
	if !ok || *name != "" {
		return nil
	}
	var err error
	*name, err = u.string(u.data, v)
	return err
}
