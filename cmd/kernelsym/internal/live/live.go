// SPDX-License-Identifier: Apache-2.0

// Package live samples this machine, and names the samples soon after they are taken. It uses the
// code of the receiver "kernelstack" and of the processor "kernelsym", without a collector.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/tasks"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/locate"
	"github.com/kernelsym/kernelsym/internal/perfring"
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
	Duration      time.Duration // how long to sample, 0 for until the context is done
	Tasks         tasks.Selection
	CPUs          []int // empty for all
	Containers    bool  // tell samples of containers apart

	// Packs are those by which the core kernel is located while it hides its symbols (see contract 10.5). If they are nil, it
	// must not be located.
	Packs locate.Packs

	OffCPU    bool          // sample what waits, not what runs; Event and Frequency do not apply
	Threshold time.Duration // of waits
	States    bool          // with OffCPU, read the states of threads and their delays in the run queue, too
}

// A Batch has the samples of an interval.
type Batch struct {
	Messages   []*rewrite.Named // kernel stacks, with the names that are certain; user code is one frame
	Kernel     int              // samples of the kernel and of guests in Messages, or waits
	User       int              // samples of user code in Messages
	Lost       uint64           // samples that the kernel had no room for
	LostNames  uint64           // records of threads and cgroups that it had no room for
	Throttled  int              // times that the kernel stopped sampling a CPU until its next tick
	Start, End time.Time
	Event      string
	Frequency  int
	CPUs       int             // number of sampled CPUs
	Core       *timeline.Image // the kernel that was sampled, nil if unknown
	Missing    error           // which names are unavailable, and a remedy; nil if none

	NoContainer int   // samples of which it is not known whether they are a container's
	Containers  error // why; nil if the containers of almost all samples are known

	OffCPU    bool          // the samples are waits
	Threshold time.Duration // of waits
	LostWaits int           // waits that are not in Messages because records were lost
	Paused    time.Duration // the time before Start in which nothing was sampled, because of too many context switches
	Recorded  *int          // the selected threads whose events were opened; nil if all threads were recorded
	Others    error         // why events of all threads were opened, despite the selection

	// With OffCPU, what /proc shows of threads, and what it does not show.
	Threads   tasks.Reading // with States, at the end; at most maxThreads
	Delays    *tasks.Delays // with States, those from Start to the end; else nil
	NoThreads error         // why Threads and Delays have no thread
	NoBefore  error         // why threads that have waited since before the start may be missing
}

// Possible returns the number of samples that would have been taken if no CPU had been idle.
func (b *Batch) Possible() float64 {
	return b.End.Sub(b.Start).Seconds() * float64(b.CPUs) * float64(b.Frequency)
}

// limits bounds how much unloaded code is remembered. Samples are named some seconds after they
// were taken.
var limits = timeline.Limits{TTL: time.Minute, MaxEntries: 1 << 16}

// readyWithin is the maximum time that sampling waits for names. Reading them takes some ten
// milliseconds, or seconds on a busy machine. Without them, there would be nothing to show.
const readyWithin = 30 * time.Second

