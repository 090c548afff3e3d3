// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Options say what a Source keeps known, and from where it reads.
type Options struct {
	Procfs, Sysfs string // where /proc and /sys are mounted

	SourceLines bool // of programs that carry BTF
	Trampolines bool // also trampolines and out-of-line pages
	History     timeline.Limits

	// Delay is how long to wait for more records after the first, 0 for as long as
	// perfring.SymbolOptions has it.
	Delay time.Duration
}

// A Source publishes the functions of BPF programs, and what goes with them.
type Source struct {
	open        func() (Recorder, error)
	recordAgain time.Duration // time between two tries to have records, when they are refused
	dialCPUs    func() (cpuEvents, error)
	lister      lister

	mu sync.Mutex // guards what follows; no slow system call is made while it is held
	state
}

// state is what the mutex of a Source guards.
type state struct {
	*record
	recorder Recorder  // nil while Run does not run
	drained  int64     // the Certain of its last batch
	cpus     cpuEvents // says that CPUs come and go; nil while Run does not run, or if there is none
	publish  func(symcache.Update)
	ready    bool // Run has published what is known; at first that is what a list shows, as far as that is permitted
	missing  missing
	schedule
	tail tail
}

// A Recorder tells what comes and goes; a perfring.Reader of Symbols. Drain may be called
// while Wait waits.
type Recorder interface {
	Wait(ctx context.Context, deadline time.Time) error
	Drain() perfring.Batch
	RefreshCPUs(hotplug bool) error
	Close() error
}

// Programs tells what is there; a bpf.Reader.
type Programs interface {
	Next(after uint32) (id uint32, err error)
	Program(id uint32, want bpf.Want) (*bpf.Program, error)
	BTF(id uint32) (*btf.BTF, error)
}

// NewSource returns a source of the running kernel's functions.
func NewSource(opts Options) *Source {
	return NewSourceFrom(opts, func() (Recorder, error) {
		perf := perfring.SymbolOptions(opts.Sysfs)
		if opts.Delay > 0 {
			perf.Delay = opts.Delay
		}
		return perfring.Open(perf)
	}, new(bpf.Reader))
}

// NewSourceFrom returns a source of what a recorder and programs tell. open starts to
// record; what it returns is closed when Run ends.
func NewSourceFrom(opts Options, open func() (Recorder, error), programs Programs) *Source {
	s := &Source{
		open: open, recordAgain: time.Minute, dialCPUs: dialCPUs,
		state: state{record: newRecord(opts.Trampolines, opts.History), tail: tail{procfs: opts.Procfs, budget: budget}},
	}
	want := bpf.WantFunctions
	if opts.SourceLines {
		want |= bpf.WantLines
	}
	s.lister = lister{
		programs: programs, describer: describer{programs: programs, want: want, procfs: opts.Procfs},
		now: perfring.Boottime.Now, drain: func() { s.drain() },
	}
	return s
}

// Name returns "bpf".
func (*Source) Name() string { return "bpf" }

// Run publishes the functions that are there, and anew after every change. What
// privileges are missing is said with the tables (section 8 of the contract); with
// neither records nor a list of programs, it returns the errors of both. Its other
// errors are those of reading records. A later run goes on with what is known, as after
// lost records, unless the run before ended because of symcache.ErrPaused: then records wait
// for the next one. One goroutine at a time may call it.
func (s *Source) Run(ctx context.Context, publish func(symcache.Update)) error {
	s.mu.Lock()
	s.publish = publish
	s.kept = time.Time{} // CPUs may have come online since the last run
	s.mu.Unlock()
	defer func() {
		if !errors.Is(context.Cause(ctx), symcache.ErrPaused) {
			s.stop()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ready = false // until the CPUs were looked at again
	}()
	for ctx.Err() == nil {
		if err := s.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Refresh applies the records that there are and publishes what is known then.
func (s *Source) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recorder == nil || !s.ready || s.polls() {
		return
	}
	s.state.drain()
	s.readCPUs() // after the rings, so that what is certain is known of the CPUs, too
	s.publishTable()
	if len(s.ask) > 0 || s.losses.any() {
		s.wake()
	}
}

// drain applies the records that there are, and returns up to when they are complete.
func (s *Source) drain() (certain int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.drain()
	return s.drained
}

// drain applies the records that there are.
func (s *state) drain() {
	wall := time.Now()
	b := s.recorder.Drain()
	s.read, s.wall = b.At, wall
	s.drained = b.Certain
	s.apply(&b)
	if len(b.Blind) > 0 && !s.polls() {
		s.tail.lost, s.tail.wanted = time.Now(), s.trampolines
	}
}

// polls reports whether records are refused.
func (s *state) polls() bool { return s.missing.records != nil }

// publishTable publishes what is known.
func (s *state) publishTable() {
	s.changed = false
	s.history.SetPartial(s.missing.list != nil || s.missing.program != nil)
	s.publish(symcache.Update{Table: s.history.Table(), Degraded: s.missing.err(), Changes: s.Take()})
}

// follow lists what is there and applies records to it until ctx is done. Where records
// are refused, it polls, and ends when it is time to try again.
func (s *Source) follow(ctx context.Context) error {
	if s.recorder == nil { // else the run before was paused
		s.start(s.open()) // before anything is listed, or what is loaded in between is missed
	}
	if s.polls() {
		defer s.stop()
		again, cancel := context.WithTimeout(ctx, s.recordAgain)
		defer cancel()
		ctx = again
	}
	cpus := s.connectCPUs()
	watch, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watchCPUs(watch, cpus) })
	defer watcher.Wait()
	defer stop()
	for ctx.Err() == nil {
		if err := s.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// connectCPUs begins to receive events about CPUs, unless the run before was paused, and reads those
// of the pause. It returns nil where the kernel sends none.
func (s *Source) connectCPUs() cpuEvents {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cpus == nil {
		s.cpus, _ = s.dialCPUs() // else looks have to do
	}
	s.readCPUs()
	return s.cpus
}

// step does a round, and waits until the next one is due.
func (s *Source) step(ctx context.Context) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.wake = cancel // what happens from now on ends the wait
	s.mu.Unlock()
	if err := s.keepHouse(); err != nil {
		return fmt.Errorf("opening perf events on CPUs that came online: %w", err)
	}
	s.publishResumed()
	deadline, err := s.round(ctx)
	if err != nil {
		return err
	}
	if err := s.recorder.Wait(waiting, deadline); err != nil && waiting.Err() == nil {
		return fmt.Errorf("following BPF programs: %w", err)
	}
	return nil
}

// start begins to apply the records of a recorder, or to poll where it was refused. Records
// of the time before are lost, also those of a CPU that came online after the last look.
func (s *Source) start(recorder Recorder, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused != nil {
		recorder = &polling{now: s.now, last: s.now()}
	}
	s.recorder, s.missing.records, s.wake = recorder, refused, func() {}
	s.lose(perfring.Interval{From: min(s.history.Certain(), s.looked), To: s.now()})
	if s.looked = s.now(); refused != nil {
		s.looked = farFuture // the CPUs do not matter
	}
	s.listAt, s.tail = time.Time{}, tail{procfs: s.tail.procfs, budget: s.tail.budget, wanted: s.trampolines && refused == nil}
}

// stop closes the recorder, if there is one.
func (s *Source) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recorder == nil {
		return
	}
	_ = s.recorder.Close() // nothing was written
	s.recorder = nil
	if s.cpus != nil {
		_ = s.cpus.Close()
		s.cpus = nil
	}
	clear(s.tasks.loaded)
}
