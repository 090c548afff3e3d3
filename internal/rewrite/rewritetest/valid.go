// SPDX-License-Identifier: Apache-2.0

// Package rewritetest helps to test the rewriting of profiles: it builds small messages, and checks
// that a message is valid.
package rewritetest

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// CheckValid returns an error for each rule of OTLP's profiles.proto that a message breaks: entry 0
// of each table is the zero value, all indices are in range, and a mapping's start is below its
// limit unless both are 0.
func CheckValid(pd pprofile.Profiles) error { return errors.Join(validity(pd)...) }

func validity(pd pprofile.Profiles) []error {
	c := checker{dict: pd.Dictionary()}
	c.zeroValues()
	c.ranges()
	c.tables()
	for i, rp := range pd.ResourceProfiles().All() {
		for k, sp := range rp.ScopeProfiles().All() {
			for l, profile := range sp.Profiles().All() {
				c.profile(fmt.Sprintf("profile %d.%d.%d", i, k, l), profile)
			}
		}
	}
	return c.errs
}

// dangling returns an error for each dangling reference between the tables.
func dangling(pd pprofile.Profiles) []error {
	c := checker{dict: pd.Dictionary()}
	c.tables()
	return c.errs
}

type checker struct {
	dict pprofile.ProfilesDictionary
	errs []error
}

func (c *checker) failf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// index checks an index. 0 may refer to a table that was left out.
func (c *checker) index(i int32, length int, format string, args ...any) {
	if i != 0 && uint(i) >= uint(length) {
		c.failf("%s: index %d is beyond its table", fmt.Sprintf(format, args...), i)
	}
}

func (c *checker) attributes(indices pcommon.Int32Slice, format string, args ...any) {
	for _, i := range indices.All() {
		c.index(i, c.dict.AttributeTable().Len(), format+" attribute", args...)
	}
}

func (c *checker) zeroValues() {
	d := c.dict
	for _, t := range []struct {
		name   string
		length int
		isZero func() bool
	}{
		{"string", d.StringTable().Len(), func() bool { return d.StringTable().At(0) == "" }},
		{"attribute", d.AttributeTable().Len(), func() bool { return d.AttributeTable().At(0).Equal(pprofile.NewKeyValueAndUnit()) }},
		{"mapping", d.MappingTable().Len(), func() bool { return d.MappingTable().At(0).Equal(pprofile.NewMapping()) }},
		{"function", d.FunctionTable().Len(), func() bool { return d.FunctionTable().At(0).Equal(pprofile.NewFunction()) }},
		{"location", d.LocationTable().Len(), func() bool { return d.LocationTable().At(0).Equal(pprofile.NewLocation()) }},
		{"stack", d.StackTable().Len(), func() bool { return d.StackTable().At(0).Equal(pprofile.NewStack()) }},
		{"link", d.LinkTable().Len(), func() bool { return d.LinkTable().At(0).Equal(pprofile.NewLink()) }},
	} {
		if t.length > 0 && !t.isZero() {
			c.failf("%s table: entry 0 is not the zero value", t.name)
		}
	}
}

func (c *checker) ranges() {
	for i, m := range c.dict.MappingTable().All() {
		if start, limit := m.MemoryStart(), m.MemoryLimit(); start >= limit && (start != 0 || limit != 0) {
			c.failf("mapping %d: start %#x is not below limit %#x", i, start, limit)
		}
	}
}

func (c *checker) tables() {
	d := c.dict
	strings := d.StringTable().Len()
	for i, a := range d.AttributeTable().All() {
		c.index(a.KeyStrindex(), strings, "attribute %d key", i)
		c.index(a.UnitStrindex(), strings, "attribute %d unit", i)
	}
	for i, m := range d.MappingTable().All() {
		c.index(m.FilenameStrindex(), strings, "mapping %d file name", i)
		c.attributes(m.AttributeIndices(), "mapping %d", i)
	}
	for i, f := range d.FunctionTable().All() {
		c.index(f.NameStrindex(), strings, "function %d name", i)
		c.index(f.SystemNameStrindex(), strings, "function %d system name", i)
		c.index(f.FilenameStrindex(), strings, "function %d file name", i)
	}
	for i, l := range d.LocationTable().All() {
		c.index(l.MappingIndex(), d.MappingTable().Len(), "location %d mapping", i)
		c.attributes(l.AttributeIndices(), "location %d", i)
		for _, line := range l.Lines().All() {
			c.index(line.FunctionIndex(), d.FunctionTable().Len(), "location %d function", i)
		}
	}
	for i, s := range d.StackTable().All() {
		for _, loc := range s.LocationIndices().All() {
			c.index(loc, d.LocationTable().Len(), "stack %d location", i)
		}
	}
}

func (c *checker) profile(name string, p pprofile.Profile) {
	c.attributes(p.AttributeIndices(), "%s", name)
	strings := c.dict.StringTable().Len()
	for _, t := range []pprofile.ValueType{p.SampleType(), p.PeriodType()} {
		c.index(t.TypeStrindex(), strings, "%s value type", name)
		c.index(t.UnitStrindex(), strings, "%s value unit", name)
	}
	for i, s := range p.Samples().All() {
		c.index(s.StackIndex(), c.dict.StackTable().Len(), "%s sample %d stack", name, i)
		c.index(s.LinkIndex(), c.dict.LinkTable().Len(), "%s sample %d link", name, i)
		c.attributes(s.AttributeIndices(), "%s sample %d", name, i)
	}
}
