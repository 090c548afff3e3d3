// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestCPUHotplug samples a CPU that goes offline and comes back, between two calls of
// RefreshCPUs or with one in between.
func TestCPUHotplug(t *testing.T) {
	kerneltest.NeedVM(t)
	opts := options()
	opts.BytesPerCPU = 1 << 20 // a full ring would be blind, too
	r := open(t, opts)
	kerneltest.Busy(t)
	const cpu = 1
	isOf := func(rec Record) bool { return rec.Type == TypeSample && rec.CPU == cpu }
	isOfAnother := func(rec Record) bool { return rec.Type == TypeSample && rec.CPU != cpu }
	readUntil(t, r, isOf)
	for i := range 4 {
		before := r.clock.Now()
		require.NoError(t, r.RefreshCPUs(false))
		kerneltest.SwitchCPU(t, cpu, false)
		if i%2 == 0 {
			require.NoError(t, r.RefreshCPUs(true))
			readUntil(t, r, isOfAnother)
		}
		kerneltest.SwitchCPU(t, cpu, true)
		online := r.clock.Now()
		require.NoError(t, r.RefreshCPUs(false))
		blind := r.Poll().Blind
		require.Len(t, blind, 1)
		assert.Greater(t, blind[0].From, before)
		assert.Greater(t, blind[0].To, online)
		readUntil(t, r, isOf)
	}
}
