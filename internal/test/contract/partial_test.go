// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestGatewayWithoutSomePacks verifies that a gateway that lacks some packs leaves a frame as it came or
// writes what the node would have written (contract 10.2).
func TestGatewayWithoutSomePacks(t *testing.T) {
	written := 0
	for seed := range int64(rewritetest.Rounds(*gatewaySeeds)) {
		f := newFleet(t, seed)
		_, relative := f.messages()
		atGateway := f.opts
		atGateway.Gateway, atGateway.IsForeign = true, isOther
		came := rewritetest.Samples(relative)
		want := rewritetest.Samples(f.rewrite(t, f.opts, relative, f.node).Profiles)
		got := rewritetest.Samples(f.rewrite(t, atGateway, relative, f.partial).Profiles)
		written += compareWritten(t, seed, came, want, got)
	}
	require.Greater(t, written, rewritetest.Rounds(*gatewaySeeds))
}

// TestGatewayWithoutSomeIDs verifies the same for frames that do not identify their kernel. Code that was
// entered from such a frame may have been interrupted there.
func TestGatewayWithoutSomeIDs(t *testing.T) {
	written := 0
	for seed := range int64(rewritetest.Rounds(*gatewaySeeds)) {
		f := newFleet(t, seed)
		_, relative := f.messages()
		atGateway := f.opts
		atGateway.Gateway, atGateway.IsForeign = true, isOther
		want := rewritetest.Samples(f.rewrite(t, f.opts, relative, f.node).Profiles)
		stripped := f.withoutIDs(relative)
		came := rewritetest.Samples(stripped)
		got := rewritetest.Samples(f.rewrite(t, atGateway, stripped, f.gateway).Profiles)
		written += compareWritten(t, seed, came, want, got)
	}
	require.Greater(t, written, rewritetest.Rounds(*gatewaySeeds))
}

// withoutIDs returns a message some of whose mappings in the core kernel have no ids, and some
// of whose frames there have their address in memory and no mapping.
func (f *fleet) withoutIDs(pd pprofile.Profiles) pprofile.Profiles {
	pd = copyOf(pd)
	d, core := pd.Dictionary(), f.images[0]
	isCore := func(m pprofile.Mapping) bool {
		return d.StringTable().At(int(m.FilenameStrindex())) == core.Name()
	}
	for _, loc := range d.LocationTable().All() {
		if isCore(d.MappingTable().At(int(loc.MappingIndex()))) && f.r.Intn(4) == 0 {
			loc.SetAddress(loc.Address() + core.base())
			loc.SetMappingIndex(0)
		}
	}
	for _, m := range d.MappingTable().All() {
		if isCore(m) && f.r.Intn(4) == 0 {
			m.AttributeIndices().FromRaw(nil)
		}
	}
	return pd
}

// compareWritten compares the frames that a gateway changed with the node's, and returns their number.
func compareWritten(t *testing.T, seed int64, came, want, got []rewritetest.Sample) (written int) {
	require.Len(t, got, len(came))
	for i := range got {
		for k, frame := range got[i].Stack {
			if reflect.DeepEqual(frame, came[i].Stack[k]) {
				continue
			}
			written++
			require.Equal(t, want[i].Stack[k], frame, "seed %d sample %d frame %d", seed, i, k)
		}
	}
	return written
}
