// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Options say what to sample. See the receiver's configuration for the values.
type Options struct {
	Threads    Threads // which threads to sample: Running or Waiting
	Buffer     int     // size of each CPU's ring of samples, in bytes
	Least      int     // size down to which the rings are halved if there is no memory for them; 0 for Buffer
	Buffers    int     // size of the rings of all CPUs; if they took more, each is halved, down to ample; 0 for no limit
	Interval   time.Duration
	MaxSamples int // per message

	// Containers gives the samples of containers the container's id. It takes the cgroups of cgroup v2, which Cgroupfs is
	// a mount of.
	Containers  bool
	ContainerID string // where the id stands: OnResource, OnSamples or OnBoth; empty for OnResource
	Omit        Omit

	Procfs, Sysfs, Cgroupfs string // where /proc, /sys and /sys/fs/cgroup are mounted

	// Located returns the core kernel as this process has located it (see contract 10.5), nil if it has not. The idle loop
	// and the scheduler are found there if kallsyms hides them. It may be nil. It is called often.
	Located func() *timeline.Image
}

// Threads says which threads to sample, and how.
type Threads interface {
	// methods returns the methods by which they can be sampled, in the order in which to try them. cgroups reports whether
	// records need the cgroup. It reads kallsyms if the methods need it, which can take long.
	methods(o *Options, cgroups bool) ([]method, error)
}

// A method is a way to sample threads.
type method struct {
	name    string // of the event
	event   perfring.Event
	cpus    []int   // to record on; empty for all
	kind    kind    // of the samples
	missing Missing // what is known before the rings are open
	hidden  bool    // addresses of functions in the kernel that it needs are not known
	sampler func(*outbox) threadSampler
}

// A Sampler samples kernel stacks. Its fields must not change while it runs.
type Sampler struct {
	Options Options

	Scope, Version string            // name and version of the scope in messages
	Resource       map[string]string // attributes of each resource in messages, beside the id of its container
	First          time.Duration     // interval of the first message, 0 for Interval

	// Keep reports whether to keep a sample of a thread; nil keeps all. While a thread exits,
	// its number is not known, and perf reports -1.
	Keep func(pid, tid uint32) bool

	// Started is called each time that the rings are open, with the event that opened them and what will be missing.
	Started func(event string, missing Missing)

	// Beside, if set, is called after Started, in a goroutine of its own, and may take what memory and files the rings have
	// left. Its context is done when recording ends, and the rings are not opened again before it has returned.
	Beside func(context.Context)

	// Send receives each message, even one without samples. Run calls it.
	Send func(context.Context, *Message)
}

// Missing says what cannot be found out about this machine, and why.
type Missing struct {
	IdleWork   error // wraps ErrIdleWork: interrupts and softirqs on idle CPUs are not sampled; nil if they are
	Scheduler  error // wraps ErrScheduler: the stacks of waits begin in the scheduler; nil if they do not, or are meant to
	Containers error // wraps ErrContainers: samples have no container, or not all of them; nil if all have
	Names      error // wraps ErrNames: no thread has a name; nil if threads have
	Rings      error // wraps ErrRings: more records may be lost than with rings of Options.Buffer; nil if they are as large
	Tasks      error // wraps perfring.ErrTasks: all threads are recorded, not only those of Waiting.Tasks; nil if only those are
}

// ErrNames says that names are not recorded.
var ErrNames = errors.New("threads have no names, and some containers no ids")

// ErrRings says that rings are smaller than they were meant to be.
var ErrRings = errors.New("when the machine is busy, records may be lost")

// Err returns all that is missing as one error, nil if nothing is.
func (m Missing) Err() error { return errors.Join(m.All()...) }

// All returns the reasons, nil for those that do not apply.
func (m Missing) All() []error {
	return []error{m.IdleWork, m.Scheduler, m.Containers, m.Names, m.Rings, m.Tasks}
}

// A Message holds the samples of an interval.
type Message struct {
	Profiles    []pprofile.Profiles // each with at most maxResources resources, which are all different
	Samples     int                 // in Profiles
	Waits       int                 // that these stand for, each part counted as one; 0 for samples of running threads
	NoContainer int                 // of the Samples, samples whose container, if any, is not known
	NoStack     int                 // samples of neither the kernel nor a guest: of user code; in Profiles with Running.User
	Lost        uint64              // records of samples that the rings had no room for
	LostNames   uint64              // records of threads and cgroups that the rings had no room for, or that were too many
	Throttled   int                 // times that the kernel stopped a CPU's event
	Short       int                 // waits left out because they are below the threshold
	Unknown     Unknown             // waits left out because they are not certain
	Paused      time.Duration       // the time before Start in which nothing was recorded, because of too many switches
	CPUs        []int               // the CPUs sampled last
	Tasks       *int                // number of threads of Waiting.Tasks when recording began; nil if all threads are recorded
	Start, End  time.Time           // End is not part of the interval
}

