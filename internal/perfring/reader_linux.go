// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/poller"
)

// A Reader reads the rings of all CPUs. Wait and RefreshCPUs are for one goroutine; the
// other methods are safe for concurrent use, also with those two.
type Reader struct {
	opts   Options
	clock  Clock
	poller *poller.Poller
	slept  func() (least, most int64) // for how long the machine has been suspended
	open   func(*Options, cpu) (*ring, error)

	mu sync.Mutex // not held while Wait waits
	state
}

// state is what the mutex of a Reader guards.
type state struct {
	closed  bool
	rings   []*ring
	cpus    int   // the number of possible ones, where sysfs does not tell; 0 if not known
	pending Batch // what was read, but not returned yet
	certain int64 // the Certain of the last batch

	mostUsed uint64 // how many bytes of a ring were used at most, since Wait asked last

	looked     int64 // when the rings were compared with the CPUs that are online
	incomplete bool  // they do not agree, or that is not known

	awake     int64 // when Drain last asked for how long the machine was suspended
	mostSlept int64 // the answer
}

// Open starts to record on all CPUs that are online, and wanted. It takes one file and BytesPerCPU
// and a page of locked memory for each, three more files, and no goroutine. What happens after Open is
// recorded. The errors that wrap those of this package say what an operator can do.
func Open(opts Options) (*Reader, error) {
	if err := checkClocks(); err != nil {
		return nil, err
	}
	return openWith(opts, openRing)
}

// openWith is Open with the function that opens the ring of a CPU.
func openWith(opts Options, open func(*Options, cpu) (*ring, error)) (*Reader, error) {
	p, err := poller.New()
	if err != nil {
		return nil, filesError(err)
	}
	r := &Reader{opts: opts, clock: opts.Event.Clock(), poller: p, slept: slept, open: open}
	r.awake = r.clock.Now()
	_, r.mostSlept = r.slept()
	if err := r.RefreshCPUs(false); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Wait waits until it is worth the trouble to call Drain, or to the deadline: with
// [Sampling] until a ring is half full; with [Symbols] until there is any record, and then
// for Options.Delay. It can return early. When ctx is done it returns its error, after
// Close os.ErrClosed, also if that happens meanwhile.
func (r *Reader) Wait(ctx context.Context, deadline time.Time) error {
	if _, prompt := r.opts.Event.(Symbols); !prompt {
		return r.poller.Wait(ctx, deadline, r.isReady)
	}
	// While records come, there will be more: it waits for the delay at once.
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

// manyBytes is how much a ring is used by some programs more than come and go all the
// time. After that, and after a time in which nothing came, a burst is likely, which would
// fill a ring before the delay is over; so the first pauses are short.
const manyBytes = 1024

// takeMostUsed returns how much of a ring was used at most in the batches since the last
// call.
func (r *Reader) takeMostUsed() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.mostUsed
	r.mostUsed = 0
	return used
}

// isReady reports whether a ring is full enough to be read, or symbols were held back.
func (r *Reader) isReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, prompt := r.opts.Event.(Symbols); prompt && len(r.pending.Records)+len(r.pending.Blind) > 0 {
		return true
	}
	return slices.ContainsFunc(r.rings, (*ring).isReady)
}

func (r *Reader) isFilling() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.rings, (*ring).isFilling)
}

// CPUs returns the numbers of the CPUs that are recorded.
func (r *Reader) CPUs() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	cpus := make([]int, 0, len(r.rings))
	for _, g := range r.rings {
		cpus = append(cpus, g.cpu.number)
	}
	return cpus
}

// Close stops recording and frees the rings. It interrupts Wait. Closed twice, it does
// nothing.
func (r *Reader) Close() error {
	errs := []error{r.poller.Close()} // which waits for isReady
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	for _, ring := range r.rings {
		errs = append(errs, ring.close())
	}
	r.rings = nil
	return errors.Join(errs...)
}