// Run samples for the duration, or until ctx is done, and calls visit with each batch. Then it
// returns nil. Before it samples, it waits for names. If ctx is done during that wait, there is no
// batch. If the kernel is to be located and is not, it returns the reason. It starts no goroutine that outlives it.
func Run(ctx context.Context, o Options, visit func(*Batch)) error {
	s := session{
		options:  o,
		rewriter: rewrite.New(rewrite.Options{History: limits.TTL}),
		visit:    visit,
		threads:  threads{procfs: o.Procfs, of: o.Tasks, states: o.States, most: maxThreads},
	}
	from := sources.Everything(o.Procfs, o.Sysfs)
	from.History, from.Locate = limits, o.Packs != nil
	//nolint:contextcheck // the last batch gets names after ctx is done
	s.cache = symcache.Start(zap.NewNop(), sources.NewClock(), sources.ListLocating(from, o.Packs)...)
	defer s.cache.Stop()
	if !s.waitReady(ctx) {
		return nil
	}
	if o.Packs != nil && s.cache.Snapshot().Core() == nil {
		return cmp.Or(s.missingNames(), errNotLocated)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sampler := kernelstack.Sampler{
		Options: o.sampling(),
		First:   o.First,
		Keep:    o.Tasks.Has,
		Started: func(event string, missing kernelstack.Missing) {
			s.event, s.missing = event, missing
			if o.Duration > 0 {
				time.AfterFunc(o.Duration, cancel)
			}
		},
		Send: s.name,
	}
	if o.OffCPU {
		waiting := kernelstack.Waiting{Threshold: o.Threshold, MaxSwitches: maxSwitches, Before: s.threads.begin}
		if !s.threads.of.IsAll() {
			waiting.Tasks = s.threads.recorded
		}
		sampler.Options.Threads = waiting
		defer perfring.Prioritize()()
	}
	err := sampler.Run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// bytesPerSample is the size of each ring per sample a second. With most stacks, a ring then holds
// the samples of one second.
const bytesPerSample = 256

// minBuffer is the minimum size of each ring in bytes.
const minBuffer = 64 << 10

// maxSamples is the maximum number of samples in a batch.
const maxSamples = 20_000

// The sizes of rings of context switches in bytes, and how many switches a second are recorded at most. A ring must hold
// what a busy machine writes while this process waits for a CPU.
const (
	switchBuffer      = 4 << 20
	switchBuffers     = 256 << 20 // of all CPUs
	leastSwitchBuffer = 256 << 10 // for which no limit of locked memory need be raised
	maxSwitches       = 100_000
)

func (o *Options) sampling() kernelstack.Options {
	options := kernelstack.Options{
		Threads:  kernelstack.Running{Event: o.Event, Frequency: o.Frequency, User: true, CPUs: o.CPUs},
		Interval: o.Interval, MaxSamples: maxSamples,
		Buffer: max(minBuffer, o.Frequency*bytesPerSample), Procfs: o.Procfs, Sysfs: o.Sysfs,
		Containers: o.Containers, Cgroupfs: filepath.Join(o.Sysfs, "fs", "cgroup"), Located: locate.Core,
	}
	if o.OffCPU {
		options.Buffer, options.Least, options.Buffers = switchBuffer, leastSwitchBuffer, switchBuffers
	}
	return options
}

type session struct {
	options  Options
	cache    *symcache.Cache
	rewriter *rewrite.Rewriter
	visit    func(*Batch)
	event    string

	missing kernelstack.Missing
	threads threads // with OffCPU
}

var errNotLocated = fmt.Errorf("the kernel was not located within %v", readyWithin)

// waitReady waits until names are available. It returns false if ctx is done.
func (s *session) waitReady(ctx context.Context) bool {
	wait, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	s.cache.WaitReady(wait)
	return ctx.Err() == nil
}

// name names the frames of a message and passes it on.
func (s *session) name(_ context.Context, m *kernelstack.Message) {
	known := rewrite.Sources{Snapshot: s.cache.Fresh, Local: true}
	known.Now, known.Clock = s.cache.Now()
	named := make([]*rewrite.Named, 0, len(m.Profiles))
	for _, pd := range m.Profiles {
		n, err := s.rewriter.Name(pd, known)
		if err != nil {
			panic(err) // the message is our own
		}
		named = append(named, n)
	}
	user, frequency := m.NoStack, s.options.Frequency
	if s.options.OffCPU {
		user, frequency = 0, 0 // a wait without a stack is in no profile
	}
	batch := &Batch{
		Messages: named, Kernel: m.Samples - user, User: user,
		OffCPU: s.options.OffCPU, Threshold: s.options.Threshold, LostWaits: m.Unknown.All(), Paused: m.Paused,
		Recorded: m.Tasks, Others: s.missing.Tasks,
		NoContainer: m.NoContainer, Containers: s.missing.Containers,
		Lost: m.Lost, LostNames: m.LostNames, Throttled: m.Throttled, Start: m.Start, End: m.End,
		Core:  s.cache.Snapshot().Core(),
		Event: s.event, Frequency: frequency, CPUs: len(m.CPUs), Missing: s.missingNames(),
	}
	if s.options.OffCPU {
		s.threads.addTo(batch)
	}
	s.visit(batch)
}

// missingNames returns the name and error of the first source that does not work, and says which samples are missing.
func (s *session) missingNames() error {
	var source error
	for _, h := range s.cache.Health() {
		if h.Err != nil {
			source = fmt.Errorf("%s: %w", h.Source, h.Err)
			break
		}
	}
	return errors.Join(source, s.missing.Names, s.missing.IdleWork, s.missing.Scheduler)
}
