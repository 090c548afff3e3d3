package rewrite

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestContract_6_1_InvalidIndices breaks one index after the other: that frame
// is left alone and counted, the others are named.
func TestContract_6_1_InvalidIndices(t *testing.T) {
	for name, spoil := range map[string]func(d pprofile.ProfilesDictionary, loc pprofile.Location, index int32){
		"mapping":   func(_ pprofile.ProfilesDictionary, loc pprofile.Location, i int32) { loc.SetMappingIndex(i) },
		"attribute": func(_ pprofile.ProfilesDictionary, loc pprofile.Location, i int32) { loc.AttributeIndices().Append(i) },
		"function": func(_ pprofile.ProfilesDictionary, loc pprofile.Location, i int32) {
			loc.Lines().AppendEmpty().SetFunctionIndex(i)
		},
		"mapping attribute": func(d pprofile.ProfilesDictionary, loc pprofile.Location, i int32) {
			mappingOf(d, loc).AttributeIndices().Append(i)
		},
		"mapping file name": func(d pprofile.ProfilesDictionary, loc pprofile.Location, i int32) {
			mappingOf(d, loc).SetFilenameStrindex(i)
		},
		"attribute key": func(d pprofile.ProfilesDictionary, loc pprofile.Location, i int32) {
			loc.AttributeIndices().Append(int32(d.AttributeTable().Len()))
			d.AttributeTable().AppendEmpty().SetKeyStrindex(i)
		},
		"function name": func(d pprofile.ProfilesDictionary, loc pprofile.Location, i int32) {
			loc.Lines().AppendEmpty().SetFunctionIndex(int32(d.FunctionTable().Len()))
			d.FunctionTable().AppendEmpty().SetNameStrindex(i)
		},
		"function system name": func(d pprofile.ProfilesDictionary, loc pprofile.Location, i int32) {
			loc.Lines().AppendEmpty().SetFunctionIndex(int32(d.FunctionTable().Len()))
			d.FunctionTable().AppendEmpty().SetSystemNameStrindex(i)
		},
	} {
		for _, index := range []int32{-1, math.MinInt32, 1000, math.MaxInt32} {
			t.Run(name, func(t *testing.T) {
				m := rewritetest.NewMessage().Profile(nil, "scope").Sample(
					Frame{Address: text + offA + 1, Type: "kernel"},
					Frame{Address: text + offB + 1, Type: "kernel"},
				)
				d := m.Profiles.Dictionary()
				spoil(d, d.LocationTable().At(1), index)
				was := pprofile.NewLocation()
				d.LocationTable().At(1).CopyTo(was)

				_, counts := New(Options{All: true}).Rewrite(m.Profiles, Known{Snapshot: testSnapshot(t)})
				assert.True(t, was.Equal(d.LocationTable().At(1)))
				assert.Equal(t, "b", nameOf(rewritetest.FrameAt(d, 2)))
				assert.Equal(t, 1, counts[OutcomeInvalid][symtab.OriginKernel])
				assert.Equal(t, 1, counts[OutcomeResolved][symtab.OriginKernel])
			})
		}
	}
}

// mappingOf gives a location a mapping of its own.
func mappingOf(d pprofile.ProfilesDictionary, loc pprofile.Location) pprofile.Mapping {
	loc.SetMappingIndex(int32(d.MappingTable().Len()))
	return d.MappingTable().AppendEmpty()
}

func TestContract_6_1_InvalidStacksAndSamples(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(ambiguous, Frame{Address: 1, Type: "native"}).
		Sample(Frame{Address: 1, Type: "native"}, ambiguous)
	d := m.Profiles.Dictionary()
	for _, index := range []int32{-1, math.MinInt32, 1000, math.MaxInt32} {
		d.StackTable().At(1).LocationIndices().Append(index)
		m.Sample()
		m.LastSample().SetStackIndex(index)
	}
	New(Options{}).Rewrite(m.Profiles, Known{Snapshot: testSnapshot(t)})
	assert.Equal(t, "c", nameOf(rewritetest.FrameAt(d, d.StackTable().At(1).LocationIndices().At(0))))
	assert.Equal(t, "b", nameOf(rewritetest.FrameAt(d, d.StackTable().At(2).LocationIndices().At(1))))
}

func TestFrameTypeOfAnotherKindOfValue(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: text + offA + 1})
	d := m.Profiles.Dictionary()
	d.LocationTable().At(1).AttributeIndices().Append(m.Attribute(keyFrameType, 7))
	before := marshal(t, m.Profiles)
	New(Options{}).Rewrite(m.Profiles, Known{Snapshot: testSnapshot(t)})
	assert.True(t, bytes.Equal(before, marshal(t, m.Profiles)))
}

