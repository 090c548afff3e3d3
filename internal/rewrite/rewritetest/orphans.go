// SPDX-License-Identifier: Apache-2.0

package rewritetest

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// CheckTidy returns an error for each entry of a message that nothing refers to or that equals
// another.
func CheckTidy(pd pprofile.Profiles) error {
	none := NewMessage().Profiles
	return errors.Join(checkAppended(none, pd), checkUsed(none, pd))
}

// checkUsed returns an error for each entry that was appended to a table of a message although
// nothing refers to it, and for each location and stack that was appended although an equal one
// existed.
func checkUsed(before, after pprofile.Profiles) error {
	a, b := before.Dictionary(), after.Dictionary()
	u := usedEntries(after)
	return errors.Join(
		u.strings.check("string", a.StringTable().Len(), b.StringTable().Len()),
		u.attributes.check("attribute", a.AttributeTable().Len(), b.AttributeTable().Len()),
		u.mappings.check("mapping", a.MappingTable().Len(), b.MappingTable().Len()),
		u.functions.check("function", a.FunctionTable().Len(), b.FunctionTable().Len()),
		u.locations.check("location", a.LocationTable().Len(), b.LocationTable().Len()),
		u.stacks.check("stack", a.StackTable().Len(), b.StackTable().Len()),
		checkEqual("location", a.LocationTable().Len(), b.LocationTable(), locationKey),
		checkEqual("stack", a.StackTable().Len(), b.StackTable(), func(s pprofile.Stack) string {
			return fmt.Sprint(s.LocationIndices().AsRaw())
		}),
	)
}

// checkEqual checks that no entry appended to a table equals an entry before it.
func checkEqual[T any](name string, first int, t table[T], key func(T) string) error {
	seen := make(map[string]int)
	var errs []error
	for i := range t.Len() {
		k := key(t.At(i))
		if other, ok := seen[k]; ok && i >= first {
			errs = append(errs, fmt.Errorf("%s table: new entry %d equals entry %d: %s", name, i, other, k))
		}
		seen[k] = i
	}
	return errors.Join(errs...)
}

// indices are the entries of a table that something refers to.
type indices map[int32]bool

func (u indices) add(list pcommon.Int32Slice) {
	for _, i := range list.All() {
		u[i] = true
	}
}

func (u indices) check(name string, first, length int) error {
	var errs []error
	for i := max(first, 1); i < length; i++ { // entry 0 is mandatory
		if !u[int32(i)] {
			errs = append(errs, fmt.Errorf("%s table: nothing uses new entry %d", name, i))
		}
	}
	return errors.Join(errs...)
}

type used struct{ strings, attributes, mappings, functions, locations, stacks indices }

// usedEntries returns the entries that a valid message refers to.
func usedEntries(pd pprofile.Profiles) used {
	u := used{indices{}, indices{}, indices{}, indices{}, indices{}, indices{}}
	d := pd.Dictionary()
	for _, a := range d.AttributeTable().All() {
		u.strings[a.KeyStrindex()], u.strings[a.UnitStrindex()] = true, true
	}
	for _, m := range d.MappingTable().All() {
		u.strings[m.FilenameStrindex()] = true
		u.attributes.add(m.AttributeIndices())
	}
	for _, f := range d.FunctionTable().All() {
		u.strings[f.NameStrindex()], u.strings[f.SystemNameStrindex()], u.strings[f.FilenameStrindex()] = true, true, true
	}
	for _, l := range d.LocationTable().All() {
		u.mappings[l.MappingIndex()] = true
		u.attributes.add(l.AttributeIndices())
		for _, line := range l.Lines().All() {
			u.functions[line.FunctionIndex()] = true
		}
	}
	for _, s := range d.StackTable().All() {
		u.locations.add(s.LocationIndices())
	}
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, p := range sp.Profiles().All() {
				u.attributes.add(p.AttributeIndices())
				for _, t := range []pprofile.ValueType{p.SampleType(), p.PeriodType()} {
					u.strings[t.TypeStrindex()], u.strings[t.UnitStrindex()] = true, true
				}
				for _, s := range p.Samples().All() {
					u.stacks[s.StackIndex()] = true
					u.attributes.add(s.AttributeIndices())
				}
			}
		}
	}
	return u
}
