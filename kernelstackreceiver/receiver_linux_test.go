// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/kernelstackreceiver/internal/metadata"
)

func config() *Config {
	c := createDefaultConfig().(*Config)
	c.Frequency, c.Interval = kerneltest.Hertz(997), 300*time.Millisecond
	return c
}

func start(t *testing.T, c *Config, next *consumertest.ProfilesSink) (*kernelStacks, host) {
	t.Helper()
	return startLogging(t, c, next, zap.NewNop())
}

func startLogging(t *testing.T, c *Config, next *consumertest.ProfilesSink, logger *zap.Logger) (*kernelStacks, host) {
	t.Helper()
	set := receivertest.NewNopSettings(metadata.Type)
	set.Logger = logger
	r, err := newReceiver(set, c, next)
	require.NoError(t, err)
	h := newHost()
	require.NoError(t, r.Start(t.Context(), h))
	t.Cleanup(func() { require.NoError(t, r.Shutdown(context.Background())) })
	return r, h
}

func waitForProfiles(t *testing.T, sink *consumertest.ProfilesSink, n int) []pprofile.Profiles {
	t.Helper()
	require.Eventually(t, func() bool { return len(sink.AllProfiles()) >= n }, time.Minute, 10*time.Millisecond)
	return sink.AllProfiles()
}

func TestProfileOfTheRunningKernel(t *testing.T) {
	kerneltest.NeedPerf(t)
	kerneltest.Busy(t)
	sink := new(consumertest.ProfilesSink)
	begin := time.Now()
	r, h := start(t, config(), sink)
	waitForProfiles(t, sink, 2)
	require.Eventually(t, func() bool { return slices.ContainsFunc(sink.AllProfiles(), hasThisProcess) }, time.Minute, 10*time.Millisecond)
	require.NoError(t, r.Shutdown(context.Background()))
	end := time.Now()
	assert.Equal(t, componentstatus.StatusOK, (<-h.events).Status())

	for _, pd := range sink.AllProfiles() {
		require.NoError(t, rewritetest.CheckSent(pd))
		require.NoError(t, rewritetest.CheckTidy(pd))
		assert.Equal(t, metadata.ScopeName, pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Scope().Name())
		attributes := pd.ResourceProfiles().At(0).Resource().Attributes().AsRaw()
		assert.Equal(t, "kernel", attributes["service.name"])
		assert.Equal(t, release(t), attributes["os.version"])
		profile := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
		from := uint64(profile.Time())
		to := from + profile.DurationNano()
		assert.GreaterOrEqual(t, from, uint64(begin.UnixNano()))
		assert.LessOrEqual(t, to, uint64(end.UnixNano()))
		for i, s := range profile.Samples().All() {
			require.Zero(t, s.Values().Len())
			require.Positive(t, s.TimestampsUnixNano().Len())
			for _, at := range s.TimestampsUnixNano().All() {
				require.True(t, from <= at && at < to, "sample %d: %d is not in %d-%d", i, at, from, to)
			}
			attributes, err := pprofile.FromAttributeIndices(pd.Dictionary().AttributeTable(), s, pd.Dictionary())
			require.NoError(t, err)
			_, err = os.Stat(fmt.Sprintf("/sys/devices/system/cpu/cpu%d", attributes.AsRaw()["cpu.logical_number"]))
			require.NoError(t, err)
		}
		for _, s := range rewritetest.Samples(pd) {
			require.NotEmpty(t, s.Stack)
			for _, f := range s.Stack {
				require.NotZero(t, f.Address>>63)
				require.Equal(t, rewritetest.Frame{Address: f.Address, Type: "kernel"}, f)
			}
		}
	}
}

// release returns the release of the running kernel.
func release(t *testing.T) string {
	t.Helper()
	var name unix.Utsname
	require.NoError(t, unix.Uname(&name))
	return unix.ByteSliceToString(name.Release[:])
}

// hasThisProcess reports whether a profile has a sample with this process's number and the name
// of its threads.
func hasThisProcess(pd pprofile.Profiles) bool {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return false
	}
	for _, s := range pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
		attributes, err := pprofile.FromAttributeIndices(pd.Dictionary().AttributeTable(), s, pd.Dictionary())
		if err != nil {
			return false
		}
		raw := attributes.AsRaw()
		if raw["process.pid"] == int64(os.Getpid()) && raw["thread.name"] == string(comm[:len(comm)-1]) {
			return true
		}
	}
	return false
}

