// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestNothingWrittenIsTheSameObject, even if frames could have been named and the message is read-only.
func TestNothingWrittenIsTheSameObject(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 1, Type: "kernel"})
	m.Profiles.MarkReadOnly()
	for _, s := range []*timeline.Snapshot{timeline.NewSnapshot(), testSnapshot(t)} {
		got, counts := rewritten(t, rewrite.New(rewrite.Options{Addresses: rewrite.RelativeAddresses}), m.Profiles, rewrite.Sources{Snapshot: fixed(s)})
		assert.Equal(t, m.Profiles, got)
		require.Equal(t, 1, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel])
	}
}

// TestTablesThatWereLeftOutStaySo verifies that entry 0 keeps its meaning, none, even after the table gets an
// entry.
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
		r := rewrite.New(rewrite.Options{Addresses: rewrite.RelativeAddresses})
		_, counts := rewritten(t, r, pd, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
		assert.Zero(t, counts[rewrite.OutcomeInvalid][timeline.OriginKernel], what)
		assert.Equal(t, "a", nameIn(rewritetest.FrameAt(d, 1)), what)
		once := marshal(t, pd)
		rewritten(t, r, pd, rewrite.Sources{Snapshot: fixed(testSnapshot(t))})
		assert.Equal(t, once, marshal(t, pd), what)
	}
}
