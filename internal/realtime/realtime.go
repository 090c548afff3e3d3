// SPDX-License-Identifier: Apache-2.0

// Package realtime says which time of the kernel's own clock a Unix time was.
//
// Profiles have Unix times, those of the wall clock (CLOCK_REALTIME), which can be
// set. Code is loaded and unloaded at times of CLOCK_BOOTTIME, which only goes on, also
// while the machine is suspended. NTP makes both go faster or slower alike: the kernel
// keeps one of them and adds a constant for the other, which changes only when the wall
// clock is set (tk_set_wall_to_mono in kernel/time/timekeeping.c). So a [Clock] is the
// difference, and the steps it made.
package realtime

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Clock converts Unix times of this machine. It is immutable.
type Clock struct {
	spans  []span // in the order of their time; one more than there were steps
	plain  int64  // from this Unix time on, only the last span is possible
	forgot int64  // before this one, spans are possible that were forgotten
}

// span is a time between two steps.
type span struct {
	from, to int64 // on the kernel's clock; when the step was is not known exactly, so spans overlap
	offset   int64 // how much more the wall clock shows
	err      int64 // how wrong that can be
}

const (
	// settle is for how long after a step there can be times by the old difference:
	// producers measure it now and then (see contract 5.3).
	settle = int64(5 * time.Minute)

	// lag is how old a sample can be when a producer converts its time: after a step, by
	// the new difference.
	lag = int64(10 * time.Second)

	// worst is the error of a reading that is still of use.
	worst = int64(200 * time.Microsecond)
)

// Fixed returns a clock of which the difference has always been the same, in
// nanoseconds.
func Fixed(offset int64) *Clock {
	return newClock([]span{{from: math.MinInt64, to: math.MaxInt64, offset: offset}}, math.MinInt64)
}

func newClock(spans []span, forgot int64) *Clock {
	c := &Clock{spans: spans, plain: forgot, forgot: forgot}
	if last := spans[len(spans)-1]; last.from != math.MinInt64 {
		c.plain = max(c.plain, add(add(last.from, -lag), last.offset))
	}
	for _, s := range spans[:len(spans)-1] {
		c.plain = max(c.plain, s.end())
	}
	return c
}

// end returns the Unix time from which the span is not possible any more.
func (s *span) end() int64 { return add(add(s.to, settle), s.offset) }

// Unix returns what the wall clock showed last of a time of the kernel's clock.
func (c *Clock) Unix(boot int64) int64 { return boot + c.spans[len(c.spans)-1].offset }

// Convert returns an interval of the kernel's clock that holds the time meant by a Unix
// one, in nanoseconds since the epoch. It is wider by the error of reading the clocks,
// and near a step it is the hull of what is possible. A time that no clock ever showed
// gives the hull of what it would be by each difference. One of which steps were forgotten
// can be any before the last of them.
func (c *Clock) Convert(unix timeline.Interval) timeline.Interval {
	if unix.From >= c.plain {
		return c.spans[len(c.spans)-1].convert(unix)
	}
	hull, all := never, never
	for _, s := range c.spans {
		at := s.convert(unix)
		all = all.with(at)
		if at.To > add(s.from, -lag) && at.From < add(s.to, settle) {
			hull = hull.with(at)
		}
	}
	if hull == never {
		hull = all
	}
	if unix.From < c.forgot {
		hull.From = math.MinInt64
	}
	return timeline.Interval(hull)
}

// interval has a method.
type interval timeline.Interval

// never is the hull of nothing.
var never = interval{From: math.MaxInt64, To: math.MinInt64}

// with returns the hull of two intervals.
func (i interval) with(o timeline.Interval) interval {
	return interval{From: min(i.From, o.From), To: max(i.To, o.To)}
}

func (s *span) convert(unix timeline.Interval) timeline.Interval {
	return timeline.Interval{From: add(unix.From, -s.offset-s.err), To: add(unix.To, -s.offset+s.err)}
}

// add returns a+b, or the nearest there is.
func add(a, b int64) int64 {
	sum := a + b
	switch {
	case b > 0 && sum < a:
		return math.MaxInt64
	case b < 0 && sum > a:
		return math.MinInt64
	}
	return sum
}

// A Reading is what both clocks showed at one moment.
type Reading struct {
	Boot   int64 // the kernel's clock
	Offset int64 // how much more the wall clock showed
	Error  int64 // how wrong each of both can be
}

// A Tracker follows the wall clock. It is safe for concurrent use.
type Tracker struct {
	read func() Reading
	keep time.Duration

	mu    sync.Mutex
	clock *Clock
	last  int64 // until then there was no step that the clock does not know
}

// NewTracker returns a Tracker. read reads the clocks. What was longer ago than keep is
// forgotten.
func NewTracker(keep time.Duration, read func() Reading) *Tracker {
	const tries = 10
	r := read()
	for range tries {
		if again := read(); again.Error < r.Error {
			r = again
		}
	}
	return &Tracker{
		read: read, keep: keep, last: r.Boot - r.Error,
		clock: newClock([]span{{from: math.MinInt64, to: math.MaxInt64, offset: r.Offset, err: r.Error}}, math.MinInt64),
	}
}

// Now returns the time of the kernel's clock, and a Clock that holds up to it. The longer
// ago the last call is, the less is known of when a step was.
func (t *Tracker) Now() (boot int64, c *Clock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.read()
	boot = r.Boot + r.Error
	last := &t.clock.spans[len(t.clock.spans)-1]
	if r.Error > max(worst, last.err) {
		return boot, t.clock
	}
	switch difference := r.Offset - last.offset; {
	case max(difference, -difference) > r.Error+last.err:
		t.clock = t.step(boot, r)
	case r.Error < last.err:
		spans := slices.Clone(t.clock.spans)
		spans[len(spans)-1].offset, spans[len(spans)-1].err = r.Offset, r.Error
		t.clock = newClock(spans, t.clock.forgot)
	}
	t.last = r.Boot - r.Error
	return boot, t.clock
}

// step returns the clock after a step, which forgets spans that are too long ago.
func (t *Tracker) step(boot int64, r Reading) *Clock {
	spans, forgot := slices.Clone(t.clock.spans), t.clock.forgot
	spans[len(spans)-1].to = boot
	spans = append(spans, span{from: t.last, to: math.MaxInt64, offset: r.Offset, err: r.Error})
	spans = slices.DeleteFunc(spans, func(s span) bool {
		old := add(s.to, settle) < boot-int64(t.keep)
		if old {
			forgot = max(forgot, s.end())
		}
		return old
	})
	return newClock(spans, forgot)
}
