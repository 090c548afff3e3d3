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
	reopen(t, m, pd)
	return m
}

// reopen uses m for another message.
func reopen(t *testing.T, m *otlp.Message, pd pprofile.Profiles) {
	t.Helper()
	m.Open(pd)
	m.Attributes.Read()
	require.NoError(t, m.Check())
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

// interns has a function for each table that interns the same content in each call.
var interns = map[string]func(m *otlp.Message) int32{
	"string":    func(m *otlp.Message) int32 { return m.Strings.Intern("vfs_read") },
	"attribute": func(m *otlp.Message) int32 { return m.Attributes.Intern(otlp.ProgramID, otlp.NumberValue(7)) },
	"mapping": func(m *otlp.Message) int32 {
		return m.Mappings.Intern(otlp.Mapping{
			File: "vmlinux", BuildID: "ab12", FileID: "cd34", Start: 1, Limit: 2, Offset: 3,
			Flags: otlp.Flags{otlp.FlagTrue, otlp.FlagAbsent, otlp.FlagFalse},
		})
	},
	"function": func(m *otlp.Message) int32 {
		return m.Functions.Intern(otlp.Function{Name: "f", System: "_f", File: "f.c", StartLine: 9})
	},
	"stack": func(m *otlp.Message) int32 {
		at, _ := m.Stacks.Intern(threeTimes0, false)
		return at
	},
}

var threeTimes0 = []int32{0, 0, 0}

// TestIntern verifies for each table that interning a value twice makes one entry, that this entry
// comes after entry 0 even if the producer left the table empty, that another message does not have
// it, and that it is found when the message is opened again.
func TestIntern(t *testing.T) {
	for name, intern := range interns {
		for tables, newMessage := range map[string]func() pprofile.Profiles{"with entry 0": withEntry0, "left out": pprofile.NewProfiles} {
			if name == "stack" && tables == "left out" {
				continue // a stack cannot refer to a location table that was left out
			}
			t.Run(name+", "+tables, func(t *testing.T) {
				pd := newMessage()
				m := opened(t, pd)
				first := intern(m)
				assert.Positive(t, first)
				entries := m.Entries()
				assert.Equal(t, first, intern(m))
				assert.Equal(t, entries, m.Entries())

				reopen(t, m, newMessage())
				assert.Equal(t, first, intern(m), "nothing remains of the message before")
				assert.Equal(t, entries, m.Entries())

				reopen(t, m, pd)
				assert.Equal(t, first, intern(m), "it arrived with the message")
				assert.Equal(t, entries, m.Entries())
			})
		}
	}
}

// TestInternAllocatesNothing verifies for each table that an entry is found without an allocation.
func TestInternAllocatesNothing(t *testing.T) {
	m := opened(t, withEntry0())
	for name, intern := range interns {
		assert.Zero(t, testing.AllocsPerRun(10, func() { intern(m) }), name)
	}
}

// TestOriginalsAreFoundLate verifies that functions and stacks that came with the message are found
// after others were appended, and that of several equal ones, the first is found.
func TestOriginalsAreFoundLate(t *testing.T) {
	const equal = 100
	pd := withEntry0()
	d := pd.Dictionary()
	d.StringTable().Append("came")
	for range equal {
		f := d.FunctionTable().AppendEmpty()
		f.SetNameStrindex(1)
		f.SetSystemNameStrindex(1)
		d.StackTable().AppendEmpty().LocationIndices().Append(0)
	}
	m := opened(t, pd)

	came, appended := otlp.Function{Name: "came", System: "came"}, otlp.Function{Name: "f", System: "f"}
	assert.EqualValues(t, equal+1, m.Functions.Intern(appended))
	assert.EqualValues(t, 1, m.Functions.Intern(came))
	assert.EqualValues(t, equal+1, m.Functions.Intern(appended))
	assert.Equal(t, equal+2, m.Functions.Len())

	for _, tt := range []struct {
		locations    []int32
		isNew        bool
		want         int32
		wantAppended bool
	}{
		{[]int32{5}, true, equal + 1, true}, // as if location 5 had been appended
		{[]int32{0}, false, 1, false},
		{[]int32{5}, true, equal + 1, false},
		{[]int32{}, false, equal + 2, true}, // index 0 means none, so stack 0 is not found
	} {
		at, appended := m.Stacks.Intern(tt.locations, tt.isNew)
		assert.Equal(t, tt.want, at, "%v", tt.locations)
		assert.Equal(t, tt.wantAppended, appended, "%v", tt.locations)
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

// TestContract_1_6_Entry0IsNotFound verifies that an entry 0 with content is not found, nor a mapping
// whose file name is index 0.
func TestContract_1_6_Entry0IsNotFound(t *testing.T) {
	pd := withEntry0()
	d := pd.Dictionary()
	d.StringTable().SetAt(0, "ext4")
	d.StringTable().Append("vmlinux")
	d.MappingTable().At(0).SetFilenameStrindex(1)
	d.MappingTable().AppendEmpty() // its file name is index 0
	d.FunctionTable().At(0).SetNameStrindex(1)
	d.FunctionTable().At(0).SetSystemNameStrindex(1)
	d.FunctionTable().At(0).SetFilenameStrindex(1)
	m := opened(t, pd)
	assert.EqualValues(t, 2, m.Strings.Intern("ext4"))
	assert.EqualValues(t, 2, m.Mappings.Intern(otlp.Mapping{File: "vmlinux"}))
	assert.EqualValues(t, 3, m.Mappings.Intern(otlp.Mapping{File: "ext4"}))
	assert.EqualValues(t, 1, m.Functions.Intern(otlp.Function{Name: "vmlinux", System: "vmlinux", File: "vmlinux"}))
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

// TestLocationsAreInterned verifies that Intern finds an equal location if that was made findable.
func TestLocationsAreInterned(t *testing.T) {
	pd := withEntry0()
	for range 2 {
		pd.Dictionary().LocationTable().AppendEmpty().SetAddress(7)
	}
	pd.Dictionary().LocationTable().AppendEmpty().SetAddress(8)
	m := opened(t, pd)
	m.Locations.MakeFindable(2)
	m.Locations.MakeFindable(1)
	for address, want := range map[uint64]int32{7: 2, 8: 4} {
		for _, isFirst := range []bool{true, false} {
			loc := pprofile.NewLocation()
			loc.SetAddress(address)
			at, appended := m.Locations.Intern(loc)
			assert.Equal(t, want, at)
			assert.Equal(t, address == 8 && isFirst, appended)
		}
	}
	assert.Equal(t, 5, m.Locations.Len())
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
