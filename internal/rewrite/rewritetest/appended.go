// SPDX-License-Identifier: Apache-2.0

package rewritetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// CheckRewritten returns an error for each rule that the rewrite of a message breaks, valid or not:
// existing entries of shared tables stay as they were, apart from mappings that are hidden; every appended entry is new and used; all
// sums stay the same; nothing valid becomes invalid, or the other way around (contract 1.4); and no
// backend refuses what it would have accepted before.
func CheckRewritten(before, after pprofile.Profiles) error {
	before = withHidden(before, after)
	return errors.Join(
		checkAppended(before, after),
		checkRest(before, after),
		checkUsed(before, after),
		checkValidity(before, after),
		checkWritten(before, after),
	)
}

// CheckAppended is the part of CheckRewritten that holds for messages with another entry 0, too: existing entries of shared
// tables stay as they were, and every appended entry is new (contract 4.5).
func CheckAppended(before, after pprofile.Profiles) error {
	return checkAppended(withHidden(before, after), after)
}

// withHidden returns a message whose mappings that show kernel addresses are hidden, and whose original payloads are removed
// (contract 4.1), where they are in another message.
func withHidden(pd, other pprofile.Profiles) pprofile.Profiles {
	hidden := pprofile.NewProfiles()
	pd.CopyTo(hidden)
	is := other.Dictionary().MappingTable()
	for i, m := range hidden.Dictionary().MappingTable().All() {
		length := min(max(m.MemoryStart()+1, m.MemoryLimit())-m.MemoryStart(), math.MaxInt64)
		shows := m.MemoryStart()>>63 != 0 || m.MemoryLimit()>>63 != 0 || m.FileOffset()>>63 != 0
		if !shows || i >= is.Len() || is.At(i).MemoryStart() != 0 || is.At(i).FileOffset() != 0 {
			continue
		}
		if limit := is.At(i).MemoryLimit(); limit == 0 || limit == length {
			m.SetMemoryStart(0)
			m.SetMemoryLimit(limit)
			m.SetFileOffset(0)
		}
	}
	removePayloads(hidden, other)
	return hidden
}

// removePayloads removes the original payload of each profile that has none in another message.
func removePayloads(pd, other pprofile.Profiles) {
	is := Profiles(other)
	for i, profile := range Profiles(pd) {
		if i < len(is) && is[i].OriginalPayload().Len() == 0 && is[i].OriginalPayloadFormat() == "" {
			profile.OriginalPayload().FromRaw(nil)
			profile.SetOriginalPayloadFormat("")
		}
	}
}

func checkAppended(before, after pprofile.Profiles) error {
	a, b := before.Dictionary(), after.Dictionary()
	return errors.Join(
		checkTable("string", a.StringTable(), b.StringTable(), "", func(s string) string { return s }, true),
		checkTable("attribute", a.AttributeTable(), b.AttributeTable(), pprofile.NewKeyValueAndUnit(), func(v pprofile.KeyValueAndUnit) string {
			return fmt.Sprintf("%d %d %d %v", v.KeyStrindex(), v.UnitStrindex(), v.Value().Type(), v.Value().AsRaw())
		}, true),
		checkTable("function", a.FunctionTable(), b.FunctionTable(), pprofile.NewFunction(), func(f pprofile.Function) string {
			return fmt.Sprint(f.NameStrindex(), f.SystemNameStrindex(), f.FilenameStrindex(), f.StartLine())
		}, true),
		checkTable("mapping", a.MappingTable(), b.MappingTable(), pprofile.NewMapping(), func(m pprofile.Mapping) string {
			return fmt.Sprint(m.FilenameStrindex(), m.MemoryStart(), m.MemoryLimit(), m.FileOffset(), m.AttributeIndices().AsRaw())
		}, true),
		checkTable("location", a.LocationTable(), b.LocationTable(), pprofile.NewLocation(), locationKey, false),
		checkTable("stack", a.StackTable(), b.StackTable(), pprofile.NewStack(), func(s pprofile.Stack) string {
			return fmt.Sprint(s.LocationIndices().AsRaw())
		}, true),
	)
}

