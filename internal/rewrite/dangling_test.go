package rewrite

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestNothingIsAppendedWhereSomebodyRefersTo has a location that refers to the end of a
// table: it does not get what another one is given, so nothing is written. If it refers
// to far behind the end, others are named.
func TestNothingIsAppendedWhereSomebodyRefersTo(t *testing.T) {
	for what, spoil := range map[string]func(d pprofile.ProfilesDictionary, loc pprofile.Location, behind int32){
		"mapping": func(d pprofile.ProfilesDictionary, loc pprofile.Location, behind int32) {
			loc.SetMappingIndex(int32(d.MappingTable().Len()) + behind)
		},
		"function": func(d pprofile.ProfilesDictionary, loc pprofile.Location, behind int32) {
			loc.Lines().AppendEmpty().SetFunctionIndex(int32(d.FunctionTable().Len()) + behind)
		},
		"attribute": func(d pprofile.ProfilesDictionary, loc pprofile.Location, behind int32) {
			loc.AttributeIndices().Append(int32(d.AttributeTable().Len()) + behind)
		},
		"name of a function": func(d pprofile.ProfilesDictionary, loc pprofile.Location, behind int32) {
			loc.Lines().AppendEmpty().SetFunctionIndex(int32(d.FunctionTable().Len()))
			d.FunctionTable().AppendEmpty().SetNameStrindex(int32(d.StringTable().Len()) + behind)
		},
		"attribute of a mapping": func(d pprofile.ProfilesDictionary, loc pprofile.Location, behind int32) {
			loc.SetMappingIndex(int32(d.MappingTable().Len()))
			d.MappingTable().AppendEmpty().AttributeIndices().Append(int32(d.AttributeTable().Len()) + behind)
		},
		"attribute behind an invalid one": func(d pprofile.ProfilesDictionary, loc pprofile.Location, behind int32) {
			loc.AttributeIndices().Append(math.MaxInt32, int32(d.AttributeTable().Len())+behind)
		},
		"key of an attribute": func(d pprofile.ProfilesDictionary, loc pprofile.Location, behind int32) {
			loc.AttributeIndices().Append(int32(d.AttributeTable().Len()))
			d.AttributeTable().AppendEmpty().SetKeyStrindex(int32(d.StringTable().Len()) + behind)
		},
	} {
		for _, location := range []int{2, 3} { // of the kernel, and of a user
			m := rewritetest.NewMessage().Profile(nil, "").Sample(
				Frame{Address: text + offA + 1},
				Frame{Address: text + offB + 1, Type: "kernel"},
				Frame{Address: 0x1234, Type: "native"},
			)
			for _, behind := range []int32{0, 1000} {
				pd := copied(m.Profiles)
				d := pd.Dictionary()
				spoil(d, d.LocationTable().At(location), behind)
				before := marshal(t, pd)
				_, counts := New(Options{}).Rewrite(pd, Known{Snapshot: testSnapshot(t)})
				if behind == 1000 {
					assert.Equal(t, "a", nameOf(rewritetest.FrameAt(d, 1)), "%s of %d", what, location)
					continue
				}
				assert.Equal(t, before, marshal(t, pd), "%s of %d", what, location)
				assert.Zero(t, counts[OutcomeResolved][symtab.OriginKernel])
				assert.GreaterOrEqual(t, counts[OutcomeInvalid][symtab.OriginKernel], 2)
			}
		}
	}
}

// TestNothingWrittenIsTheSameObject, also if there were frames to name, and the message
// must not be written to.
func TestNothingWrittenIsTheSameObject(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 1, Type: "kernel"})
	m.Profiles.MarkReadOnly()
	for _, s := range []*symtab.Snapshot{symtab.NewSnapshot(), testSnapshot(t)} {
		got, counts := New(Options{}).Rewrite(m.Profiles, Known{Snapshot: s})
		assert.Equal(t, m.Profiles, got)
		require.Equal(t, 1, counts[OutcomeUnresolved][symtab.OriginKernel])
	}
}

// TestTablesThatWereLeftOutStaySo in what they mean: entry 0 is nothing, before there is
// one and after.
func TestTablesThatWereLeftOutStaySo(t *testing.T) {
	for what, refer := range map[string]func(d pprofile.ProfilesDictionary, loc pprofile.Location){
		"attribute": func(_ pprofile.ProfilesDictionary, loc pprofile.Location) { loc.AttributeIndices().Append(0) },
		"attribute's key": func(d pprofile.ProfilesDictionary, loc pprofile.Location) {
			d.AttributeTable().AppendEmpty()
			loc.AttributeIndices().Append(0)
		},
		"function's name": func(d pprofile.ProfilesDictionary, loc pprofile.Location) {
			d.FunctionTable().AppendEmpty()
			loc.Lines().AppendEmpty()
		},
		"mapping's attribute": func(d pprofile.ProfilesDictionary, loc pprofile.Location) {
			d.MappingTable().AppendEmpty()
			d.MappingTable().AppendEmpty().AttributeIndices().Append(0)
			loc.SetMappingIndex(1)
		},
	} {
		pd := pprofile.NewProfiles()
		d := pd.Dictionary()
		for _, addr := range []uint64{0, text + offA + 1, text + offB + 1} {
			d.LocationTable().AppendEmpty().SetAddress(addr)
		}
		d.StackTable().AppendEmpty().LocationIndices().Append(1, 2)
		pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty().Samples().AppendEmpty()
		refer(d, d.LocationTable().At(1))
		r := New(Options{})
		_, counts := r.Rewrite(pd, Known{Snapshot: testSnapshot(t)})
		assert.Zero(t, counts[OutcomeInvalid][symtab.OriginKernel], what)
		assert.Equal(t, "a", nameOf(rewritetest.FrameAt(d, 1)), what)
		once := marshal(t, pd)
		r.Rewrite(pd, Known{Snapshot: testSnapshot(t)})
		assert.Equal(t, once, marshal(t, pd), what)
	}
}
