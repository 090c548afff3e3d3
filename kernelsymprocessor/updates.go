package kernelsymprocessor

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/kernelsym/kernelsym/internal/symcache"
)

// observeUpdates registers the metrics that are read off the sources' counts.
func (p *Processor) observeUpdates(cache *symcache.Cache) error {
	of := func(count func(c symcache.SourceCounts) int64) metric.Int64Callback {
		return func(_ context.Context, o metric.Int64Observer) error {
			for _, c := range cache.Counts() {
				o.Observe(count(c), metric.WithAttributes(attribute.String("source", c.Source)))
			}
			return nil
		}
	}
	return errors.Join(
		p.telemetry.RegisterProcessorKernelsymLostRecordsCallback(of(func(c symcache.SourceCounts) int64 { return c.LostRecords })),
		p.telemetry.RegisterProcessorKernelsymResyncsCallback(of(func(c symcache.SourceCounts) int64 { return c.Resyncs })),
		p.telemetry.RegisterProcessorKernelsymUpdatesCallback(func(_ context.Context, o metric.Int64Observer) error {
			for _, c := range cache.Counts() {
				for kind, n := range c.Updates {
					o.Observe(n, ofKind(c.Source, symcache.Kind(kind)))
				}
			}
			return nil
		}),
	)
}

// recordDelay records how long a change took to get into the table.
func (p *Processor) recordDelay(source string, kind symcache.Kind, delay time.Duration) {
	p.telemetry.ProcessorKernelsymUpdateDelay.Record(context.Background(), delay.Seconds(), ofKind(source, kind))
}

func ofKind(source string, kind symcache.Kind) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("source", source), attribute.String("kind", kind.String()))
}
