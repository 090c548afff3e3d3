// SPDX-License-Identifier: Apache-2.0

package bpfprog

import "github.com/kernelsym/kernelsym/internal/timeline"

// losses are the blind intervals after which no list has confirmed yet what is there.
type losses struct {
	open    timeline.Interval // the hull of those that the next list is about, empty if there are none
	later   timeline.Interval // of those since that list began
	settled timeline.Interval // the last list has confirmed what was there in all of it
	listing bool
}

// add adds a blind interval. The kernel tells of a loss with the next record of the CPU,
// when a list may have confirmed long ago what is there.
func (l *losses) add(i timeline.Interval) {
	if i.From < i.To && l.settled.Holds(i) {
		return
	}
	to := &l.open
	if l.listing {
		to = &l.later
	}
	*to = hull(*to, i)
}

// hull returns the hull of two intervals, of which one may be empty.
func hull(a, b timeline.Interval) timeline.Interval {
	switch {
	case a.From >= a.To:
		return b
	case b.From >= b.To:
		return a
	}
	return a.Union(b)
}

func (l *losses) all() timeline.Interval { return hull(l.open, l.later) }
func (l *losses) any() bool              { return l.all() != timeline.Interval{} }
func (l *losses) from() int64            { return l.all().From }
func (l *losses) to() int64              { return l.all().To }

// finish notes that the list is there, or that it failed, and returns the losses that it
// is about. It reports false if it cannot tell what is there after those, as more
// records of the same time were lost.
func (l *losses) finish(listed bool) (about timeline.Interval, ok bool) {
	about, later := l.open, l.later
	l.listing, l.later = false, timeline.Interval{}
	if !listed || later != (timeline.Interval{}) && later.From < about.To {
		l.open = hull(about, later)
		return about, false
	}
	l.open = later
	return about, true
}
