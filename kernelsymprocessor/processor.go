// Package kernelsymprocessor is the implementation of the processor "kernelsym":
// for each message it takes the current snapshot of the kernel's symbols, rewrites the
// message with it, and counts the frames.
//
// It is not meant to be imported: its API may change at any time. Collectors use
// kernelsym.NewFactory, in the root of this module.
package kernelsymprocessor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/kernelsym/kernelsym/internal/metadata"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// Acquire returns a running cache of symbols, and what gives it back.
type Acquire func() (cache *symcache.Cache, release func())

// A Processor rewrites the profiles of one pipeline. Its methods are safe for
// concurrent use.
type Processor struct {
	rewriter  *rewrite.Rewriter
	acquire   Acquire
	telemetry *metadata.TelemetryBuilder
	frames    [rewrite.NumOutcomes][symtab.NumOrigins]metric.MeasurementOption

	cache atomic.Pointer[current] // nil while stopped

	mu   sync.Mutex // held by Start and Shutdown
	stop []func()   // what Shutdown has to call; nil while stopped
}

// current is the cache that is used, and its method Fresh: as a value it is allocated once.
type current struct {
	*symcache.Cache
	fresh func() *symtab.Snapshot
}

// New returns a processor that rewrites as opts say, with symbols from the cache
// that acquire returns.
func New(set component.TelemetrySettings, opts rewrite.Options, acquire Acquire) (*Processor, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	p := &Processor{rewriter: rewrite.New(opts), acquire: acquire, telemetry: telemetry}
	for outcome := range p.frames {
		for origin := range p.frames[outcome] {
			p.frames[outcome][origin] = metric.WithAttributeSet(attribute.NewSet(
				attribute.String("outcome", rewrite.Outcome(outcome).String()),
				attribute.String("origin", symtab.Origin(origin).String()),
			))
		}
	}
	return p, nil
}

// readyWithin is for how long Start waits for symbols at most.
const readyWithin = 2 * time.Second

// Start begins to keep symbols, and to report as the component's status whether
// they can be had. It waits until they are read, two seconds at most, so that the first
// message has names (contract 6.2). Started twice, it does nothing.
func (p *Processor) Start(ctx context.Context, host component.Host) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		return nil
	}
	cache, release := p.acquire()
	if err := errors.Join(p.observe(cache), p.observeUpdates(cache)); err != nil {
		release()
		return err
	}
	p.cache.Store(&current{cache, cache.Fresh})
	unwatch := cache.Watch(func(health []symcache.Health) { reportStatus(host, health) })
	p.stop = []func(){unwatch, cache.WatchDelays(p.recordDelay), p.telemetry.Shutdown, release}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	cache.WaitReady(ctx)
	return nil
}

// Shutdown gives the symbols back. A processor that does not run, or not any
// more, passes profiles on as they are.
func (p *Processor) Shutdown(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cache.Store(nil)
	for _, stop := range p.stop {
		stop()
	}
	p.stop = nil
	return nil
}

// ProcessProfiles puts names on the kernel frames of pd. It never fails.
func (p *Processor) ProcessProfiles(ctx context.Context, pd pprofile.Profiles) (pprofile.Profiles, error) {
	start := time.Now()
	known := rewrite.Known{Snapshot: nothing}
	if cache := p.cache.Load(); cache != nil {
		known.Now, known.Clock = cache.Now()
		known.Snapshot = cache.fresh
	}
	pd, counts := p.rewriter.Rewrite(pd, known)
	if counts == (rewrite.Counts{}) {
		return pd, nil
	}
	p.telemetry.ProcessorKernelsymRewriteDuration.Record(ctx, time.Since(start).Seconds())
	for outcome := range counts {
		for origin, n := range counts[outcome] {
			if n > 0 {
				p.telemetry.ProcessorKernelsymFrames.Add(ctx, int64(n), p.frames[outcome][origin])
			}
		}
	}
	return pd, nil
}

// nothing is what a processor knows that does not run.
func nothing() *symtab.Snapshot { return nil }

// observe registers the metrics that are read off the cache.
func (p *Processor) observe(cache *symcache.Cache) error {
	return errors.Join(
		p.telemetry.RegisterProcessorKernelsymSymbolsCallback(byOrigin(cache, (*symtab.Table).Symbols)),
		p.telemetry.RegisterProcessorKernelsymMemoryCallback(byOrigin(cache, (*symtab.Table).Memory)),
		p.telemetry.RegisterProcessorKernelsymHistoryEntriesCallback(func(_ context.Context, o metric.Int64Observer) error {
			n := 0
			for _, t := range cache.Snapshot().Tables() {
				n += t.History()
			}
			o.Observe(int64(n))
			return nil
		}),
		p.telemetry.RegisterProcessorKernelsymBlindTimeCallback(func(_ context.Context, o metric.Float64Observer) error {
			for source, table := range cache.Tables() {
				o.Observe(table.BlindTime().Seconds(), metric.WithAttributes(attribute.String("source", source)))
			}
			return nil
		}),
		p.telemetry.RegisterProcessorKernelsymProfilesClockOffCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(p.rewriter.ClockOff())
			return nil
		}),
		p.telemetry.RegisterProcessorKernelsymSourceUpCallback(func(_ context.Context, o metric.Int64Observer) error {
			for _, h := range cache.Health() {
				up := int64(0)
				if h.State == symcache.StateUp {
					up = 1
				}
				o.Observe(up, metric.WithAttributes(attribute.String("source", h.Source)))
			}
			return nil
		}),
	)
}

// byOrigin observes the sums of what the tables have of each origin.
func byOrigin[N int | int64](cache *symcache.Cache, of func(*symtab.Table) [symtab.NumOrigins]N) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		var sums [symtab.NumOrigins]int64
		for _, t := range cache.Snapshot().Tables() {
			for origin, n := range of(t) {
				sums[origin] += int64(n)
			}
		}
		for origin, n := range sums {
			o.Observe(n, metric.WithAttributes(attribute.String("origin", symtab.Origin(origin).String())))
		}
		return nil
	}
}

// reportStatus reports what is wrong with the sources or, once all have begun, that
// nothing is.
func reportStatus(host component.Host, health []symcache.Health) {
	var errs []error
	starting := false
	for _, h := range health {
		switch h.State {
		case symcache.StateStarting:
			starting = true
		case symcache.StateDegraded, symcache.StateDown:
			errs = append(errs, fmt.Errorf("%s is %s: %w", h.Source, h.State, h.Err))
		}
	}
	switch {
	case len(errs) > 0:
		componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(errors.Join(errs...)))
	case !starting:
		componentstatus.ReportStatus(host, componentstatus.NewEvent(componentstatus.StatusOK))
	}
}
