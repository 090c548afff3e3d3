// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestWhatElasticRefuses verifies that Elastic's exporter still makes the demands that rewritetest
// makes in its name, and that these tests notice a refusal.
func TestWhatElasticRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(pd pprofile.Profiles)
		refuses string
		noticed bool // by rewritetest, too
	}{
		"a frame without a type": {func(pd pprofile.Profiles) {
			loc := pd.Dictionary().LocationTable().At(1)
			loc.AttributeIndices().FromRaw(nil)
			loc.SetAddress(nowhere)
			loc.SetMappingIndex(0)
			loc.Lines().RemoveIf(func(pprofile.Line) bool { return true })
		}, "profile.frame.type", true},
		"an invalid file ID": {func(pd pprofile.Profiles) {
			for _, a := range pd.Dictionary().AttributeTable().All() {
				if pd.Dictionary().StringTable().At(int(a.KeyStrindex())) == "process.executable.build_id.htlhash" {
					a.Value().SetStr("5a")
				}
			}
		}, "", true},
		"cycles": {func(pd pprofile.Profiles) {
			pd.Dictionary().StringTable().Append("cycles")
			profile := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
			profile.SampleType().SetTypeStrindex(int32(pd.Dictionary().StringTable().Len() - 1))
		}, "cycles", false},
	} {
		t.Run(name, func(t *testing.T) {
			pd := profilersMessage(t, profilersStacks())
			tt.change(pd)
			_, err := deliver(t, pd)
			require.ErrorContains(t, err, tt.refuses)
			if tt.noticed {
				assert.Error(t, rewritetest.CheckSent(pd))
			}
		})
	}
}
