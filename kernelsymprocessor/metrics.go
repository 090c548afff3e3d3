// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/metadata"
	"github.com/kernelsym/kernelsym/internal/packs"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// metrics are the metrics of the processors with one id (contract 9).
type metrics struct {
	builder *metadata.TelemetryBuilder

	processor attribute.KeyValue // the component's id, which every metric has

	// The options of metrics that each message changes. They are made once.
	frames   [rewrite.NumOutcomes][timeline.NumOrigins][]metric.AddOption
	packs    [inline.NumResults][]metric.AddOption
	rewrites []metric.RecordOption
}

func newMetrics(id component.ID, set component.TelemetrySettings) (*metrics, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	m := &metrics{builder: builder, processor: attribute.String("processor", id.String())}
	m.rewrites = []metric.RecordOption{m.with()}
	for outcome := range m.frames {
		for origin := range m.frames[outcome] {
			m.frames[outcome][origin] = []metric.AddOption{m.with(
				attribute.String("outcome", rewrite.Outcome(outcome).String()),
				attribute.String("origin", timeline.Origin(origin).String()),
			)}
		}
	}
	for result := range m.packs {
		m.packs[result] = []metric.AddOption{m.with(attribute.String("result", inline.Result(result).String()))}
	}
	return m, nil
}

// with returns the option for these attributes and the processor's.
func (m *metrics) with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(attributes, m.processor)...))
}

func (m *metrics) withSource(source string) metric.MeasurementOption {
	return m.with(attribute.String("source", source))
}

func (m *metrics) withKind(source string, kind symcache.Kind) metric.MeasurementOption {
	return m.with(attribute.String("source", source), attribute.String("kind", kind.String()))
}

// count counts the frames of a message that had some.
func (m *metrics) count(ctx context.Context, result *rewrite.Result, took time.Duration) {
	m.builder.ProcessorKernelsymRewriteDuration.Record(ctx, took.Seconds(), m.rewrites...)
	for outcome := range result.Counts {
		for origin, n := range result.Counts[outcome] {
			if n > 0 {
				m.builder.ProcessorKernelsymFrames.Add(ctx, int64(n), m.frames[outcome][origin]...)
			}
		}
	}
	for gave, n := range result.Packs {
		if n > 0 {
			m.builder.ProcessorKernelsymPackFrames.Add(ctx, int64(n), m.packs[gave]...)
		}
	}
}

// recordDelay records how long it took until a source had applied a change.
func (m *metrics) recordDelay(source string, kind symcache.Kind, delay time.Duration) {
	m.builder.ProcessorKernelsymUpdateDelay.Record(context.Background(), delay.Seconds(), m.withKind(source, kind))
}

// observe reports metrics of sources, and the counts of the rewriter, until stop is called.
func (m *metrics) observe(of Sources, rewriter *rewrite.Rewriter) (stop func(), err error) {
	if err := errors.Join(m.observeTables(of.Symbols), m.observeSources(of.Symbols), m.observePacks(of.Packs),
		m.builder.RegisterProcessorKernelsymProfilesClockOffCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(rewriter.ClockOff(), m.with())
			return nil
		}),
	); err != nil {
		m.builder.Shutdown()
		return nil, err
	}
	unwatch := of.Symbols.WatchDelays(m.recordDelay)
	return func() {
		unwatch()
		m.builder.Shutdown()
	}, nil
}

// observeTables registers the metrics of the tables.
func (m *metrics) observeTables(cache *symcache.Cache) error {
	return errors.Join(
		m.builder.RegisterProcessorKernelsymSymbolsCallback(byOrigin(m, cache, func(c timeline.Count) int64 { return int64(c.Symbols) })),
		m.builder.RegisterProcessorKernelsymMemoryCallback(byOrigin(m, cache, func(c timeline.Count) int64 { return c.Memory })),
		m.builder.RegisterProcessorKernelsymHistoryEntriesCallback(func(_ context.Context, o metric.Int64Observer) error {
			n := 0
			for _, t := range cache.Snapshot().Tables() {
				n += t.Unloaded()
			}
			o.Observe(int64(n), m.with())
			return nil
		}),
		m.builder.RegisterProcessorKernelsymBlindTimeCallback(func(_ context.Context, o metric.Float64Observer) error {
			for source, table := range cache.Tables() {
				o.Observe(table.BlindTime().Seconds(), m.withSource(source))
			}
			return nil
		}),
	)
}

// byOrigin observes a count by origin, summed up over the tables.
func byOrigin(m *metrics, cache *symcache.Cache, of func(timeline.Count) int64) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		var sums [timeline.NumOrigins]int64
		for _, t := range cache.Snapshot().Tables() {
			for origin, count := range t.Count() {
				sums[origin] += of(count)
			}
		}
		for origin, n := range sums {
			o.Observe(n, m.with(attribute.String("origin", timeline.Origin(origin).String())))
		}
		return nil
	}
}

// observeSources registers the metrics of the health and the counts of the sources.
func (m *metrics) observeSources(cache *symcache.Cache) error {
	of := func(count func(c symcache.SourceCounts) int64) metric.Int64Callback {
		return func(_ context.Context, o metric.Int64Observer) error {
			for _, c := range cache.Counts() {
				o.Observe(count(c), m.withSource(c.Source))
			}
			return nil
		}
	}
	return errors.Join(
		m.builder.RegisterProcessorKernelsymLostRecordsCallback(of(func(c symcache.SourceCounts) int64 { return c.Counts.LostRecords })),
		m.builder.RegisterProcessorKernelsymResyncsCallback(of(func(c symcache.SourceCounts) int64 { return c.Counts.Resyncs })),
		m.builder.RegisterProcessorKernelsymMislocatedCallback(of(func(c symcache.SourceCounts) int64 { return c.Counts.Mislocated })),
		m.builder.RegisterProcessorKernelsymUpdatesCallback(func(_ context.Context, o metric.Int64Observer) error {
			for _, c := range cache.Counts() {
				for kind, n := range c.Counts.Updates {
					o.Observe(n, m.withKind(c.Source, symcache.Kind(kind)))
				}
			}
			return nil
		}),
		m.builder.RegisterProcessorKernelsymSourceUpCallback(func(_ context.Context, o metric.Int64Observer) error {
			for _, h := range cache.Health() {
				up := int64(0)
				if h.State == symcache.StateUp {
					up = 1
				}
				o.Observe(up, m.withSource(h.Source))
			}
			return nil
		}),
	)
}

// observePacks registers the metrics of packs, if these are wanted.
func (m *metrics) observePacks(store *packs.Store) error {
	if store == nil {
		return nil
	}
	of := func(count func(s packs.Stats) int64) metric.Int64Callback {
		return func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(count(store.Stats()), m.with())
			return nil
		}
	}
	return errors.Join(
		m.builder.RegisterProcessorKernelsymPacksCallback(of(func(s packs.Stats) int64 { return int64(s.Open) })),
		m.builder.RegisterProcessorKernelsymPackBytesCallback(of(func(s packs.Stats) int64 { return s.Bytes })),
		m.builder.RegisterProcessorKernelsymPackFetchesCallback(of(func(s packs.Stats) int64 { return s.Fetches })),
		m.builder.RegisterProcessorKernelsymPackRefusedCallback(func(_ context.Context, o metric.Int64Observer) error {
			for reason, n := range store.Stats().Refused {
				o.Observe(n, m.with(attribute.String("reason", packs.Reason(reason).String())))
			}
			return nil
		}),
	)
}
