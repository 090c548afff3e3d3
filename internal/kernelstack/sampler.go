// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// Options say what to sample. See the receiver's configuration for the values.
type Options struct {
	Event      string // EventClock, EventCycles, or EventAuto
	Frequency  int    // samples per second on each CPU
	Idle       bool   // sample the idle loop, too
	Buffer     int    // size of each CPU's ring, in bytes
	Interval   time.Duration
	MaxSamples int // per message

	Procfs, Sysfs string // where /proc and /sys are mounted
}

// A Sampler samples kernel stacks. Its fields must not change while it runs.
type Sampler struct {
	Options

	Scope, Version string        // name and version of the scope in messages
	First          time.Duration // interval of the first message, 0 for Interval

	// User makes the timer also sample user code. Messages only count these samples.
	User bool

	// CPUs are the numbers of the CPUs to sample; empty for all. If it is set, threads have no
	// names, because renames on other CPUs are not recorded.
	CPUs []int

	// Keep reports whether to keep a sample of a thread; nil keeps all. While a thread exits,
	// its number is not known, and perf reports -1.
	Keep func(pid, tid uint32) bool

	// Started is called when the rings are open, with the event that opened them. The error says which
	// samples will be missing, and why; it is nil if none will be.
	Started func(event string, missing error)

	// Send receives each message, even one without samples. Run calls it.
	Send func(context.Context, *Message)
}

// A Message holds the samples of an interval.
type Message struct {
	Profiles   pprofile.Profiles
	Samples    int       // in Profiles
	NoStack    int       // samples of neither the kernel nor a guest: of user code
	Lost       uint64    // records that the rings had no room for
	Throttled  int       // times that the kernel stopped a CPU's event
	CPUs       []int     // the CPUs sampled last
	Start, End time.Time // End is not part of the interval
}

// The events to sample by.
const (
	EventCycles = "cycles"
	EventClock  = "cpu-clock"
	EventAuto   = "auto" // cycles, or cpu-clock if there is no cycle counter
)

// window is how long samples are held back, so that samples of all CPUs can be sorted.
const window = 2 * time.Millisecond

// events returns the events to sample by, in the order in which to try them. The timer samples the idle task, unless its
// idle loop cannot be told from its other work. The cycle counter need not: a halted CPU counts nothing.
func (o *Options) events(idle *idle) []perfring.Sampling {
	cycles := perfring.Sampling{Frequency: uint64(o.Frequency), Cycles: true, Idle: o.Idle}
	clock := perfring.Sampling{Frequency: uint64(o.Frequency), Idle: o.Idle || idle != nil}
	switch o.Event {
	case EventCycles:
		return []perfring.Sampling{cycles}
	case EventClock:
		return []perfring.Sampling{clock}
	}
	return []perfring.Sampling{cycles, clock}
}

func (s *Sampler) ringOptions(event perfring.Sampling) perfring.Options {
	return perfring.Options{Event: event, BytesPerCPU: s.Buffer, Window: window, CPUs: s.CPUs, SysFS: s.Sysfs}
}

// Run opens the rings and sends messages until ctx is done or the rings cannot be read.
func (s *Sampler) Run(ctx context.Context) error {
	idle, missing := s.readIdle()
	start := time.Now()
	rings, event, err := s.open(idle)
	if err != nil {
		return err
	}
	name := EventClock
	if event.Cycles {
		name, idle, missing = EventCycles, nil, nil
	}
	s.Started(name, missing)
	err = newSession(s, rings, event, idle, start).run(ctx)
	return errors.Join(err, rings.Close())
}

// readIdle returns what tells the idle loop, nil if it need not be told. If it cannot be told, the error says so.
func (s *Sampler) readIdle() (*idle, error) {
	if s.Idle || s.Event == EventCycles {
		return nil, nil //nolint:nilnil // no stack is left out
	}
	return readIdle(s.Procfs)
}

// open opens the rings with the first event that this machine supports.
func (s *Sampler) open(idle *idle) (*perfring.Reader, perfring.Sampling, error) {
	var errs []error
	for _, event := range s.events(idle) {
		event.User = s.User
		rings, err := perfring.Open(s.ringOptions(event))
		if err == nil {
			return rings, event, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, perfring.ErrUnsupported) {
			break
		}
	}
	return nil, perfring.Sampling{}, errors.Join(errs...)
}

