// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/poller"
)

// A Reader reads the rings of all CPUs. Only one goroutine may call Wait and RefreshCPUs; the
// other methods are safe for concurrent use, also with these two.
type Reader struct {
	opts   Options
	clock  Clock
	poller *poller.Poller
	slept  func() (least, most int64) // how long the machine has been suspended
	open   func(*Options, cpu) (*ring, error)
	halved error // why the rings are smaller than was asked for; nil if they are not

	mu    sync.Mutex // guards state; not held while Wait waits
	state state
}

// state holds the fields that the mutex of a Reader guards.
type state struct {
	closed  bool
	main    stream // of Options.Event
	names   stream // of Options.Names, without rings if nothing is recorded
	cpus    int    // number of possible CPUs, which never changes; 0 if not known
	certain int64  // the Certain of the last batch

	mostUsed uint64 // most bytes that were used of a ring since Wait last asked

	looked     int64 // when the rings were last compared with the online CPUs
	incomplete bool  // they do not agree, or it is not known whether they do

	paused int64 // when the rings last stopped recording

	awake     int64 // when Poll last asked how long the machine had been suspended
	mostSlept int64 // the answer
}

// stream holds the rings of one event, one for each CPU, and the records that were read but not returned yet.
type stream struct {
	opts    Options
	rings   []*ring
	records []Record
	spare   []Record // those of the last batch; their memory is used again
	blind   []Interval
	lost    uint64
}

// streams returns the streams that are recorded.
func (s *state) streams() []*stream {
	if s.names.opts.BytesPerCPU == 0 {
		return []*stream{&s.main}
	}
	return []*stream{&s.main, &s.names}
}

// Open starts to record on all online CPUs that the options select. For each it takes one file,
// and locked memory of BytesPerCPU, or less if LeastPerCPU allows it, and a page; and for names, another file, and their BytesPerCPU
// and a page; and for each of [Switches.Tasks], one file. It also takes three more files, and no goroutine. Everything that
// happens after Open has returned is recorded, and some of what happens before, because rings are opened one by one. Errors that
// wrap an error of this package say what an operator can do.
func Open(opts Options) (*Reader, error) {
	if err := checkClocks(); err != nil {
		return nil, err
	}
	return openLargest(opts, openRing)
}

// openLargest is Open with the function that opens the ring of a CPU.
func openLargest(opts Options, open func(*Options, cpu) (*ring, error)) (*Reader, error) {
	var halved error
	opts.BytesPerCPU = RingSize(opts.BytesPerCPU)
	for {
		r, err := openWith(opts, open)
		if err == nil {
			r.halved = halved
			return r, nil
		}
		if !LacksMemory(err) || opts.LeastPerCPU == 0 || opts.BytesPerCPU/2 < opts.LeastPerCPU {
			return nil, err
		}
		halved = err
		opts.BytesPerCPU /= 2
	}
}

// BytesPerCPU returns the size of each ring, without the page of metadata. The error says why it is smaller than
// Options.BytesPerCPU; it is nil if it is not.
func (r *Reader) BytesPerCPU() (int, error) { return r.opts.BytesPerCPU, r.halved }

