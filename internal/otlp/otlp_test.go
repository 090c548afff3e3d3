// SPDX-License-Identifier: Apache-2.0

package otlp_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/otlp"
)

// opened returns a message that was opened and checked, with nothing interned yet.
func opened(t *testing.T, pd pprofile.Profiles) *otlp.Message {
	t.Helper()
	m := new(otlp.Message)
	m.Open(pd)
	m.Attributes.Read()
	require.NoError(t, m.Check())
	return m
}

// withEntry0 returns a message whose tables have the entry 0 that the specification demands.
func withEntry0() pprofile.Profiles {
	pd := pprofile.NewProfiles()
	d := pd.Dictionary()
	d.StringTable().Append("")
	d.AttributeTable().AppendEmpty()
	d.MappingTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	return pd
}

// TestIntern verifies for each table that interning a value twice makes one entry, that this entry
// comes after entry 0 even if the producer left the table empty, and that the entry is found when
// the message is opened again.
func TestIntern(t *testing.T) {
	mapping := otlp.Mapping{
		File: "vmlinux", BuildID: "ab12", FileID: "cd34", Start: 1, Limit: 2, Offset: 3,
		Flags: otlp.Flags{otlp.FlagTrue, otlp.FlagAbsent, otlp.FlagFalse},
	}
	for name, intern := range map[string]func(m *otlp.Message) int32{
		"string":    func(m *otlp.Message) int32 { return m.Strings.Intern("vfs_read") },
		"attribute": func(m *otlp.Message) int32 { return m.Attributes.Intern(otlp.ProgramID, otlp.NumberValue(7)) },
		"mapping":   func(m *otlp.Message) int32 { return m.Mappings.Intern(mapping) },
		"function": func(m *otlp.Message) int32 {
			return m.Functions.Intern(otlp.Function{Name: "f", System: "_f", File: "f.c", StartLine: 9})
		},
		"stack": func(m *otlp.Message) int32 {
			at, _ := m.Stacks.Intern([]int32{0, 0, 0}, false)
			return at
		},
	} {
		for tables, pd := range map[string]pprofile.Profiles{"with entry 0": withEntry0(), "left out": pprofile.NewProfiles()} {
			if name == "stack" && tables == "left out" {
				continue // a stack cannot refer to a location table that was left out
			}
			t.Run(name+", "+tables, func(t *testing.T) {
				m := opened(t, pd)
				first := intern(m)
				assert.Positive(t, first)
				entries := m.Entries()
				assert.Equal(t, first, intern(m))
				assert.Equal(t, entries, m.Entries())

				m.Open(pd)
				m.Attributes.Read()
				require.NoError(t, m.Check())
				assert.Equal(t, first, intern(m), "it arrived with the message")
				assert.Equal(t, entries, m.Entries())
			})
		}
	}
}

// TestCheckOfStacks verifies that an index behind the end of the location table is refused, also one that is negative.
func TestCheckOfStacks(t *testing.T) {
	for _, index := range []int32{1, 1 << 30, -1, -1 << 31} {
		pd := withEntry0()
		pd.Dictionary().StackTable().AppendEmpty().LocationIndices().Append(0, index)
		m := new(otlp.Message)
		m.Open(pd)
		m.Attributes.Read()
		require.ErrorIs(t, m.Check(), otlp.ErrReference, "%d", index)
	}
}

// TestMappingReadsWhatItWrites verifies that an appended mapping reads back as it was written.
func TestMappingReadsWhatItWrites(t *testing.T) {
	m := opened(t, withEntry0())
	want := otlp.Mapping{File: "ext4", BuildID: "ab12", FileID: "cd34", Limit: 1 << 20, Flags: otlp.Flags{3: otlp.FlagTrue}}
	at := m.Mappings.Intern(want)
	got, isAmbiguous := m.Mappings.At(at)
	assert.Equal(t, want, *got)
	assert.False(t, isAmbiguous)
	assert.True(t, m.Mappings.CanCopy(at))
	assert.True(t, m.Mappings.IsNone(0))
	assert.True(t, m.Mappings.IsNone(at+1), "no such mapping")
}

// TestContract_1_6_Entry0 verifies that index 0 is ambiguous if entry 0 is not empty.
func TestContract_1_6_Entry0(t *testing.T) {
	pd := withEntry0()
	pd.Dictionary().MappingTable().At(0).SetMemoryLimit(1)
	m := opened(t, pd)
	_, isAmbiguous := m.Mappings.At(0)
	assert.True(t, isAmbiguous)
	assert.False(t, m.Mappings.IsNone(0))
	assert.False(t, m.Mappings.NoneIsZero())
	assert.False(t, m.Mappings.CanCopy(0))
}

// TestContract_1_6_NoMapping verifies that an entry which says nothing is none, but not entry 0, unless all of it is 0.
func TestContract_1_6_NoMapping(t *testing.T) {
	pd := withEntry0()
	d := pd.Dictionary()
	d.StringTable().Append("")
	d.MappingTable().At(0).SetFilenameStrindex(1) // an empty name, but not index 0
	d.MappingTable().AppendEmpty()
	m := opened(t, pd)
	assert.False(t, m.Mappings.IsNone(0))
	assert.True(t, m.Mappings.IsNone(1))
	assert.Equal(t, int32(1), m.Mappings.None())
}

