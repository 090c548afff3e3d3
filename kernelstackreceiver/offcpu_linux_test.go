// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// sampleType returns the type of a message's samples.
func sampleType(pd pprofile.Profiles) string {
	at := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).SampleType()
	return pd.Dictionary().StringTable().At(int(at.TypeStrindex())) + "/" + pd.Dictionary().StringTable().At(int(at.UnitStrindex()))
}

// TestOffCPUTime samples the running kernel: running and waiting threads have separate messages. The rings for waits are opened
// last.
func TestOffCPUTime(t *testing.T) {
	kerneltest.NeedPerf(t)
	if err := procfs.CheckInitialPIDNamespace("/proc"); err != nil {
		t.Skipf("%v: off-CPU time is not tested", err)
	}
	kerneltest.Busy(t)
	for enabled, want := range map[bool][]string{false: {"samples/count"}, true: {"samples/count", "off_cpu/nanoseconds"}} {
		c := config()
		c.OffCPU.Enabled = enabled
		sink := new(consumertest.ProfilesSink)
		log, lines := observer.New(zap.InfoLevel)
		r, h := startLogging(t, c, sink, zap.New(log))
		types := map[string]bool{}
		require.Eventually(t, func() bool {
			for _, pd := range sink.AllProfiles() {
				types[sampleType(pd)] = true
			}
			return len(types) >= len(want)
		}, time.Minute, 10*time.Millisecond)
		time.Sleep(2 * c.Interval)
		require.NoError(t, r.Shutdown(context.Background()))
		for range want {
			assert.Equal(t, componentstatus.StatusOK, (<-h.events).Status())
		}
		var said []string
		for _, line := range lines.All() {
			said = append(said, line.Message)
		}
		assert.Equal(t, []string{"Sampling kernel stacks", "Sampling off-CPU time"}[:len(want)], said)
		for _, pd := range sink.AllProfiles() {
			assert.Contains(t, want, sampleType(pd))
			require.NoError(t, rewritetest.CheckSent(pd))
			require.NoError(t, rewritetest.CheckTidy(pd))
		}
	}
}

// TestContract_6_3_OffCPUTimeBesideKernelStacks verifies that the rings for waits are not opened while those of kernel stacks
// cannot be: they could take the memory and the files that these need.
func TestContract_6_3_OffCPUTimeBesideKernelStacks(t *testing.T) {
	kerneltest.NeedPerf(t)
	c := config()
	c.OffCPU.Enabled = true
	c.Frequency = 1 << 40 // which the kernel refuses
	log, lines := observer.New(zap.InfoLevel)
	r, h := startLogging(t, c, new(consumertest.ProfilesSink), zap.New(log))
	require.ErrorIs(t, (<-h.events).Err(), perfring.ErrRate)
	time.Sleep(2 * time.Second) // kernel stacks are tried again during this time
	require.NoError(t, r.Shutdown(context.Background()))
	require.Len(t, lines.All(), 1)
	assert.Equal(t, "Cannot sample kernel stacks", lines.All()[0].Message)
}
