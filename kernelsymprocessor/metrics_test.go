// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/kernelsym/kernelsym/internal/metadatatest"
	"github.com/kernelsym/kernelsym/internal/symcache"
)

func TestContract_9_UpdatesAreCounted(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	s := make(source)
	p := newProcessorIn(t, telemetry.NewTelemetrySettings(), s.acquire)
	require.NoError(t, p.Start(atOnce(), newHost()))

	changes := symcache.Changes{Counts: symcache.Counts{LostRecords: 5, Resyncs: 1}}
	changes.Note(symcache.KindLoad, 2, time.Now().Add(-time.Hour))
	changes.Note(symcache.KindUnload, 1, time.Time{})
	s <- published{table: kernel(t, "f"), changes: changes}
	require.Eventually(t, func() bool { return process(t, p) == "f" }, time.Minute, time.Millisecond)

	fake := attribute.String("source", "fake")
	point := func(n int64, attributes ...attribute.KeyValue) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: n, Attributes: with(attributes...)}
	}
	kind := func(name string) attribute.KeyValue { return attribute.String("kind", name) }
	metadatatest.AssertEqualProcessorKernelsymUpdates(t, telemetry, []metricdata.DataPoint[int64]{
		point(2, fake, kind("load")), point(1, fake, kind("unload")), point(0, fake, kind("symbols")),
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorKernelsymLostRecords(t, telemetry,
		[]metricdata.DataPoint[int64]{point(5, fake)}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorKernelsymResyncs(t, telemetry,
		[]metricdata.DataPoint[int64]{point(1, fake)}, metricdatatest.IgnoreTimestamp())

	require.NoError(t, p.Shutdown(t.Context())) // the cache reports the delay before it ends
	delay, err := telemetry.GetMetric("otelcol_processor_kernelsym_update_delay")
	require.NoError(t, err)
	points := delay.Data.(metricdata.Histogram[float64]).DataPoints
	require.Len(t, points, 1, "when the unload happened is not known")
	assert.Equal(t, with(fake, kind("load")), points[0].Attributes)
	assert.Equal(t, uint64(1), points[0].Count)
	assert.InDelta(t, time.Hour.Seconds(), points[0].Sum, time.Minute.Seconds())
}
