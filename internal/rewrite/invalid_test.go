// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// spoiled makes each reference that the rewrite reads refer to another entry.
var spoiled = map[string]func(m *rewritetest.Message, d pprofile.ProfilesDictionary, loc pprofile.Location, i int32){
	"mapping of a location": func(_ *rewritetest.Message, _ pprofile.ProfilesDictionary, loc pprofile.Location, i int32) {
		loc.SetMappingIndex(i)
	},
	"attribute of a location": func(_ *rewritetest.Message, _ pprofile.ProfilesDictionary, loc pprofile.Location, i int32) {
		loc.AttributeIndices().Append(i)
	},
	"function of a line": func(_ *rewritetest.Message, _ pprofile.ProfilesDictionary, loc pprofile.Location, i int32) {
		loc.Lines().AppendEmpty().SetFunctionIndex(i)
	},
	"file name of a mapping": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		d.MappingTable().AppendEmpty().SetFilenameStrindex(i)
	},
	"attribute of a mapping": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		d.MappingTable().AppendEmpty().AttributeIndices().Append(i)
	},
	"key of an attribute": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		d.AttributeTable().AppendEmpty().SetKeyStrindex(i)
	},
	"unit of an attribute": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		d.AttributeTable().AppendEmpty().SetUnitStrindex(i)
	},
	"name of a function": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		d.FunctionTable().AppendEmpty().SetNameStrindex(i)
	},
	"system name of a function": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		d.FunctionTable().AppendEmpty().SetSystemNameStrindex(i)
	},
	"file name of a function": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		d.FunctionTable().AppendEmpty().SetFilenameStrindex(i)
	},
	"location of a stack": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		d.StackTable().At(1).LocationIndices().Append(i)
	},
	"location of a stack that no sample has": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		d.StackTable().AppendEmpty().LocationIndices().Append(i)
	},
	"stack of a sample": func(m *rewritetest.Message, _ pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		m.LastSample().SetStackIndex(i)
	},
	"attribute of a sample": func(m *rewritetest.Message, _ pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		m.LastSample().AttributeIndices().Append(i)
	},
	"attribute of a profile": func(m *rewritetest.Message, _ pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		profileOf(m, 0).AttributeIndices().Append(i)
	},
	"type of a profile's values": func(m *rewritetest.Message, _ pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		profileOf(m, 0).SampleType().SetTypeStrindex(i)
	},
	"unit of a profile's period": func(m *rewritetest.Message, _ pprofile.ProfilesDictionary, _ pprofile.Location, i int32) {
		profileOf(m, 0).PeriodType().SetUnitStrindex(i)
	},
}

// profileOf returns the only profile of a message's resource i.
func profileOf(m *rewritetest.Message, i int) pprofile.Profile {
	return m.Profiles.ResourceProfiles().At(i).ScopeProfiles().At(0).Profiles().At(0)
}

// TestContract_1_4_InvalidIndices breaks one reference after the other. The message is passed on unchanged,
// its candidates are counted, and a reference to the end of a table does not get an entry that another frame
// would have appended.
func TestContract_1_4_InvalidIndices(t *testing.T) {
	for what, spoil := range spoiled {
		t.Run(what, func(t *testing.T) {
			d := validMessage().Profiles.Dictionary()
			ends := []int32{
				int32(d.StringTable().Len()), int32(d.AttributeTable().Len()), int32(d.MappingTable().Len()),
				int32(d.FunctionTable().Len()), int32(d.LocationTable().Len()), int32(d.StackTable().Len()),
			}
			end := slices.Max(ends) + 1 // spoiling adds an entry
			for _, index := range []int32{-1, math.MinInt32, end, end + 1000, math.MaxInt32} {
				for _, location := range []int{1, 2, 3} { // of the kernel, one that is named, and of a user
					m := validMessage()
					d := m.Profiles.Dictionary()
					spoil(m, d, d.LocationTable().At(location), index)
					checkUntouched(t, m, rewrite.Options{}, 3)
				}
			}
		})
	}
}