func locationKey(l pprofile.Location) string {
	return fmt.Sprint(namedKey(l), l.AttributeIndices().AsRaw())
}

// namedKey is locationKey without the attributes.
func namedKey(l pprofile.Location) string {
	key := fmt.Sprint(l.MappingIndex(), l.Address())
	for _, line := range l.Lines().All() {
		key += fmt.Sprint(" ", line.FunctionIndex(), line.Line(), line.Column())
	}
	return key
}

type table[T any] interface {
	Len() int
	At(i int) T
}

// checkTable checks the entries that were appended to a table. If shared is set, no existing entry
// may change. Only an entry 0 that is not the zero value may be equal to an appended one (contract 4.5).
func checkTable[T any](name string, before, after table[T], zero T, key func(T) string, shared bool) error {
	var errs []error
	if after.Len() < before.Len() {
		return fmt.Errorf("%s table: %d of %d entries are left", name, after.Len(), before.Len())
	}
	seen := make(map[string]int)
	for i := range before.Len() {
		was, is := key(before.At(i)), key(after.At(i))
		if shared && was != is {
			errs = append(errs, fmt.Errorf("%s table: entry %d was %q and is %q", name, i, was, is))
		}
		if i > 0 || is == key(zero) {
			seen[is] = i
		}
	}
	for i := before.Len(); i < after.Len(); i++ {
		k := key(after.At(i))
		if other, ok := seen[k]; ok {
			errs = append(errs, fmt.Errorf("%s table: new entry %d equals %d: %q", name, i, other, k))
		}
		seen[k] = i
	}
	return errors.Join(errs...)
}

// checkRest checks that nothing changed outside the dictionary, except which stacks samples have
// and that a sample may be divided by its timestamps.
func checkRest(before, after pprofile.Profiles) error {
	a, err := withoutStacks(before)
	if err != nil {
		return err
	}
	b, err := withoutStacks(after)
	if err == nil && !bytes.Equal(a, b) {
		err = errors.New("something was changed outside of the dictionary")
	}
	return err
}

// withoutStacks returns everything outside the dictionary as bytes, with one sample for each
// timestamp, in order, and without stacks.
func withoutStacks(pd pprofile.Profiles) ([]byte, error) {
	c := pprofile.NewProfiles()
	pd.ResourceProfiles().CopyTo(c.ResourceProfiles())
	for _, profile := range Profiles(c) {
		divided := pprofile.NewProfile()
		for _, s := range profile.Samples().All() {
			s.SetStackIndex(0)
			divide(s, divided.Samples())
		}
		divided.Samples().Sort(compareSamples)
		divided.Samples().CopyTo(profile.Samples())
	}
	return (&pprofile.ProtoMarshaler{}).MarshalProfiles(c)
}

// divide appends a sample for each timestamp of s. If its values do not match its timestamps, it
// appends s as it is.
func divide(s pprofile.Sample, to pprofile.SampleSlice) {
	values, stamps := s.Values().AsRaw(), s.TimestampsUnixNano().AsRaw()
	if len(stamps) == 0 || len(values) > 0 && len(values) != len(stamps) {
		s.CopyTo(to.AppendEmpty())
		return
	}
	rest := pprofile.NewSample()
	s.CopyTo(rest)
	rest.TimestampsUnixNano().FromRaw(nil)
	rest.Values().FromRaw(nil)
	for i, stamp := range stamps {
		part := to.AppendEmpty()
		rest.CopyTo(part)
		part.TimestampsUnixNano().Append(stamp)
		if len(values) > 0 {
			part.Values().Append(values[i])
		}
	}
}

func compareSamples(a, b pprofile.Sample) bool {
	if x, y := a.TimestampsUnixNano(), b.TimestampsUnixNano(); x.Len() == 1 && y.Len() == 1 && x.At(0) != y.At(0) {
		return x.At(0) < y.At(0)
	}
	return sampleKey(a) < sampleKey(b)
}

func sampleKey(s pprofile.Sample) string {
	return fmt.Sprint(s.TimestampsUnixNano().AsRaw(), s.Values().AsRaw(), s.AttributeIndices().AsRaw(), s.LinkIndex())
}
