// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"time"
)

// An Interval is the time from From up to, but not including, To, both in nanoseconds of one clock.
// That of the sources is CLOCK_BOOTTIME, which goes on while the machine is suspended and is never set.
// An interval whose To is not after its From is empty.
type Interval struct {
	From, To int64
}

// Forever is the end of the lifetime of an image that has not been unloaded.
const Forever = math.MaxInt64

// Always is the interval that holds every instant: the lifetime of the core kernel.
var Always = Interval{From: math.MinInt64, To: Forever}

// Present stands for "as last seen": an image that has not been unloaded has its addresses in it,
// whatever may have happened since the source last looked. It is for callers that ask about now. It is
// empty, so no time of a sample is equal to it.
var Present = Interval{From: Forever, To: Forever}

// Never is an empty interval whose union with any other is the other.
var Never = Interval{From: math.MaxInt64, To: math.MinInt64}

// Since returns the interval from an instant on.
func Since(from int64) Interval { return Interval{From: from, To: Forever} }

// Instant returns the shortest interval that holds t.
func Instant(t int64) Interval {
	t = min(t, Forever-1)
	return Interval{From: t, To: t + 1}
}

// IsEmpty reports whether the interval holds no instant.
func (i Interval) IsEmpty() bool { return i.From >= i.To }

// Overlaps reports whether the two intervals have an instant in common.
func (i Interval) Overlaps(o Interval) bool { return !i.And(o).IsEmpty() }

// Holds reports whether o lies within i.
func (i Interval) Holds(o Interval) bool { return i.From <= o.From && o.To <= i.To }

// And returns the intersection of two intervals.
func (i Interval) And(o Interval) Interval {
	return Interval{From: max(i.From, o.From), To: min(i.To, o.To)}
}

// Union returns the shortest interval that holds both.
func (i Interval) Union(o Interval) Interval {
	return Interval{From: min(i.From, o.From), To: max(i.To, o.To)}
}

// Widened returns the interval with d more nanoseconds on either side, or less if d is negative. An end
// at the beginning or the end of time stays there.
func (i Interval) Widened(d int64) Interval {
	w := i
	if i.From != math.MinInt64 {
		if w.From = i.From - d; d > 0 && w.From > i.From {
			w.From = math.MinInt64
		}
	}
	if i.To != math.MaxInt64 {
		if w.To = i.To + d; d > 0 && w.To < i.To {
			w.To = math.MaxInt64
		}
	}
	return w
}

func (i Interval) length() time.Duration { return time.Duration(i.To - i.From) }
