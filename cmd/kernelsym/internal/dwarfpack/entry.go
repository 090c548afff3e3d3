// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import "fmt"

// attributes holds the attribute values of an entry that are needed.
type attributes struct {
	kind   kind   // of the entry
	has    uint32 // a bit for each slot
	values [numSlots]value
}

// get returns the value of an attribute, and false if the entry does not have it.
func (a *attributes) get(s slot) (value, bool) {
	return a.values[s], a.has&(1<<s) != 0
}

// number returns the value of an attribute that is a number, 0 if there is none.
func (a *attributes) number(s slot) uint64 {
	if v, ok := a.get(s); ok {
		return v.v
	}
	return 0
}

// attributes reads the attributes of an entry. Each one counts as work, because some take no bytes.
func (u *unit) attributes(r *reader, a *abbreviation, into *attributes) error {
	into.kind, into.has = a.kind, 0
	if err := u.sections.spend(uint64(len(a.attributes))); err != nil {
		return err
	}
	for i := range a.attributes {
		attr := &a.attributes[i]
		v := value{formImplicitConst, attr.implicit}
		if attr.form != formImplicitConst {
			var err error
			if v, err = r.value(attr.form, u.format); err != nil {
				return err
			}
		}
		if attr.slot != slotNone {
			into.has |= 1 << attr.slot
			into.values[attr.slot] = v
		}
	}
	return nil
}

// pass skips the attributes of an entry.
func (r *reader) pass(a *abbreviation, in format) error {
	if a.size != variable {
		r.next(uint64(a.size))
		return nil
	}
	for _, s := range a.steps {
		r.next(uint64(s.fixed))
		switch s.form {
		case 0:
		case formIndirect:
			if _, err := r.value(s.form, in); err != nil {
				return err
			}
		default:
			r.variable(s.form)
		}
	}
	return nil
}

// abbreviation reads the abbreviation of an entry. It returns nil at the end of a list of siblings.
func (u *unit) abbreviation(r *reader) (*abbreviation, error) {
	code := r.uleb()
	if code == 0 {
		return nil, nil //nolint:nilnil // the end of a list is no error
	}
	a := u.abbrevs.get(code)
	if a == nil {
		return nil, fmt.Errorf("%w: no abbreviation %d", ErrMalformed, code)
	}
	return a, nil
}
