// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// Options say what to sample. See the receiver's configuration for the values.
type Options struct {
	Event      string // EventClock, EventCycles, or EventAuto
	Frequency  int    // samples per second on each CPU
	Idle       bool   // sample the idle loop, too
	Buffer     int    // size of each CPU's ring, in bytes
	Interval   time.Duration
	MaxSamples int // per message

	// Containers gives each container's samples a resource of their own, with the container's id. It takes the cgroups
	// of cgroup v2, which Cgroupfs is a mount of.
	Containers bool

	Procfs, Sysfs, Cgroupfs string // where /proc, /sys and /sys/fs/cgroup are mounted
}

// A Sampler samples kernel stacks. Its fields must not change while it runs.
type Sampler struct {
	Options Options

	Scope, Version string        // name and version of the scope in messages
	First          time.Duration // interval of the first message, 0 for Interval

	// User makes the timer also sample user code. These samples have a stack of one frame, which has a name.
	User bool

	// CPUs are the numbers of the CPUs to sample; empty for all. If it is set, threads have no
	// names, because renames on other CPUs are not recorded.
	CPUs []int

	// Keep reports whether to keep a sample of a thread; nil keeps all. While a thread exits,
	// its number is not known, and perf reports -1.
	Keep func(pid, tid uint32) bool

	// Started is called when the rings are open, with the event that opened them and what will be missing.
	Started func(event string, missing Missing)

	// Send receives each message, even one without samples. Run calls it.
	Send func(context.Context, *Message)
}

// Missing says what cannot be found out about this machine, and why.
type Missing struct {
	IdleWork   error // wraps ErrIdleWork: interrupts and softirqs on idle CPUs are not sampled; nil if they are
	Containers error // wraps ErrContainers: samples have no container, or not all of them; nil if all have
}

// Err returns all that is missing as one error, nil if nothing is.
func (m Missing) Err() error { return errors.Join(m.IdleWork, m.Containers) }

