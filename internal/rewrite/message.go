// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// message is the dictionary of a message, what its tables say, and how to append to
// them without duplicates. It knows no snapshot.
type message struct {
	dictionary
	attributes attributes
	strs       stringTable
	funcs      functions
	maps       mappings
}

func (m *message) begin(pd pprofile.Profiles) {
	m.dictionary = newDictionary(pd)
	m.strs.own = int32(m.strings.Len())
	m.maps.hasNone = m.mappings.Len() == 0 || isEmpty(m.mappings.At(0))
}

// end forgets the message, but keeps memory for the next.
func (m *message) end() {
	m.dictionary = dictionary{}
	m.attributes.referenced = nil
	m.attributes.index.built, m.strs.index.built = false, false
	m.funcs.appended.built, m.funcs.all.built = false, false
	m.funcs.kinds = m.funcs.kinds[:0]
	clear(m.maps.all)
	m.maps.all = m.maps.all[:0]
	m.maps.index.built = false
}

// bytes returns the size of the memory that is kept.
func (m *message) bytes() int {
	n := bytesOf(m.attributes.kinds) + bytesOf(m.funcs.kinds) + bytesOf(m.maps.all)
	for _, x := range [...]*index{&m.attributes.index, &m.strs.index, &m.funcs.appended, &m.funcs.all, &m.maps.index} {
		n += x.bytes()
	}
	return n
}

// eachProfile calls visit for all profiles, with the number of their resource and the
// name of their scope.
func (m *message) eachProfile(visit func(resource int, scope string, profile pprofile.Profile)) {
	for i, rp := range m.resources.All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, profile := range sp.Profiles().All() {
				visit(i, sp.Scope().Name(), profile)
			}
		}
	}
}

// isValid reports whether everything in the message that refers to an entry of a table
// refers to one that is there (contract 1.4), but for stacks and samples, which are checked
// where they are read. What does not would refer to something that is appended, and a frame
// could get another one's name.
func (m *message) isValid() bool {
	c := references{
		strings: uint(m.strings.Len()), attrs: uint(m.attrs.Len()), mappings: uint(m.mappings.Len()),
		functions: uint(m.functions.Len()),
	}
	if m.attributes.invalid || !c.tables(&m.dictionary) || !c.locations(&m.dictionary) {
		return false
	}
	valid := true
	m.eachProfile(func(_ int, _ string, profile pprofile.Profile) { valid = valid && c.profile(profile) })
	return valid
}

// references checks indices against the lengths of the tables.
type references struct{ strings, attrs, mappings, functions uint }

// in reports whether an index is one of a table. Index 0 is, also where the table was
// left out.
func in(index int32, length uint) bool { return uint(index) < length || index == 0 }

// allIn reports whether all indices are of a table.
func allIn(indices pcommon.Int32Slice, length uint) bool {
	for i := range indices.Len() {
		if !in(indices.At(i), length) {
			return false
		}
	}
	return true
}

// tables checks attributes, mappings and functions.
func (c *references) tables(d *dictionary) bool {
	for i := range d.attrs.Len() {
		if a := d.attrs.At(i); !in(a.KeyStrindex(), c.strings) || !in(a.UnitStrindex(), c.strings) {
			return false
		}
	}
	for i := range d.mappings.Len() {
		if m := d.mappings.At(i); !in(m.FilenameStrindex(), c.strings) || !allIn(m.AttributeIndices(), c.attrs) {
			return false
		}
	}
	for i := range d.functions.Len() {
		f := d.functions.At(i)
		if !in(f.NameStrindex(), c.strings) || !in(f.SystemNameStrindex(), c.strings) || !in(f.FilenameStrindex(), c.strings) {
			return false
		}
	}
	return true
}

func (c *references) locations(d *dictionary) bool {
	for i := range d.locations.Len() {
		loc := d.locations.At(i)
		if !in(loc.MappingIndex(), c.mappings) || !allIn(loc.AttributeIndices(), c.attrs) {
			return false
		}
		lines := loc.Lines()
		for k := range lines.Len() {
			if !in(lines.At(k).FunctionIndex(), c.functions) {
				return false
			}
		}
	}
	return true
}

func (c *references) profile(p pprofile.Profile) bool {
	for _, t := range [...]pprofile.ValueType{p.SampleType(), p.PeriodType()} {
		if !in(t.TypeStrindex(), c.strings) || !in(t.UnitStrindex(), c.strings) {
			return false
		}
	}
	return allIn(p.AttributeIndices(), c.attrs)
}
