// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// Options say what to sample. See the receiver's configuration for the values.
type Options struct {
	Event       string        // EventClock, EventCycles, EventAuto, or EventWait
	Frequency   int           // samples per second on each CPU; not for EventWait
	Idle        bool          // sample the idle loop, too; not for EventWait
	Threshold   time.Duration // of waits; only for EventWait
	MaxSwitches int           // per second, on all CPUs, on average; only for EventWait
	Buffer      int           // size of each CPU's ring of samples, in bytes
	Interval    time.Duration
	MaxSamples  int // per message

	// Containers gives the samples of containers the container's id. It takes the cgroups of cgroup v2, which Cgroupfs is
	// a mount of.
	Containers  bool
	ContainerID string // where the id stands: OnResource, OnSamples or OnBoth; empty for OnResource
	Omit        Omit

	Procfs, Sysfs, Cgroupfs string // where /proc, /sys and /sys/fs/cgroup are mounted
}

// A Sampler samples kernel stacks. Its fields must not change while it runs.
type Sampler struct {
	Options Options

	Scope, Version string            // name and version of the scope in messages
	Resource       map[string]string // attributes of each resource in messages, beside the id of its container
	First          time.Duration     // interval of the first message, 0 for Interval

	// User makes the timer also sample user code. These samples have a stack of one frame, which has a name.
	User bool

	// AtWait leaves the functions of the scheduler out of the stacks of waits, as /proc/PID/wchan does: the first function is
	// then the one that waits. It needs the addresses in kallsyms.
	AtWait bool

	// CPUs are the numbers of the CPUs to sample; empty for all. If it is set, threads have no
	// names, because renames on other CPUs are not recorded. EventWait needs all.
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
	Names      error // wraps ErrNames: no thread has a name; nil if threads have
}

// ErrNames says that names are not recorded.
var ErrNames = errors.New("threads have no names, and some containers no ids")

// Err returns all that is missing as one error, nil if nothing is.
func (m Missing) Err() error { return errors.Join(m.IdleWork, m.Containers, m.Names) }

// A Message holds the samples of an interval.
type Message struct {
	Profiles       []pprofile.Profiles // each with at most maxResources resources, which are all different
	Samples        int                 // in Profiles
	NoContainer    int                 // of these, samples whose container, if any, is not known
	NoStack        int                 // samples of neither the kernel nor a guest: of user code; in Profiles with Sampler.User
	Lost           uint64              // records of samples that the rings had no room for
	LostNames      uint64              // records of threads and cgroups that the rings had no room for, or that were too many
	Throttled      int                 // times that the kernel stopped a CPU's event
	Short, Unknown int                 // waits left out: below the threshold, or not certain
	Paused         time.Duration       // the time before Start in which nothing was recorded, because of too many switches
	CPUs           []int               // the CPUs sampled last
	Start, End     time.Time           // End is not part of the interval
}

// The events to sample by.
const (
	EventCycles = "cycles"
	EventClock  = "cpu-clock"
	EventAuto   = "auto" // cycles, or cpu-clock if there is no cycle counter

	// EventWait samples what threads wait for, not what runs: each time that a thread is off the CPU is a sample. It needs
	// the initial PID namespace, as other namespaces do not show the numbers of all threads.
	EventWait = "wait"
)

// window is how long samples are held back, so that samples of all CPUs can be sorted.
const window = 2 * time.Millisecond

// nameBuffer is the size of each CPU's ring of names, in bytes. With the pages of metadata and the default sizes, all rings
// of the processor and the receiver, off_cpu included, take 468 KiB per CPU, for which no limit of locked memory need be
// raised. It is read with the samples, every pollInterval or more often. In that time, it holds 800 renames, or what 270
// processes cause that are made, call execve and end.
const nameBuffer = 32 << 10

