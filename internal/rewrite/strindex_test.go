// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// byIndex returns a message whose attributes refer to the string table (string_value_strindex), which pdata
// can neither set nor show. off is added to every index.
func byIndex(t *testing.T, pd pprofile.Profiles, off int) pprofile.Profiles {
	t.Helper()
	d := pd.Dictionary()
	for _, attr := range d.AttributeTable().All() {
		if attr.Value().Type() != pcommon.ValueTypeStr {
			continue
		}
		index := d.StringTable().Len() + off
		d.StringTable().Append(attr.Value().Str())
		require.Less(t, index, 0x7f)
		attr.Value().SetStr("@" + string(rune(index)))
	}
	wire := marshal(t, pd)
	for i := range len(wire) - 3 { // string_value, field 1, becomes field 8, in as many bytes
		if wire[i] == 0x0a && wire[i+1] == 2 && wire[i+2] == '@' {
			copy(wire[i:], []byte{8 << 3, 0x80 | wire[i+3], 0x80, 0})
		}
	}
	pd, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(wire)
	require.NoError(t, err)
	return pd
}

// TestContract_1_5_ValuesByIndex: values by index mean the same as strings.
func TestContract_1_5_ValuesByIndex(t *testing.T) {
	perf := func(m *Mapping) *Mapping {
		m.File = "[kernel.kallsyms]"
		return m
	}
	for _, tt := range []struct {
		name   string
		in     Frame
		want   string
		counts rewrite.Counts
	}{
		{"frame type", Frame{Address: text + offB + 1, Type: "kernel"}, "b", one(rewrite.OutcomeResolved, timeline.OriginKernel)},
		{"another frame type", Frame{Address: text + offB + 1, Type: "native"}, "", rewrite.Counts{}},
		{"build id", Frame{Address: offB + 1, Type: "kernel", Mapping: &Mapping{File: "x", BuildID: kernelID}}, "b", one(rewrite.OutcomeResolved, timeline.OriginKernel)},
		{"file ID", Frame{Address: offB + 1, Type: "kernel", Mapping: &Mapping{File: "x", FileID: buildid.FileID(kernelID)}}, "b", one(rewrite.OutcomeResolved, timeline.OriginKernel)},
		{"both", Frame{Address: offB + 1, Type: "kernel", Mapping: vmlinux()}, "b", one(rewrite.OutcomeResolved, timeline.OriginKernel)},
		{"another build id", Frame{Address: text + offB + 1, Mapping: perf(&Mapping{BuildID: "0123"})}, "", one(rewrite.OutcomeForeign, timeline.OriginKernel)},
		{"another file ID", Frame{Address: text + offB + 1, Mapping: perf(&Mapping{FileID: "0123"})}, "", one(rewrite.OutcomeForeign, timeline.OriginKernel)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plain := rewritetest.NewMessage().Profile(nil, "scope").Sample(tt.in).Profiles
			pd := byIndex(t, copied(plain), 0)
			for _, value := range pd.Dictionary().AttributeTable().All() {
				require.Empty(t, value.Value().AsString(), "no string is left")
			}
			attributes := pd.Dictionary().AttributeTable().Len()
			_, want := run(t, rewrite.Options{}, plain)
			got, counts := run(t, rewrite.Options{}, pd)
			assert.Equal(t, tt.want, nameIn(got[0].Stack[0]))
			assert.Equal(t, tt.counts, counts)
			assert.Equal(t, want, counts)
			if tt.in.Mapping == nil || tt.name == "both" {
				added := plain.Dictionary().AttributeTable().Len() - attributes
				assert.Equal(t, added, pd.Dictionary().AttributeTable().Len()-attributes, "existing entries are reused")
			}
		})
	}
}

// TestContract_1_5_MappingIsFoundAgain: a mapping is found by IDs that it has by index.
func TestContract_1_5_MappingIsFoundAgain(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(Frame{Address: 0x1, Type: "native", Mapping: vmlinux()}, Frame{Address: text + offB + 1, Type: "kernel"})
	pd := byIndex(t, m.Profiles, 0)
	mappings, attributes := pd.Dictionary().MappingTable().Len(), pd.Dictionary().AttributeTable().Len()
	got, _ := run(t, rewrite.Options{}, pd)
	assert.Equal(t, "b", nameIn(got[0].Stack[1]))
	assert.Equal(t, mappings, pd.Dictionary().MappingTable().Len())
	assert.Equal(t, attributes, pd.Dictionary().AttributeTable().Len())
}