// TestContract_1_4_TheNextEntry has a reference to the first entry that would be appended.
func TestContract_1_4_TheNextEntry(t *testing.T) {
	for what, refer := range map[string]func(m *rewritetest.Message, d pprofile.ProfilesDictionary){
		"string": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary) {
			d.MappingTable().AppendEmpty().SetFilenameStrindex(int32(d.StringTable().Len()))
		},
		"attribute": func(m *rewritetest.Message, d pprofile.ProfilesDictionary) {
			m.LastSample().AttributeIndices().Append(int32(d.AttributeTable().Len()))
		},
		"mapping": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary) {
			d.LocationTable().At(3).SetMappingIndex(int32(d.MappingTable().Len()))
		},
		"function": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary) {
			d.LocationTable().At(3).Lines().AppendEmpty().SetFunctionIndex(int32(d.FunctionTable().Len()))
		},
		"location": func(_ *rewritetest.Message, d pprofile.ProfilesDictionary) {
			d.StackTable().AppendEmpty().LocationIndices().Append(int32(d.LocationTable().Len()))
		},
		"stack": func(m *rewritetest.Message, d pprofile.ProfilesDictionary) {
			m.LastSample().SetStackIndex(int32(d.StackTable().Len()))
		},
	} {
		t.Run(what, func(t *testing.T) {
			m := validMessage()
			refer(m, m.Profiles.Dictionary())
			checkUntouched(t, m, rewrite.Options{}, 3)
		})
	}
}

// validMessage has one named frame, two frames without a name (one is split), and one frame of user code.
func validMessage() *rewritetest.Message {
	m := rewritetest.NewMessage().Profile(nil, "").Sample(
		Frame{Address: text + offC},
		withName(Frame{Address: text + offB + 1, Type: "kernel"}, "b"),
		Frame{Address: 0x1234, Type: "native"},
		Frame{Address: text + offA + 1},
		Frame{Address: text + offC},
	)
	return m.Sample(Frame{Address: 0x1234, Type: "native"})
}

func checkUntouched(t *testing.T, m *rewritetest.Message, opts rewrite.Options, candidates int) {
	t.Helper()
	before := marshal(t, m.Profiles)
	got, counts := rewritten(t, rewrite.New(opts), m.Profiles, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
	assert.Equal(t, m.Profiles, got)
	assert.True(t, bytes.Equal(before, marshal(t, got)))
	want := one(rewrite.OutcomeInvalid, timeline.OriginKernel)
	want[rewrite.OutcomeInvalid][timeline.OriginKernel] = candidates
	assert.Equal(t, want, counts)
}

func TestFrameTypeOfAnotherKindOfValue(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: text + offA + 1})
	d := m.Profiles.Dictionary()
	d.LocationTable().At(1).AttributeIndices().Append(m.Attribute("profile.frame.type", 7))
	before := marshal(t, m.Profiles)
	rewritten(t, rewrite.New(rewrite.Options{}), m.Profiles, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
	assert.True(t, bytes.Equal(before, marshal(t, m.Profiles)))
}

func TestEmptyMessages(t *testing.T) {
	for name, pd := range map[string]pprofile.Profiles{
		"nothing":     pprofile.NewProfiles(),
		"zero values": rewritetest.NewMessage().Profiles,
		"no samples":  rewritetest.NewMessage().Profile(nil, "").Profiles,
	} {
		t.Run(name, func(t *testing.T) { run(t, rewrite.Options{}, pd) })
	}
}

func TestWithoutSymbolsNothingChanges(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(Frame{Address: text + offA + 1, Type: "kernel"}, Frame{Address: offB, Mapping: vmlinux(), Type: "kernel"}, ambiguous).
		Sample(ambiguous)
	before := marshal(t, m.Profiles)
	for name, s := range map[string]func() *timeline.Snapshot{"no source": nil, "nil": fixed(nil), "empty": fixed(timeline.NewSnapshot())} {
		_, counts := rewritten(t, rewrite.New(rewrite.Options{Label: true, Addresses: rewrite.RelativeAddresses}), m.Profiles, rewrite.Sources{Snapshot: s})
		assert.True(t, bytes.Equal(before, marshal(t, m.Profiles)), name)
		assert.Equal(t, 2, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel], name)
		assert.Equal(t, 1, counts[rewrite.OutcomeForeign][timeline.OriginKernel], "a build id that is not known")
	}
}