// events returns the events to sample by, in the order in which to try them. The timer samples the idle task, unless its
// idle loop cannot be distinguished from its other work. The cycle counter need not: a halted CPU counts nothing.
func (o *Options) events(idle *idle, cgroups *cgroups) []perfring.Event {
	if o.Event == EventWait {
		return []perfring.Event{perfring.Switches{Cgroups: cgroups != nil}}
	}
	clock := perfring.Sampling{Frequency: uint64(o.Frequency), Idle: o.Idle || idle != nil, Cgroups: cgroups != nil}
	cycles := clock
	cycles.Cycles, cycles.Idle = true, o.Idle
	switch o.Event {
	case EventCycles:
		return []perfring.Event{cycles}
	case EventClock:
		return []perfring.Event{clock}
	}
	return []perfring.Event{cycles, clock}
}

func (s *Sampler) ringOptions(event perfring.Event) perfring.Options {
	opts := perfring.Options{Event: event, BytesPerCPU: s.Options.Buffer, Window: window, CPUs: s.CPUs, SysFS: s.Options.Sysfs}
	if len(s.CPUs) == 0 {
		opts.Names = perfring.Names{BytesPerCPU: nameBuffer, Cgroups: s.Options.Containers}
	}
	return opts
}

// Run opens the rings and sends messages until ctx is done or the rings cannot be read.
func (s *Sampler) Run(ctx context.Context) error {
	var missing Missing
	if s.Options.Event == EventWait {
		if err := procfs.CheckInitialPIDNamespace(s.Options.Procfs); err != nil {
			return fmt.Errorf("waits cannot be sampled: %w", err)
		}
	}
	idle, err := s.readIdle()
	missing.IdleWork = err
	cgroups, err := s.readCgroups()
	missing.Containers = err
	scheduler := s.readScheduler()
	start := time.Now() // what takes long comes before, because rings fill up
	opened, err := s.open(idle, cgroups)
	if err != nil {
		return err
	}
	missing.Names = opened.nameless
	if cgroups != nil {
		missing.Containers = cgroups.begin() // new ones are recorded by now
	}
	name := nameOf(opened.event)
	if name != EventClock {
		idle, missing.IdleWork = nil, nil
	}
	s.Started(name, missing)
	n := newSession(s, opened.rings, opened.event, idle, cgroups, start)
	n.nameless = n.nameless || opened.nameless != nil
	n.scheduler = scheduler
	err = n.run(ctx)
	return errors.Join(err, opened.rings.Close())
}

// nameOf returns the name of an event that was opened.
func nameOf(event perfring.Event) string {
	switch event := event.(type) {
	case perfring.Switches:
		return EventWait
	case perfring.Sampling:
		if event.Cycles {
			return EventCycles
		}
	}
	return EventClock
}

// form returns how samples are written.
func (s *Sampler) form() form {
	return form{
		scopeName: s.Scope, version: s.Version, resource: s.Resource,
		containerID: cmp.Or(s.Options.ContainerID, OnResource), omit: s.Options.Omit,
	}
}

// kindOfSamples returns the kind of an event's samples.
func kindOfSamples(event perfring.Event) kind {
	if sampling, ok := event.(perfring.Sampling); ok {
		return kind{sampleType: "samples", unit: "count", periodType: "cpu", period: sampling.Period()}
	}
	return kindOfWaits
}