// session turns the records of one set of rings into messages.
type session struct {
	*Sampler
	rings   *perfring.Reader
	event   perfring.Sampling
	idle    *idle // whose loop is left out; nil if no sample of it is
	threads *threads
	message *message
	counts  Message   // the counts of message, without its profiles and its end
	flush   time.Time // when to send message
	refresh time.Time // when to look for CPUs that came online
}

// pollInterval is the time after which the rings are read even if none is half
// full: threads must be named while they live.
const pollInterval = 200 * time.Millisecond

// refreshInterval is the time between two checks for CPUs that came online.
const refreshInterval = time.Second

// newSession returns a session with rings of the event, which were opened after start.
func newSession(s *Sampler, rings *perfring.Reader, event perfring.Sampling, idle *idle, start time.Time) *session {
	n := &session{Sampler: s, rings: rings, event: event, idle: idle, threads: newThreads(s.Procfs)}
	n.begin(start)
	if s.First > 0 {
		n.flush = start.Add(s.First)
	}
	return n
}

func (s *session) begin(start time.Time) {
	s.message = newMessage(s.event, s.Scope, s.Version)
	s.counts = Message{Start: start, CPUs: s.counts.CPUs}
	s.flush = time.Now().Add(s.Interval)
}

// run reads records until ctx is done; then it sends the rest.
func (s *session) run(ctx context.Context) error {
	s.counts.CPUs = s.rings.CPUs()
	for {
		deadline := time.Now().Add(pollInterval)
		if s.flush.Before(deadline) {
			deadline = s.flush
		}
		err := s.rings.Wait(ctx, deadline)
		s.add(ctx, s.rings.Poll())
		if now := time.Now(); err == nil && now.After(s.refresh) {
			s.refresh = now.Add(refreshInterval)
			err = s.rings.RefreshCPUs(false)
			s.counts.CPUs = s.rings.CPUs()
		}
		if err != nil {
			s.finish(ctx)
			return err
		}
		if !time.Now().Before(s.flush) {
			s.send(ctx, time.Now().Add(-window))
		}
	}
}

// finish sends the samples that are still in the rings and in the message.
func (s *session) finish(ctx context.Context) {
	s.add(ctx, s.rings.Flush())
	s.send(ctx, time.Now())
}

// add adds samples to the message and counts lost records.
func (s *session) add(ctx context.Context, b perfring.Batch) {
	_, offset, _ := perfring.Monotonic.UnixOffset()
	s.counts.Lost += b.Lost
	s.threads.begin(&b)
	for i := range b.Records {
		r := &b.Records[i]
		switch r.Type {
		case perfring.TypeSample:
			s.addSample(ctx, r, r.Time+offset)
		case perfring.TypeThrottle:
			s.counts.Throttled++
		default:
			s.threads.note(r)
		}
	}
}

func (s *session) addSample(ctx context.Context, r *perfring.Record, unixNano int64) {
	if s.Keep != nil && !s.Keep(r.PID, r.TID) {
		return
	}
	if len(r.Stack) == 0 && !r.Guest {
		s.counts.NoStack++
		return
	}
	if s.idle != nil && s.idle.isLoop(r.Stack) {
		return
	}
	if s.message.events == s.MaxSamples {
		age := time.Duration(perfring.Monotonic.Now() - r.Time)
		s.send(ctx, time.Now().Add(-age)) // not by unixNano: the wall clock may have been set
	}
	name := ""
	if len(s.CPUs) == 0 {
		name = s.threads.name(r.TID, r.Time)
	}
	s.message.add(r, uint64(unixNano), name)
}

// send sends the message, with samples up to end, and begins the next one.
func (s *session) send(ctx context.Context, end time.Time) {
	m := s.counts
	m.Profiles = s.message.finish(m.Start.UnixNano(), end.UnixNano())
	m.Samples, m.End = s.message.events, end
	s.Send(ctx, &m)
	s.threads.forgetExited()
	s.begin(end)
}
