// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestContract_10_2_NoClock: a gateway ignores the times of samples, even if a location has several answers.
func TestContract_10_2_NoClock(t *testing.T) {
	mapping := ext4Mapping()
	mapping.Limit = 1 << 20
	module := Frame{Address: 0x100, Type: "kernel", Mapping: mapping}
	m := rewritetest.NewMessage().Profile(nil, "").Sample(module).Sample(Frame{Address: 0x42, Type: "native"}, module)
	samples := m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples()
	for i := range samples.Len() {
		samples.At(i).TimestampsUnixNano().Append(1)
	}
	opts := withPacks
	opts.Gateway = true
	known := gatewayKnown(t, ext4Pack(t))
	known.Clock, known.Now = realtime.Fixed(0), 1<<60
	r := rewrite.New(opts)
	got := rewritetest.Samples(r.Rewrite(m.Profiles, known).Profiles)
	assert.Equal(t, "ext4_write", outermost(got[0].Stack[0]))
	assert.Equal(t, "ext4_read", outermost(got[1].Stack[1]))
	assert.Zero(t, r.ClockOff())
}
