// SPDX-License-Identifier: Apache-2.0

package rewritetest

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// Readings returns the two valid messages that a message can mean if entry 0 of a table is not the
// zero value (contract 1.6). In the first, index 0 of a mapping, function or string means none,
// except as the key of an attribute. In the second, it means the entry.
func Readings(pd pprofile.Profiles) (none, entry pprofile.Profiles) {
	none, entry = pprofile.NewProfiles(), pprofile.NewProfiles()
	pd.CopyTo(none)
	pd.CopyTo(entry)
	shift(none, 0)
	shift(entry, 1)
	return none, entry
}

// entryTable is a table of the dictionary.
type entryTable[T any] interface {
	table[T]
	AppendEmpty() T
}

// entryValue is an entry of such a table.
type entryValue[T any] interface {
	CopyTo(dest T)
	Equal(other T) bool
}

// shifted says by how much the indices of each table grow. They grow by 1 if entry 0 is not the
// zero value, because the zero value is then inserted before it.
type shifted struct {
	strings, attributes, mappings, functions, locations, stacks int32

	zero int32 // 1 if index 0 of a mapping, function or string means the entry, 0 if it means none
}

func shift(pd pprofile.Profiles, zero int32) {
	d := pd.Dictionary()
	by := shifted{
		zero:       zero,
		attributes: shiftTable(d.AttributeTable(), pprofile.NewKeyValueAndUnit()),
		mappings:   shiftTable(d.MappingTable(), pprofile.NewMapping()),
		functions:  shiftTable(d.FunctionTable(), pprofile.NewFunction()),
		locations:  shiftTable(d.LocationTable(), pprofile.NewLocation()),
		stacks:     shiftTable(d.StackTable(), pprofile.NewStack()),
	}
	if d.StringTable().Len() > 0 && d.StringTable().At(0) != "" {
		by.strings = 1
		d.StringTable().FromRaw(append([]string{""}, d.StringTable().AsRaw()...))
	}
	by.dictionary(d)
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, p := range sp.Profiles().All() {
				by.profile(p)
			}
		}
	}
}

func shiftTable[T entryValue[T]](t entryTable[T], zero T) int32 {
	if t.Len() == 0 || t.At(0).Equal(zero) {
		return 0
	}
	t.AppendEmpty()
	for i := t.Len() - 1; i > 0; i-- {
		t.At(i - 1).CopyTo(t.At(i))
	}
	zero.CopyTo(t.At(0))
	return 1
}

// dictionary changes the indices in all entries except the zero values.
func (by shifted) dictionary(d pprofile.ProfilesDictionary) {
	for i := 1; i < d.AttributeTable().Len(); i++ {
		a := d.AttributeTable().At(i)
		a.SetKeyStrindex(a.KeyStrindex() + by.strings)
		a.SetUnitStrindex(by.one(a.UnitStrindex(), by.strings))
	}
	for i := 1; i < d.FunctionTable().Len(); i++ {
		f := d.FunctionTable().At(i)
		f.SetNameStrindex(by.one(f.NameStrindex(), by.strings))
		f.SetSystemNameStrindex(by.one(f.SystemNameStrindex(), by.strings))
		f.SetFilenameStrindex(by.one(f.FilenameStrindex(), by.strings))
	}
	for i := 1; i < d.MappingTable().Len(); i++ {
		m := d.MappingTable().At(i)
		m.SetFilenameStrindex(by.one(m.FilenameStrindex(), by.strings))
		add(m.AttributeIndices(), by.attributes)
	}
	for i := 1; i < d.LocationTable().Len(); i++ {
		l := d.LocationTable().At(i)
		l.SetMappingIndex(by.one(l.MappingIndex(), by.mappings))
		add(l.AttributeIndices(), by.attributes)
		for _, line := range l.Lines().All() {
			line.SetFunctionIndex(by.one(line.FunctionIndex(), by.functions))
		}
	}
	for _, s := range d.StackTable().All() {
		add(s.LocationIndices(), by.locations)
	}
}

// one returns the new value of an index that is not in a list.
func (by shifted) one(index, n int32) int32 {
	if index == 0 {
		return n * by.zero
	}
	return index + n
}

func (by shifted) profile(p pprofile.Profile) {
	for _, t := range []pprofile.ValueType{p.SampleType(), p.PeriodType()} {
		t.SetTypeStrindex(by.one(t.TypeStrindex(), by.strings))
		t.SetUnitStrindex(by.one(t.UnitStrindex(), by.strings))
	}
	add(p.AttributeIndices(), by.attributes)
	for _, s := range p.Samples().All() {
		s.SetStackIndex(s.StackIndex() + by.stacks)
		add(s.AttributeIndices(), by.attributes)
	}
}

func add(indices pcommon.Int32Slice, n int32) {
	for i, index := range indices.All() {
		indices.SetAt(i, index+n)
	}
}
