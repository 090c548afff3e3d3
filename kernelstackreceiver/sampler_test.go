package kernelstackreceiver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/kernelstackreceiver/internal/metadata"
)

// records are some of each kind.
var records = []perfring.Record{
	{Type: perfring.TypeThrottle, Time: 3},
	{Type: perfring.TypeThrottle, Time: 4},
	{Type: perfring.TypeComm, Time: 5, PID: 10, TID: 11, Comm: "worker"},
	{Type: perfring.TypeSample, Time: 6, PID: 10, TID: 11, Stack: []uint64{leaf, caller}},
	{Type: perfring.TypeSample, Time: 7, PID: 10, TID: 11}, // of user code, for one
	{Type: perfring.TypeSample, Time: 8, PID: 12, TID: 12, Guest: true},
}

// TestSampler feeds a sampler records that cannot be had at will: what it cannot
// send on it counts.
func TestSampler(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	sink := new(consumertest.ProfilesSink)
	r, err := newReceiver(set, createDefaultConfig().(*Config), sink)
	require.NoError(t, err)
	s := newSession(&Sampler{Config: r.config, Send: r.send}, nil, perfring.Sampling{Frequency: 97}, time.Now())
	s.add(t.Context(), perfring.Batch{Records: records, Lost: 42})
	s.send(t.Context(), time.Now())

	require.Len(t, sink.AllProfiles(), 1)
	pd := sink.AllProfiles()[0]
	checkSent(t, pd)
	samples := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples()
	require.Equal(t, 2, samples.Len())
	attributes, err := pprofile.FromAttributeIndices(pd.Dictionary().AttributeTable(), samples.At(0), pd.Dictionary())
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"process.pid": int64(10), "thread.id": int64(11), "thread.name": "worker", "cpu.logical_number": int64(0),
	}, attributes.AsRaw())

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