// readIdle returns the filter for the idle loop, or nil if none is needed. The error says why the loop cannot be recognized.
func (s *Sampler) readIdle() (*idle, error) {
	if s.Options.Idle || s.Options.Event == EventCycles || s.Options.Event == EventWait {
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

// opened is the rings that a Sampler has opened.
type opened struct {
	rings    *perfring.Reader
	event    perfring.Event
	nameless error // wraps ErrNames: the rings have no names; nil if they have
}

// open opens the rings with the first event that this machine supports.
func (s *Sampler) open(idle *idle, cgroups *cgroups) (opened, error) {
	var errs []error
	for _, event := range s.Options.events(idle, cgroups) {
		if sampling, ok := event.(perfring.Sampling); ok {
			sampling.User = s.User
			event = sampling
		}
		rings, nameless, err := openWithNames(s.ringOptions(event))
		if err == nil {
			return opened{rings, event, nameless}, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, perfring.ErrUnsupported) {
			break
		}
	}
	return opened{}, errors.Join(errs...)
}

// openWithNames opens rings, with names if there are enough memory and files for them. nameless says why they have none.
func openWithNames(opts perfring.Options) (rings *perfring.Reader, nameless, err error) {
	rings, err = perfring.Open(opts)
	if errors.Is(err, perfring.ErrMemory) || errors.Is(err, perfring.ErrFiles) {
		nameless = fmt.Errorf("%w: %w", ErrNames, err)
		opts.Names = perfring.Names{}
		rings, err = perfring.Open(opts)
	}
	return rings, nameless, err
}

// session turns the records of one set of rings into messages.
type session struct {
	sampler   *Sampler
	rings     *perfring.Reader
	kind      kind
	idle      *idle          // whose loop is left out; nil if no sample of it is
	waits     *waits         // nil if what runs is sampled
	scheduler []symtab.Range // functions that waits are not attributed to
	cgroups   *cgroups       // whose owners get the samples; nil if they are not known
	threads   *threads
	nameless  bool // records of threads and cgroups are missing all the time: threads have no names
	message   *message
	counts    Message   // the counts of message, without its profiles and its end
	flush     time.Time // when the interval ends, and message is sent
	refresh   time.Time // when to look for CPUs that came online
	switches  int       // times that a thread left a CPU in this interval, idle tasks included; counted for waits only
	ignored   int64     // switches before this time are no part of a wait: nothing was recorded
	offset    int64     // from the clock of the records to nanoseconds since the Unix epoch
}

// pollInterval is the time after which the rings are read even if none is half
// full: threads must be named while they live.
const pollInterval = 200 * time.Millisecond

// refreshInterval is the time between two checks for CPUs that came online.
const refreshInterval = time.Second

// newSession returns a session with rings of the event, which were opened after start.
func newSession(
	s *Sampler, rings *perfring.Reader, event perfring.Event, idle *idle, cgroups *cgroups, start time.Time,
) *session {
	n := &session{
		sampler: s, rings: rings, kind: kindOfSamples(event), idle: idle, cgroups: cgroups,
		threads: newThreads(s.Options.Procfs), nameless: len(s.CPUs) > 0,
	}
	if nameOf(event) == EventWait {
		n.waits = newWaits(s.Options.Threshold)
	}
	n.begin(start)
	n.beginInterval()
	if s.First > 0 {
		n.flush = start.Add(s.First)
	}
	return n
}

// beginInterval begins an interval, which can take several messages.
func (s *session) beginInterval() {
	s.flush = time.Now().Add(s.sampler.Options.Interval)
	s.switches = 0
}

// begin begins a message.
func (s *session) begin(start time.Time) {
	s.message = newMessage(s.kind, s.sampler.form())
	s.counts = Message{Start: start, CPUs: s.counts.CPUs}
}

// run reads records until ctx is done; then it sends the rest.
func (s *session) run(ctx context.Context) error {
	s.counts.CPUs = s.rings.CPUs()
	if !procfs.IsOurs(s.sampler.Options.Procfs) {
		s.threads.procfs = "" // its thread ids belong to other threads
	}
	if !s.nameless {
		s.threads.readAll()
	}
	for {
		deadline := time.Now().Add(pollInterval)
		if s.flush.Before(deadline) {
			deadline = s.flush
		}
		err := s.rings.Wait(ctx, deadline)
		err = errors.Join(err, s.add(ctx, s.rings.Poll()))
		switch now := time.Now(); {
		case err != nil:
		case s.hasTooManySwitches():
			err = s.pause(ctx)
		case !now.Before(s.flush):
			err = s.endInterval(ctx)
		case now.After(s.refresh):
			err = s.refreshCPUs()
		}
		if err != nil {
			s.finish(ctx)
			return err
		}
	}
}

func (s *session) refreshCPUs() error {
	s.refresh = time.Now().Add(refreshInterval)
	err := s.rings.RefreshCPUs(false)
	s.counts.CPUs = s.rings.CPUs()
	return err
}

// endInterval sends the message with all samples up to now, but for the window, or with all waits up to the time when the
// CPUs were checked.
func (s *session) endInterval(ctx context.Context) error {
	if err := s.refreshCPUs(); err != nil {
		return err
	}
	b := s.rings.Poll()
	err := s.add(ctx, b)
	end := b.Certain
	if s.waits != nil {
		end = min(b.Certain, b.Looked)
		s.addOpenWaits(ctx, end)
	}
	s.send(ctx, timeOf(end))
	s.beginInterval()
	return err
}

// finish sends the samples that are still in the rings and in the message.
func (s *session) finish(ctx context.Context) {
	if s.waits != nil {
		_ = s.endInterval(ctx)
	}
	_ = s.add(ctx, s.rings.Flush()) // nothing follows
	s.send(ctx, time.Now())
}

// timeOf returns the time of a reading of the records' clock. It has a monotonic reading, too: the wall clock may be set.
func timeOf(at int64) (t time.Time) {
	const tries = 5 // the two clocks can be read at different times if this process is interrupted
	least := int64(math.MaxInt64)
	for range tries {
		before := perfring.Monotonic.Now()
		now := time.Now()
		if took := perfring.Monotonic.Now() - before; took < least {
			least, t = took, now.Add(time.Duration(at-before-took/2))
		}
	}
	return t
}

// add adds samples to the message and counts lost records. Its error says that cgroups are not what they were when the
// session began.
func (s *session) add(ctx context.Context, b perfring.Batch) error {
	err := s.checkCgroups()
	_, s.offset, _ = perfring.Monotonic.UnixOffset()
	s.counts.Lost += b.Lost
	s.counts.LostNames += b.Names.Lost
	if s.nameless {
		s.cgroups.miss(b.At)
	}
	names := nameEvents{b.Names.Records, b.Names.Blind}
	for i := range b.Records {
		r := &b.Records[i]
		s.noteNames(&names, r.Time)
		if s.waits != nil && s.ignored <= r.Time && r.Time < b.Certain {
			s.noteWait(r)
		}
		switch r.Type {
		case perfring.TypeSample:
			s.addSample(ctx, r)
		case perfring.TypeThrottle:
			s.counts.Throttled++
		default:
		}
	}
	s.noteNames(&names, math.MaxInt64)
	s.addWaits(ctx, &b)
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

// addSample adds the sample of a thread that was interrupted.
func (s *session) addSample(ctx context.Context, r *perfring.Record) {
	if s.waits != nil || !s.keeps(r.PID, r.TID) {
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
	s.makeRoom(ctx, r.Time)
	if noStack {
		s.counts.NoStack++
	}
	s.put(&sample{
		stack: addressesOf(r), pid: r.PID, tid: r.TID, cpu: r.CPU, name: s.nameOfThread(r.TID, r.Time),
		owner: s.cgroups.owner(r.InCgroup, r.Time), at: r.Time,
	})
}

func (s *session) keeps(pid, tid uint32) bool {
	return s.sampler.Keep == nil || s.sampler.Keep(pid, tid)
}

// makeRoom sends the message if it is full. at is the time of the next sample.
func (s *session) makeRoom(ctx context.Context, at int64) {
	if s.message.events == s.sampler.Options.MaxSamples {
		s.send(ctx, timeOf(at))
	}
}

// put puts a sample into the message, which has room for it.
func (s *session) put(of *sample) {
	if s.sampler.Options.Containers && !of.owner.known {
		s.counts.NoContainer++
	}
	s.message.add(of, uint64(of.at+s.offset))
}

// send sends the message, with samples up to end, and begins the next one of the interval.
func (s *session) send(ctx context.Context, end time.Time) {
	m := s.counts
	m.Profiles = s.message.finish(m.Start.UnixNano(), end.UnixNano())
	m.Samples, m.End = s.message.events, end
	s.countWaits(&m)
	s.sampler.Send(ctx, &m)
	s.threads.forgetExited()
	s.begin(end)
}
