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
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/sender"
	"github.com/kernelsym/kernelsym/kernelstackreceiver/internal/metadata"
)

// host records the status reported to it.
type host struct {
	component.Host
	events chan *componentstatus.Event
}

func newHost() host {
	return host{componenttest.NewNopHost(), make(chan *componentstatus.Event, 100)}
}

func (h host) Report(e *componentstatus.Event) { h.events <- e }

// TestContract_6_3_ItTriesAgain: until it can sample, it reports only once why it cannot.
func TestContract_6_3_ItTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := observer.New(zap.InfoLevel)
		r := &kernelStacks{logger: zap.New(log)}
		began, tries := time.Now(), 0
		ctx, cancel := context.WithCancel(t.Context())
		r.run(ctx, newStatus(componenttest.NewNopHost()).of("kernel stacks"), func(_ context.Context, started func(missing ...error)) error {
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

// TestSend: the receiver counts the samples that it sends and that it cannot send, as all
// receivers do.
func TestSend(t *testing.T) {
	for outcome, next := range map[string]error{"accepted": nil, "refused": consumererror.NewDownstream(errors.New("no room"))} {
		telemetry := componenttest.NewTelemetry()
		defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
		set := receivertest.NewNopSettings(metadata.Type)
		set.TelemetrySettings = telemetry.NewTelemetrySettings()
		sink := &sink{err: next}
		r, err := newReceiver(set, createDefaultConfig().(*Config), sink)
		require.NoError(t, err)
		r.send(t.Context(), &kernelstack.Message{
			Profiles: []pprofile.Profiles{twoSamples()}, Samples: 2, NoContainer: 3, NoStack: 1, Lost: 42, LostNames: 7, Throttled: 2,
			Waits: 8, Short: 5,
			Unknown: kernelstack.Unknown{Records: 1, Blind: 2, NoReturn: 4, Threads: 8}, Paused: time.Second,
		})
		r.send(t.Context(), &kernelstack.Message{})
		assert.Equal(t, 1, sink.messages, "an empty message is not sent on")
		assert.Equal(t, 1, sink.local, "contract 2.6: its messages are made within the process")

		sum := func(name string) (total int64) {
			m, err := telemetry.GetMetric("otelcol_receiver_" + name)
			require.NoError(t, err)
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				total += p.Value
			}
			return total
		}
		assert.EqualValues(t, 42, sum("kernelstack_lost_records"))
		assert.EqualValues(t, 7, sum("kernelstack_lost_names"))
		assert.EqualValues(t, 2, sum("kernelstack_throttled"))
		assert.EqualValues(t, 1, sum("kernelstack_no_stack"))
		assert.EqualValues(t, 3, sum("kernelstack_no_container"))
		assert.EqualValues(t, 8, sum("kernelstack_waits"))
		assert.EqualValues(t, 5, sum("kernelstack_short_waits"))
		lost, err := telemetry.GetMetric("otelcol_receiver_kernelstack_lost_waits")
		require.NoError(t, err)
		byCause := map[string]int64{}
		for _, p := range lost.Data.(metricdata.Sum[int64]).DataPoints {
			cause, _ := p.Attributes.Value("cause")
			byCause[cause.AsString()] = p.Value
		}
		assert.Equal(t, map[string]int64{"records": 1, "blind": 2, "no_return": 4, "threads": 8}, byCause)
		paused, err := telemetry.GetMetric("otelcol_receiver_kernelstack_off_cpu_pause")
		require.NoError(t, err)
		assert.InDelta(t, 1, paused.Data.(metricdata.Sum[float64]).DataPoints[0].Value, 0)
		for _, other := range []string{"accepted", "refused"} {
			assert.EqualValues(t, map[bool]int{true: 2}[other == outcome], sum(other+"_profile_samples"), other)
		}
		m, err := telemetry.GetMetric("otelcol_receiver_accepted_profile_samples")
		require.NoError(t, err)
		assert.Equal(t, attribute.NewSet(
			attribute.String("receiver", set.ID.String()), attribute.String("transport", "perf"),
			attribute.String("sample_type", "samples:count"),
		), m.Data.(metricdata.Sum[int64]).DataPoints[0].Attributes)
	}
}

// twoSamples returns a message with two samples.
func twoSamples() pprofile.Profiles {
	pd := pprofile.NewProfiles()
	pd.Dictionary().StringTable().Append("", "samples", "count")
	profile := pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	profile.SampleType().SetTypeStrindex(1)
	profile.SampleType().SetUnitStrindex(2)
	profile.Samples().AppendEmpty()
	profile.Samples().AppendEmpty()
	return pd
}

// sink counts messages, which it changes, and answers with an error.
type sink struct {
	consumertest.Consumer
	messages int
	local    int // certainly from this machine
	err      error
}

func (s *sink) ConsumeProfiles(ctx context.Context, pd pprofile.Profiles) error {
	s.messages++
	if sender.IsLocal(ctx) {
		s.local++
	}
	pd.ResourceProfiles().RemoveIf(func(pprofile.ResourceProfiles) bool { return true })
	return s.err
}
