// SPDX-License-Identifier: Apache-2.0

// Package realtime converts Unix times to times of the kernel's own clock.
//
// Profiles have Unix times: times of the wall clock (CLOCK_REALTIME), which can be set. Loads
// and unloads of code have times of CLOCK_BOOTTIME, which only moves forward, even while the
// machine is suspended. NTP speeds up or slows down both clocks alike: the kernel keeps one of
// them and adds a constant to get the other. The constant changes only when the wall clock is
// set (tk_set_wall_to_mono in kernel/time/timekeeping.c). So a [Clock] holds this difference,
// and its steps.
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
	spans  []span // in the order of their times; one more than the number of steps
	plain  int64  // from this Unix time on, only the last span is possible
	forgot int64  // before this one, forgotten spans are also possible
}

// span is the time between two steps.
type span struct {
	from, to int64 // on the kernel's clock; the times of steps are not known exactly, so spans overlap
	offset   int64 // wall clock minus kernel's clock
	err      int64 // maximum error of offset
}

const (
	// settle is how long after a step times can still have the old difference: producers
	// measure it only now and then (see contract 5.3).
	settle = int64(5 * time.Minute)

	// lag is how old a sample can be when a producer converts its time. After a step, the
	// producer uses the new difference.
	lag = int64(10 * time.Second)

	// worst is the largest error of a usable reading.
	worst = int64(200 * time.Microsecond)
)

// Fixed returns a clock whose difference, in nanoseconds, has never changed.
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

// end returns the Unix time from which on the span is no longer possible.
func (s *span) end() int64 { return add(add(s.to, settle), s.offset) }

// Convert returns an interval of the kernel's clock that contains an interval of Unix time, in
// nanoseconds since the epoch. The result is wider by the error of reading the clocks. Near a
// step it covers all possible times. For a time that the wall clock never showed, it covers the
// times by every difference. A time that may be from before a forgotten step can be any time
// before the last forgotten step.
func (c *Clock) Convert(unix timeline.Interval) timeline.Interval {
	if unix.From >= c.plain {
		return c.spans[len(c.spans)-1].convert(unix)
	}
	union, all := timeline.Never, timeline.Never
	for _, s := range c.spans {
		at := s.convert(unix)
		all = all.Union(at)
		if at.To > add(s.from, -lag) && at.From < add(s.to, settle) {
			union = union.Union(at)
		}
	}
	if union == timeline.Never {
		union = all
	}
	if unix.From < c.forgot {
		union.From = math.MinInt64
	}
	return union
}

func (s *span) convert(unix timeline.Interval) timeline.Interval {
	return timeline.Interval{From: add(unix.From, -s.offset-s.err), To: add(unix.To, -s.offset+s.err)}
}

// add returns a+b, or the nearest number if it overflows.
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

// A Reading is a reading of both clocks at one moment.
type Reading struct {
	Boot   int64 // the kernel's clock
	Offset int64 // wall clock minus kernel's clock
	Error  int64 // maximum error of each of them
}

// A Tracker follows the wall clock. It is safe for concurrent use.
type Tracker struct {
	read func() Reading
	keep time.Duration

	mu    sync.Mutex
	clock *Clock
	last  int64 // clock has all steps up to this time
}

// NewTracker returns a Tracker. read reads the clocks. Steps that were longer ago than keep are
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

// Now returns the time of the kernel's clock, and a Clock that is valid up to that time. The
// longer ago the last call was, the less exactly the time of a step is known.
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

// step returns the clock after a step, without spans that are too old.
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
