package perfring

import (
	"cmp"
	"slices"
)

// collect empties the rings and returns the records that are old enough.
func (r *Reader) collect() []Record {
	// The clock is read before the first ring: a record that is put into a ring just
	// after it was read can be the cause of one in a ring that is read later, but that
	// is younger than this.
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
			switch {
			case err != nil:
				malformed++
			case ok && rec.Type == TypeLost:
				r.addLost(rec, ring.lost.announce(rec.Lost))
			case ok:
				r.pending = append(r.pending, rec)
			}
		})
		if err != nil {
			malformed++
		}
		r.addLost(r.own(TypeLost, ring.cpu), malformed)
		if ring.crowded {
			r.lookForLost(ring)
		}
	}
}

// addLost appends a record that says how many others were lost, if any were.
func (r *Reader) addLost(rec Record, lost uint64) {
	if lost > 0 {
		rec.Lost = lost
		r.pending = append(r.pending, rec)
	}
}

// lookForLost asks the kernel how many records a ring had no room for. If the kernel
// does not tell, some may have been missed.
func (r *Reader) lookForLost(ring *ring) {
	if err := ring.look(); err != nil || !ring.countsLost {
		r.pending = append(r.pending, r.own(TypeMissed, ring.cpu))
		return
	}
	r.addLost(r.own(TypeLost, ring.cpu), ring.lost.upTo(ring.lostTotal))
}

// own returns a record that is not the kernel's.
func (r *Reader) own(typ Type, cpu int) Record {
	return Record{Type: typ, Time: r.clock.Now(), CPU: uint32(cpu)}
}
