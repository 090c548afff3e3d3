// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"cmp"
	"math"
	"slices"
)

// Poll empties all rings by reading memory, and returns the records that are older than
// Options.Window; the next Poll returns the younger ones. It makes no system calls except to
// read clocks, unless the machine was suspended since the last Poll: then it reopens all
// rings. It never waits for Wait.
//
// Batches must be applied in the order in which Poll returned them.
func (r *Reader) Poll() Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Read the clock before the first ring. A record that enters a ring just after the ring was
	// emptied can be the cause of a record in a ring that is emptied later, but the later
	// record is then younger than now.
	now := r.clock.Now()
	r.reopenAfterSleep(now)
	r.drain()
	horizon := now - int64(r.opts.Window)
	if !r.state.incomplete && !r.state.closed {
		r.state.certain = horizon
	}
	return r.state.batch(now, horizon)
}

// Flush is Poll without a window. It also counts lost records that the kernel has not
// announced. Call it only at the end: later records may be causes of records that it returned.
func (r *Reader) Flush() Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	r.drain()
	for _, g := range r.state.rings {
		r.state.pending.Lost += g.unannounced()
	}
	return r.state.batch(now, math.MaxInt64)
}

// batch returns everything that is pending, except for records from the horizon on.
func (s *state) batch(at, horizon int64) Batch {
	sortByTime(s.pending.Records)
	n, _ := slices.BinarySearchFunc(s.pending.Records, horizon, func(rec Record, t int64) int {
		return cmp.Compare(rec.Time, t)
	})
	b := s.pending
	b.Records = b.Records[:n:n]
	s.pending = Batch{Records: slices.Clone(s.pending.Records[n:])}
	b.At, b.Certain, b.Looked = at, s.certain, s.looked
	return b
}

func sortByTime(records []Record) {
	slices.SortStableFunc(records, func(a, b Record) int { return cmp.Compare(a.Time, b.Time) })
}

// drain appends the content of the rings to pending.
func (r *Reader) drain() {
	for _, g := range r.state.rings {
		if !g.isEmpty() {
			r.drainRing(g)
		}
	}
}

// drainRing appends the content of a ring to pending, and the intervals in which it lost
// records.
func (r *Reader) drainRing(g *ring) {
	// unknown is the time of the last record before a loss that may have lasted until the ring
	// was emptied.
	unknown, some := int64(0), false
	loss := func() {
		if !some {
			unknown, some = g.last, true
		}
	}
	r.state.mostUsed = max(r.state.mostUsed, g.used())
	from := *g.tail
	at := from
	err := g.drain(func(raw []byte) {
		g.losses.notePosition(at)
		rec, ok, err := parse(raw, g.cgroups)
		switch {
		case err != nil:
			r.state.pending.Lost++
			loss()
		case ok && rec.Type == TypeLost:
			g.losses.announced += rec.Lost
			r.state.pending.Lost += g.losses.more(g.losses.announced)
			r.state.pending.addBlind(g.last, g.lossEnd(at, rec.Time))
		case ok:
			r.state.pending.Records = append(r.state.pending.Records, rec)
		}
		if ok {
			g.last = rec.Time
		}
		at += uint64(len(raw))
	})
	if err != nil {
		r.state.pending.Lost++
	}
	crowded := g.wasCrowded(from)
	if crowded {
		g.noteCrowded()
	}
	if err != nil || crowded {
		loss()
	}
	g.noteRoom(r.clock)
	if some {
		r.state.pending.addBlind(unknown, r.clock.Now())
	}
}

// addBlind adds an interval up to and including an instant.
func (b *Batch) addBlind(from, to int64) {
	b.Blind = append(b.Blind, Interval{From: from, To: max(from, to) + 1})
}
