// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A model answers from the records of all sources by going through all of them. It applies sections
// 3.5 and 5.1 to 5.4 of the contract, word by word.
type model []*modelSource

type modelSource struct {
	limits  Limits
	loads   []*load
	certain int64
	blind   []Interval
	unloads int
}

// A load is an image in a model.
type load struct {
	what       string // equal if two loads have the same answer
	isModule   bool
	name       string // empty if it names nothing
	trampoline bool
	cutShort   bool // it ends where another image begins in it
	start, end uint64
	from, to   int64
	unloaded   int // how many were unloaded by then; 0 while it is loaded
}

func (l *load) identity() string {
	if l.isModule {
		return l.what
	}
	return fmt.Sprint(l.what, " ", l.start, " ", l.end)
}

func (l *load) isThere() bool { return l.unloaded == 0 }

func (l *load) overlaps(from, to int64) bool { return max(l.from, from) < min(l.to, to) }

func (s *modelSource) load(l *load) {
	for _, o := range s.loads {
		if o.isThere() && l.cutShort && o.start > l.start && o.start < l.end {
			l.end = o.start
		}
	}
	byStart := slices.Clone(s.loads)
	slices.SortFunc(byStart, func(a, b *load) int { return cmp.Compare(a.start, b.start) })
	for _, o := range byStart {
		switch {
		case !o.isThere() || o.end <= l.start || l.end <= o.start:
		case o.cutShort && o.start < l.start:
			o.end = l.start
		default:
			s.end(o, min(s.certain, l.from))
		}
	}
	for _, o := range s.loads {
		if !o.isThere() && o.start < l.end && l.start < o.end {
			l.from = max(l.from, o.to)
		}
	}
	l.to = math.MaxInt64
	s.loads = append(s.loads, l)
	s.evict(math.MinInt64)
}

func (s *modelSource) unload(l *load, at int64) {
	s.end(l, at)
	s.evict(math.MinInt64)
}

func (s *modelSource) end(l *load, at int64) {
	s.unloads++
	l.to, l.unloaded = max(at, l.from+1), s.unloads
}

// evict drops loads that ended before an instant, and loads beyond the limit.
func (s *modelSource) evict(oldest int64) {
	var gone []*load
	for _, l := range s.loads {
		if !l.isThere() {
			gone = append(gone, l)
		}
	}
	slices.SortFunc(gone, func(a, b *load) int {
		return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.unloaded, b.unloaded))
	})
	for i, l := range gone {
		if l.to < oldest || i < len(gone)-s.limits.MaxEntries {
			s.loads = slices.DeleteFunc(s.loads, func(o *load) bool { return o == l })
			s.blind = append(s.blind, Interval{math.MinInt64, l.to})
		}
	}
}

func (s *modelSource) isBlind(from, to int64) bool {
	for _, b := range s.blind {
		if max(b.From, from) < min(b.To, to) {
			return true
		}
	}
	return to > s.certain
}

func (m model) isBlind(from, to int64) bool {
	return slices.ContainsFunc(m, func(s *modelSource) bool { return s.isBlind(from, to) })
}

// near returns the loads that had an address at about a time, in the order of their times.
func (m model) near(addr uint64, from, to int64) (near []load) {
	for _, s := range m {
		for _, l := range s.loads {
			if l.start <= addr && addr < l.end {
				near = append(near, *l)
			}
		}
	}
	near = slices.DeleteFunc(near, func(l load) bool { return !l.overlaps(from-unloadGrace, to+unloadGrace) })
	if slices.ContainsFunc(near, func(l load) bool { return !l.trampoline }) {
		near = slices.DeleteFunc(near, func(l load) bool { return l.trampoline })
	}
	slices.SortFunc(near, func(a, b load) int { return cmp.Compare(a.from, b.from) })
	return near
}

// answer returns the identity and the name of the load that had an address, or the reason why there
// is none.
func (m model) answer(addr uint64, during Interval) (identity, name string, reason Reason) {
	near := m.near(addr, during.From, during.To)
	for _, l := range near {
		if l.identity() != near[0].identity() {
			return "", "", ReasonAmbiguous
		}
	}
	for i := range near {
		from, to := near[i].from, m.until(&near[i], math.MinInt64)
		for _, next := range near[i+1:] {
			if next.from == to { // one load
				to = m.until(&next, to)
			}
		}
		switch {
		case during.From < from || to < during.To:
		default:
			return near[0].identity(), near[0].name, ReasonNone
		}
	}
	if m.isBlind(during.From, during.To) {
		return "", "", ReasonUnobserved
	}
	return "", "", ReasonUnresolved
}

// until returns the time until which a load was certain, at least least.
func (m model) until(l *load, least int64) int64 {
	certain := m[1].certain
	if l.isModule {
		certain = m[0].certain
	}
	return max(least, min(l.to, certain))
}

func (m model) clone() (c model) {
	for _, s := range m {
		o := *s
		o.blind, o.loads = slices.Clone(s.blind), nil
		for _, l := range s.loads {
			copied := *l
			o.loads = append(o.loads, &copied)
		}
		c = append(c, &o)
	}
	return c
}
