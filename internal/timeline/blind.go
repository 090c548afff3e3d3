// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"math"
	"slices"
	"time"
)

// blindTime is when images may have come or gone unseen (contract 5.2), beside the time
// after what is certain. It is immutable.
type blindTime struct {
	before    int64         // everything before this instant
	intervals []Interval    // in the order of their time, apart from each other
	total     time.Duration // of all intervals so far
}

// maxBlind is the number of intervals that are told apart. Before more of them,
// everything is blind.
const maxBlind = 1024

// overlaps reports whether there is blind time in an interval.
func (b *blindTime) overlaps(i Interval) bool {
	blind, _ := b.around(i)
	return blind
}

// around reports whether there is blind time in an interval, and returns an interval
// around it in which there is none at all or nothing else, an empty one if there is both.
func (b *blindTime) around(i Interval) (blind bool, around Interval) {
	at, _ := slices.BinarySearchFunc(b.intervals, i.From, func(blind Interval, from int64) int {
		if blind.To <= from {
			return -1
		}
		return 1
	})
	around = Interval{From: b.before, To: Forever}
	if at > 0 {
		around.From = max(around.From, b.intervals[at-1].To)
	}
	next := Since(Forever)
	if at < len(b.intervals) {
		next = b.intervals[at]
		around.To = next.From
	}
	switch {
	case i.To <= b.before && i.From < b.before:
		return true, Interval{From: math.MinInt64, To: b.before}
	case i.From < b.before:
		return true, Interval{}
	case !next.Overlaps(i):
		return false, around
	case next.Holds(i):
		return true, next
	}
	return true, Interval{}
}

// with returns blind time with one more interval.
func (b *blindTime) with(i Interval) blindTime {
	if i.From >= i.To {
		return *b
	}
	if i.From == math.MinInt64 {
		return b.startingAt(i.To)
	}
	all := make([]Interval, 0, len(b.intervals)+1)
	total := b.total
	for _, other := range b.intervals {
		if other.To < i.From || i.To < other.From {
			all = append(all, other)
		} else {
			i = i.Hull(other)
			total -= other.length()
		}
	}
	at, _ := slices.BinarySearchFunc(all, i.From, func(blind Interval, from int64) int {
		if blind.From < from {
			return -1
		}
		return 1
	})
	c := blindTime{before: b.before, intervals: slices.Insert(all, at, i), total: total + i.length()}
	if n := len(c.intervals) - maxBlind; n > 0 {
		return c.startingAt(c.intervals[n-1].To)
	}
	return c
}

// startingAt returns blind time in which everything before an instant is blind.
func (b *blindTime) startingAt(before int64) blindTime {
	c := blindTime{before: max(b.before, before), total: b.total}
	for _, i := range b.intervals {
		if i.To > c.before {
			c.intervals = append(c.intervals, i)
		}
	}
	return c
}
