// SPDX-License-Identifier: Apache-2.0

// Package live samples this machine and puts names on the samples while they are young: with
// the code of the receiver "kernelstack" and of the processor "kernelsym", without a
// collector.
package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Options say what to sample.
type Options struct {
	Procfs, Sysfs string
	Event         string // as in the receiver's configuration
	Frequency     int    // samples a second on each CPU
	Interval      time.Duration
	First         time.Duration // the interval of the first batch, 0 for Interval
	Duration      time.Duration // for how long to sample, 0 for until the context is done
	Filter        Filter
}

// A Filter says what is sampled; an empty list allows all.
type Filter struct {
	PIDs, TIDs []uint32 // a thread of either is wanted
	CPUs       []int
}

// A Batch is what was sampled in an interval.
type Batch struct {
	Profiles   pprofile.Profiles // kernel stacks, with the names that are certain
	Kernel     int               // samples in Profiles
	User       int               // samples of user code, of the same threads and CPUs
	Lost       uint64            // samples and other records that the kernel had no room for
	Throttled  int               // times that the kernel stopped sampling a CPU for the rest of a tick
	Start, End time.Time
	Event      string
	Frequency  int
	CPUs       int             // that were sampled
	Core       *timeline.Image // the kernel that was sampled, nil if it is not known
	Missing    error           // names that cannot be had, and what the operator can do about it; nil if none
}

// Possible returns the number of samples that there would be if no CPU had been idle.
func (b *Batch) Possible() float64 {
	return b.End.Sub(b.Start).Seconds() * float64(b.CPUs) * float64(b.Frequency)
}

// limits are how much is known of what was unloaded: samples are named some seconds after
// they were taken.
var limits = timeline.Limits{TTL: time.Minute, MaxEntries: 1 << 16}

// readyWithin is how long sampling waits for names at most. That takes some ten
// milliseconds, on a busy machine seconds; without them, there would be nothing to show.
const readyWithin = 30 * time.Second

// Run samples for the duration, or until ctx is done, and calls visit with each batch; then it
// returns nil. Before, it waits for names: if ctx is done meanwhile, there is no batch. It starts
// no goroutine that outlives it.
func Run(ctx context.Context, o Options, visit func(*Batch)) error {
	s := session{
		options:  o,
		rewriter: rewrite.New(rewrite.Options{History: limits.TTL}),
		visit:    visit,
	}
	from := sources.Everything(o.Procfs, o.Sysfs)
	from.History = limits
	//nolint:contextcheck // the last batch gets names after ctx is done
	s.cache = symcache.Start(zap.NewNop(), sources.NewClock(), sources.List(from)...)
	defer s.cache.Stop() //nolint:contextcheck // likewise
	if !s.waitReady(ctx) {
		return nil
	}
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	sampler := kernelstack.Sampler{
		Options: o.sampling(),
		First:   o.First,
		User:    true,
		CPUs:    o.Filter.CPUs,
		Keep:    o.Filter.keeps,
		Started: func(event string) { s.event = event },
		Send:    s.name,
	}
	err := sampler.Run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// bytesPerSample is the part of each ring that a sample a second gets. With most stacks a ring
// then holds the samples of a second.
const bytesPerSample = 256

// minBuffer is the number of bytes that each ring has at least.
const minBuffer = 64 << 10

// maxSamples is the number of samples in a batch at most.
const maxSamples = 20_000

func (o *Options) sampling() kernelstack.Options {
	return kernelstack.Options{
		Event: o.Event, Frequency: o.Frequency, Interval: o.Interval, MaxSamples: maxSamples,
		Buffer: max(minBuffer, o.Frequency*bytesPerSample), Procfs: o.Procfs, Sysfs: o.Sysfs,
	}
}

// keeps reports whether a sample of a thread counts.
func (f *Filter) keeps(pid, tid uint32) bool {
	anyThread := len(f.PIDs)+len(f.TIDs) == 0
	return anyThread || slices.Contains(f.PIDs, pid) || slices.Contains(f.TIDs, tid)
}

type session struct {
	options  Options
	cache    *symcache.Cache
	rewriter *rewrite.Rewriter
	visit    func(*Batch)
	event    string
}

// waitReady waits for the names of what is to be sampled. It reports false if ctx is done.
func (s *session) waitReady(ctx context.Context) bool {
	wait, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	s.cache.WaitReady(wait)
	return ctx.Err() == nil
}

// name puts names on a message and passes it on.
func (s *session) name(_ context.Context, m *kernelstack.Message) {
	known := rewrite.Sources{Snapshot: s.cache.Fresh}
	known.Now, known.Clock = s.cache.Now()
	result := s.rewriter.Rewrite(m.Profiles, known)
	s.visit(&Batch{
		Profiles: result.Profiles, Kernel: m.Samples, User: m.NoStack,
		Lost: m.Lost, Throttled: m.Throttled, Start: m.Start, End: m.End,
		Core:  s.cache.Snapshot().Core(),
		Event: s.event, Frequency: s.options.Frequency, CPUs: len(m.CPUs), Missing: s.missing(),
	})
}

// missing says which source does not work and why, that of the first one.
func (s *session) missing() error {
	for _, h := range s.cache.Health() {
		if h.Err != nil {
			return fmt.Errorf("%s: %w", h.Source, h.Err)
		}
	}
	return nil
}
