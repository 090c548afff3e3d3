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

// Options say which code a Source follows, and how.
type Options struct {
	Procfs, Sysfs string // where /proc and /sys are mounted

	SourceLines bool // read the source lines of programs that carry BTF
	Trampolines bool // follow trampolines and out-of-line pages, too
	History     timeline.Limits

	// PublishChanges has the source publish a table as soon as something has changed, for those who compare tables.
	PublishChanges bool
}

// A Source publishes the functions of BPF programs, trampolines and out-of-line pages.
type Source struct {
	open         func() (EventSource, error)
	retryRecords time.Duration // until records are tried again after the kernel refused them
	publishEvery time.Duration // between two tables while no message asks for one
	minRest      time.Duration // between two lists, at least
	dialCPUs     func() (cpuEvents, error)
	kallsyms     kallsymsFile

	run runState // only the goroutine of Run uses it

	mu    sync.Mutex // guards state; no slow system call is made while it is held
	state state
}

// runState is what Run makes slow system calls with, while Refresh may be called.
type runState struct {
	events    EventSource // as in the state; see EventSource for what may be called at the same time
	lister    lister
	functions functionFinder
}

// state is everything about a Source that Run and Refresh share.
type state struct {
	follower *follower
	events   EventSource // nil while Run does not run
	now      func() int64
	complete int64 // all records up to this instant were applied, except for lost ones
	cpus     cpus
	missing  missing

	listAt     time.Time // when programs may be listed again
	relist     bool      // they must be listed although no record was lost
	kallsyms   kallsymsTail
	maintained time.Time
	wake       func() // ends the wait for records

	publish   func(symcache.Update)
	ready     bool      // Run has published; its first table includes a list, if the kernel permits one
	published time.Time // when the last table was
	stale     bool      // a list was read since
	degraded  string    // what the last update said was missing
}

// An EventSource has the kernel's records of loads and unloads; a perfring.Reader of Symbols is one. Poll and MissesCPU
// may be called during Wait and RefreshCPUs.
type EventSource interface {
	Wait(ctx context.Context, deadline time.Time) error
	Poll() perfring.Batch
	RefreshCPUs(hotplug bool) error
	MissesCPU() bool
	Close() error
}

// A ProgramReader lists and queries the loaded programs; a bpf.Reader is one.
type ProgramReader interface {
	Next(after uint32) (id uint32, err error)
	Program(id uint32, want bpf.Want) (*bpf.Program, error)
	BTF(id uint32) (*btf.BTF, error)
	ModuleBTF(id uint32, core *btf.BTF) (module string, types *btf.BTF, err error)
}

// NewSource returns a source for the running kernel.
func NewSource(opts Options) *Source {
	return NewSourceFrom(opts, func() (EventSource, error) {
		return perfring.Open(perfring.SymbolOptions(opts.Sysfs))
	}, new(bpf.Reader))
}

// NewSourceFrom returns a source that reads from others. open starts to record; its result is closed when Run ends.
func NewSourceFrom(opts Options, open func() (EventSource, error), programs ProgramReader) *Source {
	s := &Source{
		open: open, retryRecords: time.Minute, publishEvery: publishEvery, minRest: minRest, dialCPUs: dialCPUs,
		kallsyms: kallsymsFile{procfs: opts.Procfs, budget: budget},
	}
	if opts.PublishChanges {
		s.publishEvery = 0
	}
	s.state = state{
		follower: newFollower(opts.Trampolines, opts.History),
		now:      perfring.Boottime.Now,
	}
	want := bpf.WantFunctions
	if opts.SourceLines {
		want |= bpf.WantLines
	}
	s.run.lister = lister{
		programs: programs, querier: querier{programs: programs, want: want, procfs: opts.Procfs},
		now: perfring.Boottime.Now, drain: func() { s.drain() },
	}
	s.run.lister.querier.pace = s.run.lister.pace
	s.run.functions = functionFinder{programs: programs, sysfs: opts.Sysfs}
	return s
}

// Name returns "bpf".
func (*Source) Name() string { return "bpf" }