// TestSetAttribute verifies that an attribute replaces the one of the same kind.
func TestSetAttribute(t *testing.T) {
	m := opened(t, withEntry0())
	loc := m.Profiles.Dictionary().LocationTable().At(0)
	indices := loc.AttributeIndices()
	assert.Equal(t, otlp.OtherAttribute, m.Attributes.FrameType(indices))
	assert.True(t, m.Attributes.Set(indices, otlp.KernelFrameType, otlp.TextValue("kernel")))
	assert.True(t, m.Attributes.Set(indices, otlp.ProgramID, otlp.NumberValue(1)))
	assert.True(t, m.Attributes.Set(indices, otlp.ProgramID, otlp.NumberValue(2)))
	assert.False(t, m.Attributes.Set(indices, otlp.ProgramID, otlp.NumberValue(2)))
	assert.Equal(t, 2, indices.Len())
	assert.Equal(t, otlp.KernelFrameType, m.Attributes.FrameType(indices))
	v, ok := m.Attributes.Find(indices, otlp.ProgramID)
	assert.True(t, ok)
	assert.Equal(t, otlp.NumberValue(2), v)
	assert.False(t, m.Attributes.Uses(otlp.ProgramID), "the message arrived without it")
}

// TestLocationsAreInterned verifies that Intern finds an equal location among the candidates it is
// given.
func TestLocationsAreInterned(t *testing.T) {
	pd := withEntry0()
	other := pd.Dictionary().LocationTable().AppendEmpty()
	other.SetAddress(7)
	m := opened(t, pd)
	frames := func(yield func(int32) bool) { yield(1) }
	for address, want := range map[uint64]int32{7: 1, 8: 2} {
		for range 2 {
			loc := pprofile.NewLocation()
			loc.SetAddress(address)
			at, _ := m.Locations.Intern(loc, frames)
			assert.Equal(t, want, at)
		}
	}
	assert.Equal(t, 3, m.Locations.Len())
}

// TestInternWithFile verifies that a function keeps each name that it certainly has, and gets each
// name that it may lack.
func TestInternWithFile(t *testing.T) {
	pd := withEntry0()
	table := pd.Dictionary().StringTable()
	table.SetAt(0, "cpu") // so that index 0 may mean this or none (contract 1.6)
	table.Append("came", "")
	for _, tt := range []struct {
		name, system int32
		want         otlp.Function
	}{
		{1, 1, otlp.Function{Name: "came", System: "came", File: "f.c", StartLine: 7}},
		{1, 0, otlp.Function{Name: "came", System: "_f", File: "f.c", StartLine: 7}},
		{2, 1, otlp.Function{Name: "f", System: "came", File: "f.c", StartLine: 7}},
	} {
		f := pd.Dictionary().FunctionTable().AppendEmpty()
		f.SetNameStrindex(tt.name)
		f.SetSystemNameStrindex(tt.system)
		f.SetStartLine(7)
		came := int32(pd.Dictionary().FunctionTable().Len() - 1)
		m := opened(t, pd)
		assert.Equal(t, tt.want, m.Functions.At(m.Functions.InternWithFile(came, otlp.Function{Name: "f", System: "_f", File: "f.c"})))
	}
}

// TestReadOnlyMessage verifies that a read-only message is copied before it is changed.
func TestReadOnlyMessage(t *testing.T) {
	pd := withEntry0()
	pd.MarkReadOnly()
	m := opened(t, pd)
	m.MakeOwn()
	m.Strings.Intern("vfs_read")
	assert.Equal(t, 1, pd.Dictionary().StringTable().Len())
	assert.Equal(t, 2, m.Profiles.Dictionary().StringTable().Len())
}

// TestContract_1_4_References verifies that Check finds each kind of dangling reference.
func TestContract_1_4_References(t *testing.T) {
	for name, spoil := range map[string]func(d pprofile.ProfilesDictionary, p pprofile.Profile){
		"key":     func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.AttributeTable().At(0).SetKeyStrindex(1) },
		"unit":    func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.AttributeTable().At(0).SetUnitStrindex(1) },
		"file":    func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.MappingTable().At(0).SetFilenameStrindex(1) },
		"name":    func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.FunctionTable().At(0).SetNameStrindex(-1) },
		"mapping": func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.LocationTable().At(0).SetMappingIndex(1) },
		"function": func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
			d.LocationTable().At(0).Lines().AppendEmpty().SetFunctionIndex(1)
		},
		"location": func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
			d.StackTable().At(0).LocationIndices().Append(1)
		},
		"attribute":      func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.AttributeIndices().Append(1) },
		"stack":          func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.Samples().AppendEmpty().SetStackIndex(1) },
		"type of values": func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.SampleType().SetTypeStrindex(1) },
	} {
		pd := withEntry0()
		p := pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
		m := opened(t, pd)
		spoil(pd.Dictionary(), p)
		assert.ErrorIs(t, m.Check(), otlp.ErrReference, name)
	}
}
