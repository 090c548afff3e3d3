// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"slices"
	"time"
)

// blindTime is the time in which images may have been loaded or unloaded unseen (contract 5.2), except for
// the time after the instant up to which a table is complete. It is immutable.
type blindTime struct {
	before    int64         // all time before this instant
	intervals []Interval    // in the order of time; they neither overlap nor touch
	total     time.Duration // length of all intervals so far
}

// maxBlind is the maximum number of intervals. If there are more, all time up to the last excess one is
// blind.
const maxBlind = 1024

// around reports whether an interval holds blind time (contract 5.2). around is an interval that holds it and in which
// there is either no blind time or nothing else; it is empty if the interval has both.
func (b *blindTime) around(i Interval) (blind bool, around Interval) {
	at := b.firstEndingAfter(i.From)
	around = Interval{From: b.before, To: Forever}
	if at > 0 {
		around.From = max(around.From, b.intervals[at-1].To)
	}
	next := Since(Forever)
	if at < len(b.intervals) {
		next = b.intervals[at]
		around.To = next.From
	}
	if i.From < b.before {
		next = Interval{From: math.MinInt64, To: b.before}
	} else if !next.Overlaps(i) {
		return false, around
	}
	if next.Holds(i) {
		return true, next
	}
	return true, Interval{}
}

// firstEndingAfter returns the position of the first interval that ends after an instant.
func (b *blindTime) firstEndingAfter(at int64) int {
	i, _ := slices.BinarySearchFunc(b.intervals, at, func(blind Interval, at int64) int {
		if blind.To <= at {
			return -1
		}
		return 1
	})
	return i
}

// with returns the blind time with another interval.
func (b *blindTime) with(i Interval) blindTime {
	if i.From == math.MinInt64 {
		return b.startingAt(i.To)
	}
	i.From = max(i.From, b.before)
	if i.IsEmpty() {
		return *b
	}
	var earlier, later []Interval
	total := b.total
	for _, other := range b.intervals {
		switch {
		case other.To < i.From:
			earlier = append(earlier, other)
		case i.To < other.From:
			later = append(later, other)
		default:
			i = i.Union(other)
			total -= other.length()
		}
	}
	c := blindTime{
		before: b.before, intervals: slices.Concat(earlier, []Interval{i}, later), total: total + i.length(),
	}
	if n := len(c.intervals) - maxBlind; n > 0 {
		return c.startingAt(c.intervals[n-1].To)
	}
	return c
}

// startingAt returns the blind time with all time before an instant.
func (b *blindTime) startingAt(before int64) blindTime {
	before = max(b.before, before)
	return blindTime{before: before, intervals: b.intervals[b.firstEndingAfter(before):], total: b.total}
}
