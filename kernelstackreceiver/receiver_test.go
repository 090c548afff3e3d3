// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/kernelstackreceiver/internal/metadata"
)

// TestContract_6_3_ItTriesAgain: until it can sample, it reports once why it cannot.
func TestContract_6_3_ItTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := observer.New(zap.InfoLevel)
		r := &kernelStacks{logger: zap.New(log)}
		began, tries := time.Now(), 0
		ctx, cancel := context.WithCancel(t.Context())
		r.run(ctx, componenttest.NewNopHost(), func(_ context.Context, started func()) error {
			if tries++; tries < 4 {
				return errors.New("not permitted")
			}
			started()
			cancel()
			return ctx.Err()
		})
		assert.Less(t, time.Since(began), time.Minute)
		var said []string
		for _, line := range lines.All() {
			said = append(said, line.Message)
		}
		assert.Equal(t, []string{"Cannot sample kernel stacks", "Sampling kernel stacks again"}, said)
	})
}

// TestSend: the receiver counts what it sends on, and what it cannot.
func TestSend(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	sink := new(consumertest.ProfilesSink)
	r, err := newReceiver(set, createDefaultConfig().(*Config), sink)
	require.NoError(t, err)
	r.send(t.Context(), &kernelstack.Message{
		Profiles: pprofile.NewProfiles(), Samples: 2, NoStack: 1, Lost: 42, Throttled: 2,
	})
	r.send(t.Context(), &kernelstack.Message{Profiles: pprofile.NewProfiles()})
	assert.Len(t, sink.AllProfiles(), 1, "an empty message is not sent on")

	sum := func(name string) (all map[string]int64) {
		m, err := telemetry.GetMetric("otelcol_receiver_kernelstack_" + name)
		require.NoError(t, err)
		all = make(map[string]int64)
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			outcome, _ := p.Attributes.Value("outcome")
			all[outcome.AsString()] = p.Value
		}
		return all
	}
	assert.Equal(t, map[string]int64{"": 42}, sum("lost_records"))
	assert.Equal(t, map[string]int64{"": 2}, sum("throttled"))
	assert.Equal(t, map[string]int64{"accepted": 2, "no_stack": 1}, sum("samples"))
}