// Run publishes a table of the loaded code, and another one when something is missing from it, or is no longer, and
// every ten seconds if code was loaded or unloaded; [Source.Refresh] publishes one at any time. Updates say which
// privileges are missing (see section 8 of the contract); if the kernel refuses both records and lists, Run returns the
// errors of both. Otherwise it returns an error if reading records fails. A later run keeps all images, as after lost
// records. One goroutine at a time may call Run.
func (s *Source) Run(ctx context.Context, publish func(symcache.Update)) error {
	s.mu.Lock()
	s.state.publish = publish
	s.state.maintained = time.Time{} // CPUs may have come online since the last run
	s.mu.Unlock()
	defer func() {
		s.stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.state.ready = false // until rings are open on all CPUs again
	}()
	for ctx.Err() == nil {
		if err := s.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// follow lists the programs and applies records until ctx is done. Where the kernel refuses records, it polls programs,
// and ends when it is time to try records again.
func (s *Source) follow(ctx context.Context) error {
	s.start(s.open()) // before anything is listed, or what is loaded in between is missed
	if s.polls() {
		defer s.stop()
		again, cancel := context.WithTimeout(ctx, s.retryRecords)
		defer cancel()
		ctx = again
	}
	conn, err := s.connectCPUs(false)
	watch, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watchCPUs(watch, conn, err) })
	defer watcher.Wait()
	defer stop()
	for ctx.Err() == nil {
		if err := s.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start begins to apply records, or to poll where the kernel refused them. Records
// from before are lost, including records of a CPU that came online after rings were opened last.
func (s *Source) start(events EventSource, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.state
	if refused != nil {
		events = &polling{now: st.now, last: st.now()}
	}
	s.run.events = events
	st.events, st.missing.records, st.wake = events, refused, func() {}
	st.follower.lose(perfring.Interval{From: min(st.follower.ledger.Certain(), st.cpus.refreshed), To: st.now()})
	if st.cpus.refreshed = st.now(); refused != nil {
		st.cpus.refreshed = noRings
	}
	st.listAt = time.Time{}
	st.kallsyms.reset(st.follower.trampolines && refused == nil)
}

// stop closes the source of records, if one is open.
func (s *Source) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.events == nil {
		return
	}
	_ = s.state.events.Close() // nothing was written
	s.run.events, s.state.events = nil, nil
	s.state.cpus.close()
	clear(s.state.follower.loading.byTask)
}

// polls reports whether the kernel refuses records.
func (s *Source) polls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.polls()
}

func (s *state) polls() bool { return s.missing.records != nil }

// wait waits for records, or for the deadline.
func (s *Source) wait(ctx context.Context, deadline time.Time) error {
	if err := s.run.events.Wait(ctx, deadline); err != nil && ctx.Err() == nil {
		return fmt.Errorf("following BPF programs: %w", err)
	}
	return nil
}

// drain applies the records that have come, and returns the instant up to which they are complete.
func (s *Source) drain() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.drain()
	return s.state.complete
}

func (s *state) drain() {
	wall := time.Now()
	b := s.events.Poll()
	s.complete = b.Certain
	s.follower.apply(&b, wall)
	if len(b.Blind) > 0 && !s.polls() {
		s.kallsyms.recordsLost(s.follower.trampolines)
	}
}

// maintain forgets images that were unloaded long ago, and opens rings on CPUs that came online.
func (s *Source) maintain() error {
	s.mu.Lock()
	changes, changed := s.state.cpus.changes, s.state.cpus.changed()
	isDue := time.Since(s.state.maintained) >= s.state.cpus.interval()
	if !changed && !isDue {
		s.mu.Unlock()
		return nil
	}
	began := s.state.now()
	s.state.maintained = time.Now()
	s.state.follower.ledger.Evict(began)
	s.mu.Unlock()
	if err := s.run.events.RefreshCPUs(changed); err != nil {
		return fmt.Errorf("opening perf events on CPUs that came online: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.polls() {
		s.state.cpus.refreshed = began
	}
	s.state.cpus.answered = changes // there may have been another event since
	s.state.readCPUEvents()
	return nil
}

// Refresh applies the records that have come and publishes a table. It does not wait, so a program that the kernel must
// be asked for is not described yet.
func (s *Source) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.state
	switch {
	case st.events == nil, !st.ready:
		return
	case st.polls():
		if st.stale {
			st.publishTable()
		}
		return
	}
	st.drain()
	st.checkCPUs() // after the rings: a CPU may have come online while they were read
	st.publishTable()
	if len(st.follower.toQuery) > 0 || st.follower.traced.findAt.IsZero() || !st.follower.ledger.Loss().IsEmpty() ||
		st.cpus.mayMissOne() {
		st.wake()
	}
}

// finishRound publishes a table if one is due. It returns an error if the kernel refuses everything.
func (s *Source) finishRound() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.state
	if st.missing.isEverything() {
		return errors.Join(st.missing.records, st.missing.list)
	}
	hasChanged := st.stale || st.follower.ledger.Changed()
	if !st.ready || errorText(st.missing.err()) != st.degraded || hasChanged && time.Since(st.published) >= s.publishEvery {
		st.ready = true
		st.publishTable()
	}
	return nil
}

// publishTable publishes a table of the ledger.
func (s *state) publishTable() {
	ledger, degraded := s.follower.ledger, s.missing.err()
	ledger.SetPartial(s.missing.list != nil || s.missing.program != nil)
	s.published, s.stale, s.degraded = time.Now(), false, errorText(degraded)
	s.publish(symcache.Update{Table: ledger.Table(), Degraded: degraded, Changes: s.follower.takeChanges()})
}

// errorText returns the text of an error, empty if that is nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
