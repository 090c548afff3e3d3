package symtab

import (
	"math"
	"time"
)

// An Interval is the span of time from From up to, but not including, To, both
// in nanoseconds of one clock. That of sources is CLOCK_BOOTTIME, which goes on
// while the machine is suspended and is never set. An interval whose To is not
// after its From is empty.
type Interval struct {
	From, To int64
}

// Always is the interval that holds every instant.
var Always = Interval{From: math.MinInt64, To: math.MaxInt64}

// Now is an interval that only code which is still there overlaps.
var Now = Interval{From: math.MaxInt64 - 1, To: math.MaxInt64}

// Since returns the interval from an instant on.
func Since(from int64) Interval { return Interval{From: from, To: math.MaxInt64} }

// Instant returns the shortest interval that holds t.
func Instant(t int64) Interval {
	t = min(t, math.MaxInt64-1)
	return Interval{From: t, To: t + 1}
}

// Overlaps reports whether the two intervals have an instant in common.
func (i Interval) Overlaps(o Interval) bool { return i.overlap(o) > 0 }

// overlap returns the length of what the two intervals have in common.
func (i Interval) overlap(o Interval) uint64 {
	from, to := max(i.From, o.From), min(i.To, o.To)
	if from >= to {
		return 0
	}
	return uint64(to) - uint64(from)
}

// holds reports whether every instant of o is one of i.
func (i Interval) holds(o Interval) bool { return i.From <= o.From && o.To <= i.To }

// widened returns the interval with so many nanoseconds more on either side.
func (i Interval) widened(before, after int64) Interval {
	from, to := i.From-before, i.To+after
	if from > i.From {
		from = math.MinInt64
	}
	if to < i.To {
		to = math.MaxInt64
	}
	return Interval{From: from, To: to}
}

// Slack is how much longer code may have been there than is certain, in
// microseconds: when it was loaded or unloaded is not known better.
type Slack struct {
	Before, After uint32
}

// NewSlack returns a Slack, of at most 71 minutes either way.
func NewSlack(before, after time.Duration) Slack {
	return Slack{Before: microseconds(before), After: microseconds(after)}
}

func microseconds(d time.Duration) uint32 {
	return uint32(min(max(d+time.Microsecond-1, 0)/time.Microsecond, math.MaxUint32))
}

// possible returns the interval in which code may have been there that certainly
// was there in i.
func (s Slack) possible(i Interval) Interval {
	return i.widened(int64(s.Before)*1000, int64(s.After)*1000)
}

// tolerance is how far, in nanoseconds, the clocks of whoever took a sample and
// of whoever saw a load may be apart (section 5.2 of the contract).
const tolerance = int64(5 * time.Millisecond)
