package perfring

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Reader reads the rings of all CPUs. Its methods are safe for concurrent use.
type Reader struct {
	opts    Options
	clock   Clock
	prompt  bool // records do not wait for a ring to become half full
	poller  *poller
	closing chan struct{} // closed by Close
	close   func() error  // closes that and the poller, once

	mu      sync.Mutex // held by Read while it waits, too
	closed  bool
	rings   []*ring
	refresh time.Time // when to look at the CPUs again
	cpus    int       // the number of possible ones, where sysfs does not tell; 0 if not known
	pending []Record  // read, but not passed on yet
	passed  []Record  // passed on by the last Read
}

// Open starts to record on all CPUs that are online. CPUs that come online later
// are recorded within a second. It takes one file and BytesPerCPU and a page of
// locked memory for each, and no goroutine. What happens after Open is recorded. The
// errors that wrap those of this package say what an operator can do.
func Open(opts Options) (*Reader, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	r := &Reader{opts: opts, clock: opts.Event.Clock(), poller: p, closing: make(chan struct{})}
	_, r.prompt = opts.Event.(Symbols)
	r.close = sync.OnceValue(func() error {
		close(r.closing)
		return p.close()
	})
	if _, err := r.refreshCPUs(time.Now()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Read waits for records, at most until the deadline, and returns them in the order
// of their times. There may be none. What it waits for depends on the event: with
// [Sampling] until a ring is half full, and those that are held back for now come
// with the next call; with [Symbols] until there are some that need not be held back
// any more. Those of one window come together.
//
// The records are valid until the next call, but for what they point to, which
// stays. When ctx is done it returns its error, after Close os.ErrClosed, also if
// that happens meanwhile; after the former, Flush has the records that are left.
func (r *Reader) Read(ctx context.Context, deadline time.Time) ([]Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.passed)
	for {
		if r.closed {
			return nil, os.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		now := time.Now()
		if now.After(r.refresh) {
			if err := r.refreshRings(now); err != nil {
				return nil, err
			}
		}
		if records := r.collect(); len(records) > 0 {
			return records, nil
		}
		if now.After(deadline) {
			return nil, nil
		}
		if err := r.wait(ctx, deadline); err != nil {
			return nil, err
		}
	}
}

// wait waits until it is worth the trouble to collect again, or to look at the CPUs.
func (r *Reader) wait(ctx context.Context, deadline time.Time) error {
	if r.prompt && len(r.pending) > 0 {
		// All of them will be old enough then, and what comes meanwhile wakes nobody.
		return r.pause(ctx, min(r.opts.Window, time.Until(deadline)))
	}
	if r.refresh.Before(deadline) {
		deadline = r.refresh
	}
	return r.poller.wait(ctx, deadline, r.isReady)
}

// pause waits for a time. It returns os.ErrClosed when Close is called meanwhile.
func (r *Reader) pause(ctx context.Context, d time.Duration) error {
	if d <= time.Millisecond {
		// A timer of Go's would be rounded up to the millisecond.
		request := unix.NsecToTimespec(max(0, int64(d)))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &request, nil) // if interrupted, it is early
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-r.closing:
		return os.ErrClosed
	}
	return nil
}

// isReady reports whether a ring is full enough to be read.
func (r *Reader) isReady() bool {
	return slices.ContainsFunc(r.rings, (*ring).isReady)
}

// Flush returns what is in the rings now, without holding anything back. It is for
// the end: what comes after may have been the cause of some of it.
func (r *Reader) Flush() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain()
	records := r.pending
	r.pending = nil
	sortByTime(records)
	return records
}

// Close stops recording and frees the rings. It interrupts Read and waits for it.
// Closed twice, it does nothing.
func (r *Reader) Close() error {
	err := r.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	errs := []error{err}
	for _, ring := range r.rings {
		errs = append(errs, ring.close())
	}
	r.rings = nil
	return errors.Join(errs...)
}