func TestSamplesOfAMessageAreCapped(t *testing.T) {
	kerneltest.NeedPerf(t)
	kerneltest.Busy(t)
	c := config()
	c.Interval, c.MaxSamples = time.Hour, 20
	sink := new(consumertest.ProfilesSink)
	r, _ := start(t, c, sink)
	for _, pd := range waitForProfiles(t, sink, 3)[:3] {
		require.NoError(t, rewritetest.CheckSent(pd))
		require.NoError(t, rewritetest.CheckTidy(pd))
		events := 0
		for _, s := range rewritetest.Samples(pd) {
			events += len(s.Timestamps)
		}
		assert.Equal(t, 20, events)
	}
	require.NoError(t, r.Shutdown(context.Background()))
}

func TestWhatIsLeftIsSentAtTheEnd(t *testing.T) {
	kerneltest.NeedPerf(t)
	kerneltest.Busy(t)
	c := config()
	c.Interval, c.MaxSamples = time.Hour, 1<<20
	sink := new(consumertest.ProfilesSink)
	r, h := start(t, c, sink)
	<-h.events // it samples
	before := kernelTime(t)
	require.Eventually(t, func() bool { return kernelTime(t) > before+200*time.Millisecond }, time.Minute, 10*time.Millisecond)
	assert.Empty(t, sink.AllProfiles())
	require.NoError(t, r.Shutdown(context.Background()))
	require.Len(t, sink.AllProfiles(), 1)
	require.NoError(t, rewritetest.CheckSent(sink.AllProfiles()[0]))
	assert.NotEmpty(t, rewritetest.Samples(sink.AllProfiles()[0]))
}

// kernelTime returns how long the kernel has worked for this process.
func kernelTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Stime.Nano())
}

func TestStartAndShutdownInAnyOrder(t *testing.T) {
	kerneltest.NeedPerf(t)
	r, err := newReceiver(receivertest.NewNopSettings(metadata.Type), config(), new(consumertest.ProfilesSink))
	require.NoError(t, err)
	up := func() { require.NoError(t, r.Start(t.Context(), newHost())) }
	down := func() { require.NoError(t, r.Shutdown(context.Background())) }
	for _, step := range []func(){down, up, up, down, down, up, down} {
		step()
	}
}

// TestRefusalsAreNotAllLogged sends to a consumer that never accepts anything.
func TestRefusalsAreNotAllLogged(t *testing.T) {
	core, log := observer.New(zapcore.WarnLevel)
	set := receivertest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	r, err := newReceiver(set, config(), consumertest.NewErr(errors.New("no room")))
	require.NoError(t, err)
	for range 1000 {
		r.send(t.Context(), &kernelstack.Message{Profiles: []pprofile.Profiles{pprofile.NewProfiles()}, Samples: 1})
	}
	lines := log.All()
	require.Len(t, lines, 10)
	assert.Equal(t, "no room", lines[0].ContextMap()["error"])
}

func TestTelemetry(t *testing.T) {
	kerneltest.NeedPerf(t)
	kerneltest.Busy(t)
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	for outcome, next := range map[string]error{"accepted": nil, "refused": errors.New("no room")} {
		sink := consumertest.NewErr(next)
		if next == nil {
			sink = consumertest.NewNop()
		}
		r, err := newReceiver(set, config(), sink)
		require.NoError(t, err)
		require.NoError(t, r.Start(t.Context(), newHost()))
		require.Eventually(t, func() bool {
			m, err := telemetry.GetMetric("otelcol_receiver_" + outcome + "_profile_samples")
			return err == nil && slices.ContainsFunc(m.Data.(metricdata.Sum[int64]).DataPoints,
				func(p metricdata.DataPoint[int64]) bool { return p.Value > 0 })
		}, time.Minute, 10*time.Millisecond, outcome)
		require.NoError(t, r.Shutdown(context.Background()))
	}
}

// TestContract_6_3_WithoutPrivilegeTheCollectorGoesOn starts the receiver as a user who may not
// sample: the status says why it cannot.
func TestContract_6_3_WithoutPrivilegeTheCollectorGoesOn(t *testing.T) {
	kerneltest.NeedRestrictedPerf(t)
	kerneltest.Unprivileged(t, func(t *testing.T) {
		r, h := start(t, config(), new(consumertest.ProfilesSink))
		e := <-h.events
		assert.Equal(t, componentstatus.StatusRecoverableError, e.Status())
		require.ErrorContains(t, e.Err(), "CAP_PERFMON")
		time.Sleep(2 * time.Second) // it tries again during this time
		assert.Empty(t, h.events, "reported once")
		require.NoError(t, r.Shutdown(context.Background()))
	})
}
