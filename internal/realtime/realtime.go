// Package realtime says which time of the kernel's own clock a Unix time was.
//
// Profiles have Unix times, those of the wall clock (CLOCK_REALTIME), which can be
// set, and is made faster and slower to agree with other machines. Code is loaded
// and unloaded at times of CLOCK_BOOTTIME, which only goes on, also while the
// machine is suspended. A [Clock] holds the difference between the two as it was
// over time.
package realtime

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// A Clock converts Unix times of this machine. It is immutable.
//
// It is off by no more than a millisecond, by which the wall clock must move to be
// noticed, and the error of reading both clocks, well below that. What the clock
// showed while it was being set is not known: both.
type Clock struct {
	spans []span // in the order of their time
}

// span is a time in which the wall clock showed offset more than the kernel's.
type span struct {
	from, to int64 // of the kernel's clock; when the wall clock is set, they overlap
	offset   int64
}

// Fixed returns a clock of which the difference has always been the same, in
// nanoseconds.
func Fixed(offset int64) *Clock {
	return &Clock{spans: []span{{from: math.MinInt64, to: math.MaxInt64, offset: offset}}}
}

// Unix returns what the wall clock showed last of a time of the kernel's clock.
func (c *Clock) Unix(boot int64) int64 { return boot + c.spans[len(c.spans)-1].offset }

// Convert appends to dst the times of the kernel's clock at which the wall clock was
// in an interval, in nanoseconds since the Unix epoch: one interval or, if it was set
// back, more than one; none if it never showed these times, being set forward.
func (c *Clock) Convert(dst []symtab.Interval, unix symtab.Interval) []symtab.Interval {
	last := &c.spans[len(c.spans)-1]
	if len(c.spans) == 1 || minus(unix.From, last.offset) >= last.from && !c.isAmbiguous(unix) {
		return append(dst, symtab.Interval{From: minus(unix.From, last.offset), To: minus(unix.To, last.offset)})
	}
	at := dst[len(dst):]
	for _, s := range c.spans {
		i := symtab.Interval{From: max(s.from, minus(unix.From, s.offset)), To: min(s.to, minus(unix.To, s.offset))}
		if i.From < i.To {
			at = append(at, i)
		}
	}
	slices.SortFunc(at, func(a, b symtab.Interval) int {
		if a.From < b.From {
			return -1
		}
		return 1
	})
	joined := at[:0]
	for _, i := range at {
		if n := len(joined); n > 0 && minus(i.From, joined[n-1].To) <= adjacent {
			joined[n-1].To = max(joined[n-1].To, i.To)
			continue
		}
		joined = append(joined, i)
	}
	return append(dst, joined...)
}

// adjacent is how far apart, in nanoseconds, two intervals are that count as one: the
// tolerance of section 5.2 of the contract.
const adjacent = int64(5 * time.Millisecond)

// isAmbiguous reports whether the wall clock also showed a time of the interval
// before the last span.
func (c *Clock) isAmbiguous(unix symtab.Interval) bool {
	for _, s := range c.spans[:len(c.spans)-1] {
		if minus(unix.From, s.offset) < s.to {
			return true
		}
	}
	return false
}

// minus returns a-b, or the nearest there is.
func minus(a, b int64) int64 {
	d := a - b
	switch {
	case b > 0 && d > a:
		return math.MinInt64
	case b < 0 && d < a:
		return math.MaxInt64
	}
	return d
}

// A Tracker follows the wall clock. It is safe for concurrent use.
type Tracker struct {
	read func() (boot, offset int64)
	keep time.Duration

	mu    sync.Mutex
	clock *Clock
	last  int64 // when it was read, on the kernel's clock
}

// The least changes of the difference that are noticed, and that mean that the wall
// clock was set. To agree with others, it goes faster or slower by at most 500 µs a
// second (MAXFREQ of include/linux/timex.h), and is read once a second.
const (
	leastChange = int64(time.Millisecond)
	leastStep   = int64(5 * time.Millisecond)
)

// NewTracker returns a Tracker. read reads the kernel's clock, and how much more the
// wall clock shows. What was longer ago than keep is forgotten.
func NewTracker(keep time.Duration, read func() (boot, offset int64)) *Tracker {
	boot, offset := read()
	return &Tracker{read: read, keep: keep, clock: Fixed(offset), last: boot}
}

// Now returns the time of the kernel's clock, and a Clock that holds up to it. It has
// to be called once a second.
func (t *Tracker) Now() (boot int64, c *Clock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	boot, offset := t.read()
	if boot < t.last { // read before another call did
		return boot, t.clock
	}
	spans := t.clock.spans
	changed := offset - spans[len(spans)-1].offset
	if changed < 0 {
		changed = -changed
	}
	if changed > leastChange {
		from := boot
		if changed > leastStep {
			from = t.last // some time since
		}
		first := 0
		for first < len(spans)-1 && spans[first].to < boot-int64(t.keep) {
			first++
		}
		spans = slices.Clone(spans[first:])
		spans[0].from = math.MinInt64
		spans[len(spans)-1].to = boot
		t.clock = &Clock{spans: append(spans, span{from: from, to: math.MaxInt64, offset: offset})}
	}
	t.last = boot
	return boot, t.clock
}
