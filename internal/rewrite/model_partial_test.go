package rewrite_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestGatewayWithoutSomePacks verifies that what a gateway writes where it lacks packs, too, is
// what the node would have written, and that the rest stays as it came (contract 10.2).
func TestGatewayWithoutSomePacks(t *testing.T) {
	written := 0
	for seed := range int64(*gatewaySeeds) {
		f := newFleet(t, seed)
		_, relative := f.messages()
		atGateway := f.opts
		atGateway.Gateway, atGateway.IsForeign = true, isOther
		came := rewritetest.Samples(relative)
		want := rewritetest.Samples(f.rewrite(t, f.opts, relative, f.node).Profiles)
		got := rewritetest.Samples(f.rewrite(t, atGateway, relative, f.partial).Profiles)
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
	}
	require.Greater(t, written, *gatewaySeeds)
}