// TestContract_1_4_ValuesByInvalidIndex: an index beyond the string table is invalid like any other.
func TestContract_1_4_ValuesByInvalidIndex(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(Frame{Address: text + offB + 1, Attributes: map[string]any{"x": "y"}}, Frame{Address: text + offA + 1})
	pd := byIndex(t, m.Profiles, 20)
	before := marshal(t, pd)
	got, counts := rewritten(t, rewrite.New(rewrite.Options{}), pd, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
	assert.Equal(t, pd, got)
	assert.True(t, bytes.Equal(before, marshal(t, got)))
	want := one(rewrite.OutcomeInvalid, timeline.OriginKernel)
	want[rewrite.OutcomeInvalid][timeline.OriginKernel] = 2
	assert.Equal(t, want, counts)
}

// TestContract_1_4_ValuesByTheNextIndex: so is the first index behind the table, with any key, and even in a
// value that has strings of its own.
func TestContract_1_4_ValuesByTheNextIndex(t *testing.T) {
	for off, want := range map[int]rewrite.Counts{0: one(rewrite.OutcomeResolved, timeline.OriginKernel), 1: one(rewrite.OutcomeInvalid, timeline.OriginKernel)} {
		for _, key := range []string{"x", ""} {
			m := rewritetest.NewMessage().Profile(nil, "scope").
				Sample(Frame{Address: text + offB + 1, Attributes: map[string]any{key: "y"}})
			got := rewrite.New(rewrite.Options{}).Rewrite(byIndex(t, m.Profiles, off), rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
			assert.Equal(t, want, got.Counts, "key %q", key)

			m = rewritetest.NewMessage().Profile(nil, "scope").
				Sample(Frame{Address: text + offB + 1, Attributes: map[string]any{key: "y"}})
			nested := byIndex(t, m.Profiles, off)
			d := nested.Dictionary()
			value := pcommon.NewValueMap()
			inner := value.Map().PutEmptySlice("a key")
			inner.AppendEmpty().SetStr("a string")
			attr := d.AttributeTable().At(d.AttributeTable().Len() - 1)
			attr.Value().CopyTo(inner.AppendEmpty())
			value.CopyTo(attr.Value())
			before := marshal(t, nested)
			got = rewrite.New(rewrite.Options{}).Rewrite(nested, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
			assert.Equal(t, want, got.Counts, "nested, key %q", key)
			assert.Equal(t, off == 1, bytes.Equal(before, marshal(t, got.Profiles)))
		}
	}
}

// TestContract_1_5_NestedValues verifies that frames get names if the attribute table has values that are nested as deeply
// as pdata accepts. Their indices are read in the attributes of a resource, where pdata accepts fewer levels.
func TestContract_1_5_NestedValues(t *testing.T) {
	for name, tt := range map[string]struct {
		nest  func(pcommon.Value) pcommon.Value
		depth int // at most
	}{
		"lists":                {func(v pcommon.Value) pcommon.Value { return v.SetEmptySlice().AppendEmpty() }, 49},
		"maps":                 {func(v pcommon.Value) pcommon.Value { return v.SetEmptyMap().PutEmpty("a key") }, 33},
		"maps with empty keys": {func(v pcommon.Value) pcommon.Value { return v.SetEmptyMap().PutEmpty("") }, 33},
	} {
		for depth := tt.depth - 1; depth <= tt.depth+1; depth++ {
			m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: text + offB + 1, Type: "kernel"})
			v := m.Profiles.Dictionary().AttributeTable().AppendEmpty().Value()
			for range depth {
				v = tt.nest(v)
			}
			v.SetStr("a string")
			pd, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(marshal(t, m.Profiles))
			if depth > tt.depth {
				require.Error(t, err, name)
				continue
			}
			require.NoError(t, err, name)
			_, counts := run(t, rewrite.Options{}, pd)
			assert.Equal(t, one(rewrite.OutcomeResolved, timeline.OriginKernel), counts, "%s, depth %d", name, depth)
		}
	}
}

// TestContract_1_4_NestedValuesByInvalidIndex verifies that an index beyond the string table is found in any of these.
func TestContract_1_4_NestedValuesByInvalidIndex(t *testing.T) {
	for off, want := range map[int]rewrite.Outcome{0: rewrite.OutcomeResolved, 1: rewrite.OutcomeInvalid} {
		for name, nest := range map[string]func(pcommon.Value) pcommon.Value{
			"lists":                func(v pcommon.Value) pcommon.Value { return v.SetEmptySlice().AppendEmpty() },
			"maps with empty keys": func(v pcommon.Value) pcommon.Value { return v.SetEmptyMap().PutEmpty("") },
		} {
			m := rewritetest.NewMessage().Profile(nil, "scope").
				Sample(Frame{Address: text + offB + 1, Attributes: map[string]any{"x": "y"}})
			pd := byIndex(t, m.Profiles, off)
			table := pd.Dictionary().AttributeTable()
			attr := table.At(table.Len() - 1).Value()
			for range 20 {
				outer := pcommon.NewValueEmpty()
				attr.CopyTo(nest(outer))
				outer.MoveTo(attr)
			}
			got := rewrite.New(rewrite.Options{}).Rewrite(pd, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
			assert.Equal(t, one(want, timeline.OriginKernel), got.Counts, name)
		}
	}
}