// A Message holds the samples of an interval.
type Message struct {
	Profiles    []pprofile.Profiles // each with at most maxResources resources, which are all different
	Samples     int                 // in Profiles
	NoContainer int                 // of these, samples whose container, if any, is not known
	NoStack     int                 // samples of neither the kernel nor a guest: of user code; in Profiles with Sampler.User
	Lost        uint64              // records that the rings had no room for
	Throttled   int                 // times that the kernel stopped a CPU's event
	CPUs        []int               // the CPUs sampled last
	Start, End  time.Time           // End is not part of the interval
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
// idle loop cannot be distinguished from its other work. The cycle counter need not: a halted CPU counts nothing.
func (o *Options) events(idle *idle, cgroups *cgroups) []perfring.Sampling {
	clock := perfring.Sampling{Frequency: uint64(o.Frequency), Idle: o.Idle || idle != nil, Cgroups: cgroups != nil}
	cycles := clock
	cycles.Cycles, cycles.Idle = true, o.Idle
	switch o.Event {
	case EventCycles:
		return []perfring.Sampling{cycles}
	case EventClock:
		return []perfring.Sampling{clock}
	}
	return []perfring.Sampling{cycles, clock}
}

func (s *Sampler) ringOptions(event perfring.Sampling) perfring.Options {
	return perfring.Options{Event: event, BytesPerCPU: s.Options.Buffer, Window: window, CPUs: s.CPUs, SysFS: s.Options.Sysfs}
}

// Run opens the rings and sends messages until ctx is done or the rings cannot be read.
func (s *Sampler) Run(ctx context.Context) error {
	var missing Missing
	idle, err := s.readIdle()
	missing.IdleWork = err
	cgroups, err := s.readCgroups()
	missing.Containers = err
	start := time.Now()
	rings, event, err := s.open(idle, cgroups)
	if err != nil {
		return err
	}
	if cgroups != nil {
		missing.Containers = cgroups.begin() // new ones are recorded by now
	}
	name := EventClock
	if event.Cycles {
		name, idle, missing.IdleWork = EventCycles, nil, nil
	}
	s.Started(name, missing)
	err = newSession(s, rings, event, idle, cgroups, start).run(ctx)
	return errors.Join(err, rings.Close())
}

// readIdle returns the filter for the idle loop, or nil if none is needed. The error says why the loop cannot be recognized.
func (s *Sampler) readIdle() (*idle, error) {
	if s.Options.Idle || s.Options.Event == EventCycles {
		return nil, nil //nolint:nilnil // no stack is left out
	}
	return readIdle(s.Options.Procfs)
}

// readCgroups returns the cgroups that identify containers, or nil if containers are not wanted. The error says why they
// cannot be identified.
func (s *Sampler) readCgroups() (*cgroups, error) {
	if !s.Options.Containers {
		return nil, nil //nolint:nilnil // no sample has a container
	}
	return newCgroups(s.Options.Cgroupfs, s.Options.Procfs)
}

// open opens the rings with the first event that this machine supports.
func (s *Sampler) open(idle *idle, cgroups *cgroups) (*perfring.Reader, perfring.Sampling, error) {
	var errs []error
	for _, event := range s.Options.events(idle, cgroups) {
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
	sampler *Sampler
	rings   *perfring.Reader
	event   perfring.Sampling
	idle    *idle    // whose loop is left out; nil if no sample of it is
	cgroups *cgroups // whose owners get the samples; nil if they are not known
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
func newSession(
	s *Sampler, rings *perfring.Reader, event perfring.Sampling, idle *idle, cgroups *cgroups, start time.Time,
) *session {
	n := &session{sampler: s, rings: rings, event: event, idle: idle, cgroups: cgroups, threads: newThreads(s.Options.Procfs)}
	n.begin(start)
	if s.First > 0 {
		n.flush = start.Add(s.First)
	}
	return n
}

func (s *session) begin(start time.Time) {
	s.message = newMessage(s.event, s.sampler.Scope, s.sampler.Version)
	s.counts = Message{Start: start, CPUs: s.counts.CPUs}
	s.flush = time.Now().Add(s.sampler.Options.Interval)
}

// run reads records until ctx is done; then it sends the rest.
func (s *session) run(ctx context.Context) error {
	s.counts.CPUs = s.rings.CPUs()
	if !procfs.IsOurs(s.sampler.Options.Procfs) {
		s.threads.procfs = "" // its thread ids belong to other threads
	}
	if len(s.sampler.CPUs) == 0 {
		s.threads.readAll()
	}
	for {
		deadline := time.Now().Add(pollInterval)
		if s.flush.Before(deadline) {
			deadline = s.flush
		}
		err := s.rings.Wait(ctx, deadline)
		err = errors.Join(err, s.add(ctx, s.rings.Poll()))
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
	_ = s.add(ctx, s.rings.Flush()) // nothing follows
	s.send(ctx, time.Now())
}

// add adds samples to the message and counts lost records. Its error says that cgroups are not what they were when the
// session began.
func (s *session) add(ctx context.Context, b perfring.Batch) error {
	err := s.checkCgroups()
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
		case perfring.TypeCgroup:
			if s.cgroups != nil {
				s.cgroups.note(r.Cgroup)
			}
		default:
			s.threads.note(r)
		}
	}
	return err
}

// checkCgroups forgets the cgroups if the ids in the records that were read last may mean others.
func (s *session) checkCgroups() error {
	if s.cgroups == nil {
		return nil
	}
	err := s.cgroups.check()
	if err != nil {
		s.cgroups = nil
		return fmt.Errorf("%w: %w", ErrContainers, err)
	}
	return nil
}

func (s *session) addSample(ctx context.Context, r *perfring.Record, unixNano int64) {
	if s.sampler.Keep != nil && !s.sampler.Keep(r.PID, r.TID) {
		return
	}
	noStack := len(r.Stack) == 0 && !r.Guest
	if noStack && !s.sampler.User {
		s.counts.NoStack++
		return
	}
	if s.idle != nil && s.idle.isLoop(r.Stack) {
		return
	}
	if s.message.events == s.sampler.Options.MaxSamples {
		age := time.Duration(perfring.Monotonic.Now() - r.Time)
		s.send(ctx, time.Now().Add(-age)) // not by unixNano: the wall clock may have been set
	}
	if noStack {
		s.counts.NoStack++
	}
	name := ""
	if len(s.sampler.CPUs) == 0 {
		name = s.threads.name(r.TID, r.Time)
	}
	owner := s.cgroups.owner(r.InCgroup)
	if s.sampler.Options.Containers && !owner.known {
		s.counts.NoContainer++
	}
	s.message.add(r, uint64(unixNano), name, owner.container)
}

// send sends the message, with samples up to end, and begins the next one.
func (s *session) send(ctx context.Context, end time.Time) {
	m := s.counts
	m.Profiles = s.message.finish(m.Start.UnixNano(), end.UnixNano())
	m.Samples, m.End = s.message.events, end
	s.sampler.Send(ctx, &m)
	s.threads.forgetExited()
	s.begin(end)
}
