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
	opts   Options
	poller *poller

	mu      sync.Mutex // held by Read while it waits, too
	closed  bool
	rings   []*ring
	refresh time.Time // when to look at the CPUs again
	pending []Record  // read, but not passed on yet
	passed  []Record  // passed on by the last Read
}

// Open starts to record on all CPUs that are online. CPUs that come online later
// are recorded within a second. It takes one file and BytesPerCPU and a page of
// locked memory for each, and no goroutine. The errors that wrap those of this
// package say what an operator can do.
func Open(opts Options) (*Reader, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	r := &Reader{opts: opts, poller: p}
	if err := r.refreshCPUs(time.Now()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Read waits until a ring is half full, at most until the deadline, and returns
// the records in the order of their times. There may be none. Those that are held
// back for now come with the next call. They are valid until the
// next call, but for their stacks and names, which stay. When ctx is done it
// returns its error, after Close os.ErrClosed, also if that happens meanwhile;
// after the former, Flush has the records that are left.
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
			if err := r.refreshCPUs(now); err != nil {
				return nil, err
			}
		}
		if records := r.collect(); len(records) > 0 {
			return records, nil
		}
		if now.After(deadline) {
			return nil, nil
		}
		until := deadline
		if r.refresh.Before(until) {
			until = r.refresh
		}
		if err := r.poller.wait(ctx, until, r.isHalfFull); err != nil {
			return nil, err
		}
	}
}

// isHalfFull reports whether a ring is.
func (r *Reader) isHalfFull() bool {
	return slices.ContainsFunc(r.rings, (*ring).isHalfFull)
}

// Flush returns what is in the rings now, without holding anything back.
func (r *Reader) Flush() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain(monotonic())
	records := r.pending
	r.pending = nil
	sortByTime(records)
	return records
}

// collect empties the rings and returns the records that are old enough.
func (r *Reader) collect() []Record {
	now := monotonic()
	r.drain(now)
	sortByTime(r.pending)
	horizon := now - min(now, uint64(r.opts.Window))
	n, _ := slices.BinarySearchFunc(r.pending, horizon, func(rec Record, t uint64) int {
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
func (r *Reader) drain(now uint64) {
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
			r.pending = append(r.pending, Record{Type: TypeLost, Time: now, CPU: uint32(ring.cpu), Lost: malformed})
		}
	}
}

// refreshCPUs opens rings on CPUs that are online and have none, or one that
// stopped working while the CPU was offline, and closes those of CPUs that are
// offline.
func (r *Reader) refreshCPUs(now time.Time) error {
	r.refresh = now.Add(refreshInterval)
	online, err := onlineCPUs(r.opts.SysFS)
	if err != nil {
		return err
	}
	r.drain(monotonic())
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
		return err
	}
	for _, cpu := range online {
		ring, err := openRing(&r.opts, cpu)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue // offline again
		}
		if err != nil {
			return err
		}
		r.rings = append(r.rings, ring)
		if err := r.poller.add(ring.fd); err != nil {
			return err
		}
	}
	return nil
}

// Close stops recording and frees the rings. It interrupts Read and waits for it.
// Closed twice, it does nothing.
func (r *Reader) Close() error {
	err := r.poller.close()
	if errors.Is(err, os.ErrClosed) {
		err = nil // by an earlier call
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	errs := []error{err}
	for _, ring := range r.rings {
		errs = append(errs, ring.close())
	}
	r.rings = nil
	return errors.Join(errs...)
}
