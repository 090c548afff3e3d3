// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// ErrReference is the error of a message that refers to an entry that it does not have.
var ErrReference = errors.New("the message refers to an entry that is not in it")

// Check returns ErrReference if anything in the message refers to an entry behind the end of a table
// (contract 1.4). The message then passes untouched, and its candidates count as invalid: once something was
// appended, such a reference would be valid, and a frame could get the name of another.
func (m *Message) Check() error {
	c := checker{
		strings: m.Strings.table.Len(), attributes: m.Attributes.table.Len(), mappings: m.Mappings.table.Len(),
		functions: m.Functions.table.Len(), locations: m.Locations.table.Len(), stacks: m.Stacks.table.Len(),
	}
	switch {
	case m.Attributes.hasBadString, !c.checkAttributes(m.Attributes.table):
		return fmt.Errorf("%w: in the attribute table", ErrReference)
	case !c.checkMappings(m.Mappings.table):
		return fmt.Errorf("%w: in the mapping table", ErrReference)
	case !c.checkFunctions(m.Functions.table):
		return fmt.Errorf("%w: in the function table", ErrReference)
	case !c.checkLocations(m.Locations.table):
		return fmt.Errorf("%w: in the location table", ErrReference)
	case !m.Stacks.read(c.locations):
		return fmt.Errorf("%w: in the stack table", ErrReference)
	case !c.checkProfiles(m):
		return fmt.Errorf("%w: in a profile", ErrReference)
	}
	return nil
}

// checker has the lengths of the tables.
type checker struct{ strings, attributes, mappings, functions, locations, stacks int }

// in reports whether an index is one of a table. Index 0 is, also where the table was left out.
func in(index int32, length int) bool { return uint(index) < uint(length) || index == 0 }

func allIn(indices pcommon.Int32Slice, length int) bool {
	for i := range indices.Len() {
		if !in(indices.At(i), length) {
			return false
		}
	}
	return true
}

func (c *checker) checkAttributes(table pprofile.KeyValueAndUnitSlice) bool {
	for i := range table.Len() {
		if a := table.At(i); !in(a.KeyStrindex(), c.strings) || !in(a.UnitStrindex(), c.strings) {
			return false
		}
	}
	return true
}

func (c *checker) checkMappings(table pprofile.MappingSlice) bool {
	for i := range table.Len() {
		if m := table.At(i); !in(m.FilenameStrindex(), c.strings) || !allIn(m.AttributeIndices(), c.attributes) {
			return false
		}
	}
	return true
}

func (c *checker) checkFunctions(table pprofile.FunctionSlice) bool {
	for i := range table.Len() {
		f := table.At(i)
		if !in(f.NameStrindex(), c.strings) || !in(f.SystemNameStrindex(), c.strings) || !in(f.FilenameStrindex(), c.strings) {
			return false
		}
	}
	return true
}

func (c *checker) checkLocations(table pprofile.LocationSlice) bool {
	for i := range table.Len() {
		loc := table.At(i)
		if !in(loc.MappingIndex(), c.mappings) || !allIn(loc.AttributeIndices(), c.attributes) {
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

func (c *checker) checkProfiles(m *Message) bool {
	for p := range m.EachProfile() {
		for _, t := range [...]pprofile.ValueType{p.Profile.SampleType(), p.Profile.PeriodType()} {
			if !in(t.TypeStrindex(), c.strings) || !in(t.UnitStrindex(), c.strings) {
				return false
			}
		}
		if !allIn(p.Profile.AttributeIndices(), c.attributes) {
			return false
		}
		samples := p.Profile.Samples()
		for i := range samples.Len() {
			if s := samples.At(i); !in(s.StackIndex(), c.stacks) || !allIn(s.AttributeIndices(), c.attributes) {
				return false
			}
		}
	}
	return true
}
