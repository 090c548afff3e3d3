package perfring

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// refreshInterval is the time between two looks at which CPUs are online.
const refreshInterval = time.Second

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

// Flush returns what is in the rings now, without holding anything back.
func (r *Reader) Flush() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain()
	records := r.pending
	r.pending = nil
	sortByTime(records)
	return records
}

// collect empties the rings and returns the records that are old enough.
func (r *Reader) collect() []Record {
	// The clock is read before the first ring: what is put into a ring after it was
	// read can have a cause in another that is read later, but not one that is older
	// than this.
	horizon := r.clock.Now() - int64(r.opts.Window)
	r.drain()
	sortByTime(r.pending)
	n, _ := slices.BinarySearchFunc(r.pending, horizon, func(rec Record, t int64) int {
		return cmp.Compare(rec.Time, t)
	})
	r.passed = append(r.passed[:0], r.pending[:n]...)
	rest := copy(r.pending, r.pending[n:])
	clear(r.pending[rest:])
	r.pending = r.pending[:rest]
	return r.passed
}

func sortByTime(records []Record) {
	slices.SortStableFunc(records, func(a, b Record) int { return cmp.Compare(a.Time, b.Time) })
}

// drain appends what is in the rings to pending. What cannot be read counts as
// lost.
func (r *Reader) drain() {
	for _, ring := range r.rings {
		malformed := uint64(0)
		err := ring.drain(func(raw []byte) {
			rec, ok, err := parse(raw)
			if err != nil {
				malformed++
			} else if ok {
				r.pending = append(r.pending, rec)
			}
		})
		if err != nil {
			malformed++
		}
		if malformed > 0 {
			r.pending = append(r.pending, Record{Type: TypeLost, Time: r.clock.Now(), CPU: uint32(ring.cpu), Lost: malformed})
		}
	}
}

// refreshRings is refreshCPUs, and tells that events may have been missed.
func (r *Reader) refreshRings(now time.Time) error {
	opened, err := r.refreshCPUs(now)
	for _, cpu := range opened {
		// With the time of now: what happened before the ring was there is older.
		r.pending = append(r.pending, Record{Type: TypeMissed, Time: r.clock.Now(), CPU: uint32(cpu)})
	}
	return err
}

// refreshCPUs opens rings on CPUs that are online and have none, or one that
// stopped working while the CPU was offline, and closes those of CPUs that are
// offline. It returns the CPUs whose ring is new.
func (r *Reader) refreshCPUs(now time.Time) (opened []int, err error) {
	r.refresh = now.Add(refreshInterval)
	online, err := onlineCPUs(r.opts.SysFS)
	if err != nil {
		return nil, err
	}
	r.drain()
	var closeErrs []error
	r.rings = slices.DeleteFunc(r.rings, func(ring *ring) bool {
		if i, ok := slices.BinarySearch(online, ring.cpu); ok && ring.alive() {
			online = slices.Delete(online, i, i+1)
			return false
		}
		closeErrs = append(closeErrs, ring.close())
		return true
	})
	if err := errors.Join(closeErrs...); err != nil {
		return nil, err
	}
	for _, cpu := range online {
		ring, err := openRing(&r.opts, cpu)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue // offline again
		}
		if err != nil {
			return opened, err
		}
		r.rings = append(r.rings, ring)
		if err := r.poller.add(ring.fd); err != nil {
			return opened, err
		}
		opened = append(opened, cpu)
	}
	return opened, nil
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
