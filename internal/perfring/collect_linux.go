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
// Batches must be applied in the order in which Poll returned them. The records of a batch are valid until the next call of
// Poll or Flush.
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
	for _, s := range r.state.streams() {
		for _, g := range s.rings {
			s.lost += g.unannounced()
		}
	}
	return r.state.batch(now, math.MaxInt64)
}

// batch returns everything that is pending, except for records from the horizon on.
func (s *state) batch(at, horizon int64) Batch {
	main, names := s.main.take(horizon), s.names.take(horizon)
	slices.SortStableFunc(names.blind, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	return Batch{
		At: at, Certain: s.certain, Looked: s.looked,
		Records: main.records, Blind: main.blind, Lost: main.lost,
		Names: NameBatch{Records: names.records, Blind: names.blind, Lost: names.lost},
	}
}

// take removes and returns what was read, except for records from the horizon on. The records are valid until the next call.
func (s *stream) take(horizon int64) (read stream) {
	clear(s.spare) // the batch before is over: its stacks may go
	sorted, other := sortByTime(s.records, s.spare[:0])
	n, _ := slices.BinarySearchFunc(sorted, horizon, func(rec Record, t int64) int {
		return cmp.Compare(rec.Time, t)
	})
	read = stream{records: sorted[:n:n], blind: s.blind, lost: s.lost}
	held := other[:0]
	held = append(held, sorted[n:]...)
	clear(other[min(len(held), len(other)):])
	s.records, s.spare = held, sorted
	if cap(sorted) > maxKept {
		s.records, s.spare = slices.Clone(s.records), nil
	}
	s.blind, s.lost = nil, 0
	return read
}

// maxKept is the number of records whose memory a stream keeps for the next ones, twice. That is enough for 100,000 switches a
// second, if they are read five times a second.
const maxKept = 1 << 16

// sortByTime sorts records by time, and keeps the order of equal times. It uses the memory of another slice, and returns that,
// too. A ring nearly always has its records in order, so they are a few runs that are sorted already, and are merged.
func sortByTime(records, spare []Record) (sorted, other []Record) {
	for {
		if _, rest := cutRun(records); len(rest) == 0 {
			return records, spare
		}
		spare = slices.Grow(spare[:0], len(records))
		for rest := records; len(rest) > 0; {
			var a, b []Record
			a, rest = cutRun(rest)
			b, rest = cutRun(rest)
			spare = merge(spare, a, b)
		}
		records, spare = spare, records
	}
}

// cutRun cuts off the first records that are sorted by time.
func cutRun(records []Record) (run, rest []Record) {
	n := min(1, len(records))
	for n < len(records) && records[n-1].Time <= records[n].Time {
		n++
	}
	return records[:n], records[n:]
}

// merge appends the records of two sorted runs. At equal times, a comes first.
func merge(to, a, b []Record) []Record {
	for len(a) > 0 && len(b) > 0 {
		if b[0].Time < a[0].Time {
			to, b = append(to, b[0]), b[1:]
		} else {
			to, a = append(to, a[0]), a[1:]
		}
	}
	return append(append(to, a...), b...)
}

// drain reads the content of the rings.
func (r *Reader) drain() {
	for _, s := range r.state.streams() {
		for _, g := range s.rings {
			if !g.isEmpty() {
				r.drainRing(s, g)
			}
		}
	}
}

// bytesPerRecord is how many bytes of a ring a record takes on average. That is true for switches: a sample with a stack and
// two records of 48 bytes.
const bytesPerRecord = 100

// drainRing reads the content of a ring of a stream, and the intervals in which it lost records.
func (r *Reader) drainRing(s *stream, g *ring) {
	// unknown is the time of the last record before a loss that may have lasted until the ring
	// was emptied.
	unknown, some := int64(0), false
	loss := func() {
		if !some {
			unknown, some = g.trail.last, true
		}
	}
	r.state.mostUsed = max(r.state.mostUsed, g.used())
	g.budget.refill(r.clock.Now())
	s.records = slices.Grow(s.records, int(min(g.used(), uint64(len(g.data)))/bytesPerRecord)) // to grow step by step would take twice the memory
	from := *g.tail
	next := from
	err := g.drain(func(raw []byte) {
		at := next
		next += uint64(len(raw))
		g.losses.notePosition(at)
		if !g.mayParse(raw) {
			s.lost++
			loss()
			return
		}
		rec, ok, err := parse(raw, g.has)
		switch {
		case err != nil:
			s.lost++
			loss()
		case ok && rec.Type == TypeLost:
			g.losses.announced += rec.Lost
			s.lost += g.losses.more(g.losses.announced)
			s.addBlind(g.trail.last, g.lossEnd(at, rec.Time), true)
		case ok:
			s.records = append(s.records, rec)
		}
		if ok {
			g.trail.last = rec.Time
		}
	})
	if err != nil {
		s.lost++
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
		s.addBlind(unknown, r.clock.Now(), true)
	}
}

// addBlind adds an interval up to and including an instant. lost is as in Interval.
func (s *stream) addBlind(from, to int64, lost bool) {
	s.blind = append(s.blind, Interval{From: from, To: max(from, to) + 1, Lost: lost})
}