func TestEmptyMessages(t *testing.T) {
	for name, pd := range map[string]pprofile.Profiles{
		"nothing":     pprofile.NewProfiles(),
		"zero values": rewritetest.NewMessage().Profiles,
		"no samples":  rewritetest.NewMessage().Profile(nil, "").Profiles,
	} {
		t.Run(name, func(t *testing.T) { run(t, Options{}, pd) })
	}
}

func TestWithoutSymbolsNothingChanges(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(Frame{Address: text + offA + 1, Type: "kernel"}, Frame{Address: offB, Mapping: vmlinux()}, ambiguous).
		Sample(ambiguous)
	before := marshal(t, m.Profiles)
	for _, s := range []*symtab.Snapshot{nil, symtab.NewSnapshot()} {
		_, counts := New(Options{Label: true}).Rewrite(m.Profiles, Known{Snapshot: s})
		assert.True(t, bytes.Equal(before, marshal(t, m.Profiles)))
		assert.Equal(t, 3, counts[OutcomeUnresolved][symtab.OriginKernel])
		assert.Zero(t, counts[OutcomeForeign], "the build id may be this kernel's")
	}
}

func TestContract_4_6_NothingToDo(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope")
	for i := range uint64(100) {
		m.Sample(
			Frame{Address: i, Type: "native", Mapping: &Mapping{File: "app", BuildID: "ab"}},
			named(Frame{Address: i, Type: "kernel", Mapping: vmlinux()}, "named"),
			Frame{Address: i, Mapping: &Mapping{File: "/usr/lib/libc.so.6"}},
			Frame{Address: i},
		)
	}
	before := marshal(t, m.Profiles)
	r, s := New(Options{IsForeign: isOther}), testSnapshot(t)
	m.Profiles.MarkReadOnly() // a write would panic
	got, counts := r.Rewrite(m.Profiles, Known{Snapshot: s})
	assert.Equal(t, m.Profiles, got)
	assert.Zero(t, counts)
	assert.True(t, bytes.Equal(before, marshal(t, got)))
	assert.Zero(t, testing.AllocsPerRun(100, func() { r.Rewrite(m.Profiles, Known{Snapshot: s}) }))
}

// TestHugeMessageIsNotKept: the memory that a message of millions of entries
// took is not held for the next.
func TestHugeMessageIsNotKept(t *testing.T) {
	m := rewritetest.NewMessage()
	table := m.Profiles.Dictionary().LocationTable()
	table.EnsureCapacity(maxKept + 1)
	for table.Len() <= maxKept {
		table.AppendEmpty()
	}
	var p pass
	p.begin(m.Profiles, &Options{}, Known{Snapshot: testSnapshot(t)})
	assert.False(t, p.end())
}

// FuzzRewrite feeds it whatever unmarshals: it does not panic, allocates in proportion
// to the message, what was valid stays valid and keeps its sums, and doing it twice is
// doing it once.
func FuzzRewrite(f *testing.F) {
	frames := []Frame{
		ambiguous, {Address: text + 0x40}, {Address: ext4 + 1, Mapping: &Mapping{File: "[ext4]"}},
		{Address: offB, Mapping: vmlinux()}, {Address: 1, Type: "native"},
		{Address: text + offE, Type: "kernel", Attributes: map[string]any{keyIsFolded: false}},
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
	snapshot := testSnapshot(f)

	f.Fuzz(func(t *testing.T, data []byte, flags byte) {
		pd, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(data)
		if err != nil {
			return
		}
		opts := Options{All: flags&1 != 0, KeepAddresses: flags&2 != 0, Label: flags&4 != 0}
		if flags&8 != 0 {
			opts.IsForeign = isOther
		}
		before := copied(pd)
		valid := rewritetest.CheckValid(pd) == nil
		r := New(opts)
		got := allocated(func() { r.Rewrite(pd, Known{Snapshot: snapshot}) })
		require.Less(t, got, uint64(1<<20+200*len(data)))
		if !valid {
			return
		}
		require.NoError(t, rewritetest.CheckValid(pd))
		require.NoError(t, rewritetest.CheckRewritten(before, pd))
		once := marshal(t, pd)
		r.Rewrite(pd, Known{Snapshot: snapshot})
		require.True(t, bytes.Equal(once, marshal(t, pd)), "twice is not once")
	})
}