// openWith opens rings of BytesPerCPU.
func openWith(opts Options, open func(*Options, cpu) (*ring, error)) (*Reader, error) {
	p, err := poller.New()
	if err != nil {
		return nil, filesError(err)
	}
	r := &Reader{opts: opts, clock: opts.Event.Clock(), poller: p, slept: slept, open: open}
	r.state.main.opts, r.state.names.opts = opts, opts
	r.state.names.opts.Event, r.state.names.opts.BytesPerCPU = opts.Names, opts.Names.BytesPerCPU
	r.state.awake = r.clock.Now()
	_, r.state.mostSlept = r.slept()
	possible, _ := readCPUs(opts.SysFS, "possible") // see state.cpus
	r.state.cpus = len(possible)
	if err := r.RefreshCPUs(false); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Wait waits until a call of Poll is worthwhile, or for the deadline: with [Sampling], until a
// ring is half full; with [Symbols], until there is any record, and then for Options.Delay. It
// can return early. It returns the error of ctx when ctx is done, and os.ErrClosed after Close,
// even if this happens while it waits.
func (r *Reader) Wait(ctx context.Context, deadline time.Time) error {
	if _, prompt := r.opts.Event.(Symbols); !prompt {
		return r.poller.Wait(ctx, deadline, r.isReady)
	}
	// While records keep coming, there will be more: wait for the delay at once.
	used := r.takeMostUsed()
	if used == 0 {
		if err := r.poller.Wait(ctx, deadline, r.isReady); err != nil || !r.isReady() {
			return err
		}
	}
	end := time.Now().Add(max(r.opts.Delay, r.opts.Window))
	if deadline.Before(end) {
		end = deadline
	}
	step := time.Millisecond
	if 0 < used && used < manyBytes {
		step = r.opts.Delay
	}
	for {
		pause := min(step, time.Until(end))
		if pause <= 0 || r.isFilling() {
			return nil
		}
		if err := r.poller.Sleep(ctx, time.Now().Add(pause)); err != nil {
			return err
		}
		step *= 5
	}
}

// manyBytes is the number of bytes that a few more programs than usual take in a ring. After
// that many bytes, or after a time without records, a burst is likely. A burst would fill a
// ring before the delay is over, so the first pauses are then short.
const manyBytes = 1024

// takeMostUsed returns the most bytes that were used of a ring in the batches since the last
// call.
func (r *Reader) takeMostUsed() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.state.mostUsed
	r.state.mostUsed = 0
	return used
}

// isReady reports whether a ring is full enough to be read, or symbols are held back.
func (r *Reader) isReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, prompt := r.opts.Event.(Symbols); prompt && len(r.state.main.records)+len(r.state.main.blind) > 0 {
		return true
	}
	return slices.ContainsFunc(r.state.main.rings, (*ring).isReady)
}

func (r *Reader) isFilling() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.state.main.rings, (*ring).isFilling)
}

// Pause stops recording the event until Resume, which the kernel does at almost no cost. The time between is blind. Names
// are recorded all the time.
func (r *Reader) Pause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.paused = r.clock.Now()
	return r.state.main.control(unix.PERF_EVENT_IOC_DISABLE)
}

// Resume records again after Pause.
func (r *Reader) Resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.state.main.control(unix.PERF_EVENT_IOC_ENABLE)
	r.state.main.addBlind(r.state.paused, r.clock.Now(), false)
	return err
}

// control makes a request about each event, and those that threads inherited from it.
func (s *stream) control(request uint) error {
	return s.each(func(g *ring) error {
		return g.each(func(fd int) error { return unix.IoctlSetInt(fd, request, 0) })
	})
}

// each calls a function for each ring.
func (s *stream) each(do func(*ring) error) error {
	var errs []error
	for _, g := range s.rings {
		errs = append(errs, do(g))
	}
	return errors.Join(errs...)
}

// CPUs returns the numbers of the CPUs that are recorded.
func (r *Reader) CPUs() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	cpus := make([]int, 0, len(r.state.main.rings))
	for _, g := range r.state.main.rings {
		cpus = append(cpus, g.cpu.number)
	}
	return cpus
}

// Tasks returns the number of threads whose events were opened on a CPU, at most, not counting those that these threads have
// made since. It is nil without [Switches.Tasks].
func (r *Reader) Tasks() *int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tasksOf(r.state.main.opts.Event) == nil {
		return nil
	}
	n := 0
	for _, g := range r.state.main.rings {
		n = max(n, len(g.tasks))
	}
	return &n
}

// Close stops recording and frees the rings. It interrupts Wait. A second call does nothing.
func (r *Reader) Close() error {
	errs := []error{r.poller.Close()} // it waits for a running isReady, which locks mu
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.closed {
		return nil
	}
	r.state.closed = true
	for _, s := range r.state.streams() {
		errs = append(errs, s.each((*ring).close))
		s.rings = nil
	}
	return errors.Join(errs...)
}