func TestContract_4_6_NothingToDo(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope")
	for i := range uint64(100) {
		m.Sample(
			Frame{Address: i, Type: "native", Mapping: &Mapping{File: "app", BuildID: "ab"}},
			withName(Frame{Address: i, Type: "kernel", Mapping: vmlinux()}, "named"),
			Frame{Address: i, Mapping: &Mapping{File: "/usr/lib/libc.so.6"}},
			Frame{Address: i},
		)
	}
	before := marshal(t, m.Profiles)
	r, s := rewrite.New(rewrite.Options{IsForeign: isOther}), fixed(testSnapshot(t))
	m.Profiles.MarkReadOnly() // a write would panic
	got, counts := rewritten(t, r, m.Profiles, rewrite.Sources{Snapshot: s})
	assert.Equal(t, m.Profiles, got)
	assert.Equal(t, 100, counts[rewrite.OutcomeNamed][timeline.OriginKernel])
	assert.True(t, bytes.Equal(before, marshal(t, got)))
	assert.Zero(t, testing.AllocsPerRun(100, func() { r.Rewrite(m.Profiles, rewrite.Sources{Snapshot: s}) }))
}

// TestMemoryIsUsedAgain verifies that the memory for a message is reused for the next one of that size.
// TestIdleMemory tests the limits.
func TestMemoryIsUsedAgain(t *testing.T) {
	for _, entries := range []int{10_000, 1 << 20} {
		table := rewritetest.NewMessage().Profiles.Dictionary().LocationTable()
		table.EnsureCapacity(entries)
		for table.Len() < entries {
			table.AppendEmpty().SetAddress(text)
		}
		m := rewritetest.NewMessage()
		table.CopyTo(m.Profiles.Dictionary().LocationTable())
		r, sources := rewrite.New(rewrite.Options{}), rewrite.Sources{Snapshot: fixed(testSnapshot(t))}
		r.Rewrite(m.Profiles, sources)
		again := allocated(func() { r.Rewrite(m.Profiles, sources) })
		assert.Less(t, again, uint64(entries), "bytes for entries")
	}
}

// FuzzRewrite rewrites whatever unmarshals. It does not panic, allocates in proportion to the message, keeps
// a valid message valid and its sums unchanged, and a second pass changes nothing.
func FuzzRewrite(f *testing.F) {
	frames := []Frame{
		ambiguous, {Address: text + 0x40}, {Address: ext4 + 1, Mapping: &Mapping{File: "[ext4]"}},
		{Address: offB, Mapping: vmlinux()}, {Address: 1, Type: "native"},
		{Address: text + offE, Type: "kernel", Attributes: map[string]any{keyFolded: false}},
		{Address: text + offB, Mapping: &Mapping{File: "vmlinux", Attributes: map[string]any{keyHasFunctions: false}}},
		{Address: text + offA, Lines: []Line{{Name: "UNKNOWN"}}},
	}
	m := rewritetest.NewMessage()
	for i, scope := range []string{"scope", ebpfScope, "scope"} {
		m.Profile([]map[string]any{nil, nil, other}[i], scope)
		for k := range frames {
			m.Sample(frames[k], frames[(k+i)%len(frames)])
		}
	}
	f.Add(marshal(f, m.Profiles), byte(0))
	f.Add(marshal(f, m.Profiles), byte(7))
	f.Add(marshal(f, rewritetest.NewMessage().Profiles), byte(0))
	snapshot := fixed(testSnapshot(f))

	f.Fuzz(func(t *testing.T, data []byte, flags byte) {
		pd, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(data)
		if err != nil {
			return
		}
		opts := rewrite.Options{All: flags&1 != 0, Addresses: addressesOf(flags&2 != 0), Label: flags&4 != 0}
		if flags&8 != 0 {
			opts.IsForeign = isOther
		}
		valid := rewritetest.CheckValid(pd) == nil
		r := rewrite.New(opts)
		require.Less(t, allocatedBy(t, pd, func() { r.Rewrite(pd, rewrite.Sources{Snapshot: snapshot}) }), uint64(1<<20+200*len(data)))
		if !valid {
			return
		}
		once := marshal(t, pd)
		r.Rewrite(pd, rewrite.Sources{Snapshot: snapshot})
		require.True(t, bytes.Equal(once, marshal(t, pd)), "twice is not once")
	})
}