// window is how long samples are held back, so that samples of all CPUs can be sorted.
const window = 2 * time.Millisecond

// nameBuffer is the size of each CPU's ring of names, in bytes. With the pages of metadata and the default sizes, all rings
// of the processor and the receiver, and 256 KiB for waits, take 468 KiB per CPU, for which no limit of locked memory need be
// raised. It is read with the samples, every pollInterval or more often. In that time, it holds 800 renames, or what 270
// processes cause that are made, call execve and end.
const nameBuffer = 32 << 10

// errOutdated says that a new session would sample more.
var errOutdated = errors.New("a new session samples more")

// Run opens the rings and sends messages until ctx is done or the rings cannot be read. It begins again if the kernel is
// located after that, and the addresses of functions were missing, or if the kernel has ended the events of a thread that goes on.
func (s *Sampler) Run(ctx context.Context) error {
	for {
		if err := s.runSession(ctx); !errors.Is(err, errOutdated) {
			return err
		}
	}
}

// runSession opens the rings and sends messages until ctx is done, the rings cannot be read, or errOutdated.
func (s *Sampler) runSession(ctx context.Context) error {
	located := s.Options.core() // before addresses are looked up: if it changes from now on, some may be missing needlessly
	cgroups, noContainers := s.readCgroups()
	methods, err := s.Options.Threads.methods(&s.Options, cgroups != nil)
	if err != nil {
		return err
	}
	opened, err := s.open(methods) // what takes long comes before, because rings fill up
	if err != nil {
		return err
	}
	if cgroups != nil {
		noContainers = cgroups.begin() // new ones are recorded by now
	}
	missing := opened.method.missing
	missing.Containers, missing.Names, missing.Rings, missing.Tasks = noContainers, opened.nameless, s.smaller(opened.rings), opened.others
	s.Started(opened.method.name, missing)
	session := newSession(s, opened, cgroups, timeOf(opened.at))
	session.located = located
	return errors.Join(s.runBeside(ctx, session.run), opened.rings.Close())
}

// runBeside calls run, and Beside for as long as run takes.
func (s *Sampler) runBeside(ctx context.Context, run func(context.Context) error) error {
	if s.Beside == nil {
		return run(ctx)
	}
	besideCtx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { s.Beside(besideCtx) })
	defer beside.Wait()
	defer cancel()
	return run(ctx)
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
	method   method
	nameless error // wraps ErrNames: the rings have no names; nil if they have
	others   error // as Missing.Tasks
	at       int64 // when all rings were open
}

// open opens the rings for the first method that this machine supports.
func (s *Sampler) open(methods []method) (opened, error) {
	var errs []error
	var others error
	for _, method := range methods {
		rings, nameless, err := openWithNames(s.ringOptions(method), perfring.Open)
		if err == nil {
			return opened{rings, method, nameless, others, perfring.Monotonic.Now()}, nil
		}
		errs = append(errs, err)
		if errors.Is(err, perfring.ErrTasks) {
			others = err
		} else if !errors.Is(err, perfring.ErrUnsupported) {
			break
		}
	}
	return opened{}, errors.Join(errs...)
}

func (s *Sampler) ringOptions(m method) perfring.Options {
	opts := perfring.Options{
		Event: m.event, BytesPerCPU: s.Options.buffer(), LeastPerCPU: s.Options.Least,
		Window: window, CPUs: m.cpus, SysFS: s.Options.Sysfs,
	}
	if len(m.cpus) == 0 {
		opts.Names = perfring.Names{BytesPerCPU: nameBuffer, Cgroups: s.Options.Containers}
	}
	return opts
}

// openWithNames opens rings, with names if there are enough memory and files for them. nameless says why they have none.
func openWithNames(
	opts perfring.Options, open func(perfring.Options) (*perfring.Reader, error),
) (rings *perfring.Reader, nameless, err error) {
	rings, err = open(opts)
	if perfring.LacksMemory(err) || errors.Is(err, perfring.ErrFiles) {
		nameless = fmt.Errorf("%w: %w", ErrNames, err)
		opts.Names = perfring.Names{}
		rings, err = open(opts)
	}
	return rings, nameless, err
}
