// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"time"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// Reason says why there is no answer.
type Reason uint8

// The reasons, in the order in which they are tested; see contract 5.4.
const (
	ReasonNone       Reason = iota // there is an answer
	ReasonAmbiguous                // several images had the address at about that time
	ReasonUnobserved               // images may have been loaded or unloaded unseen
	ReasonUnresolved               // no image had the address, or not for the whole interval
)

// String returns the reason's name, as in metrics; empty if there is an answer.
func (r Reason) String() string {
	return [...]string{"", "ambiguous", "unobserved", "unresolved"}[r]
}

// A Hit is what an address was during an interval.
type Hit struct {
	Image  *Image        // nil if there is no answer
	Symbol symtab.Symbol // the zero value if the image has none at the address
	Reason Reason        // why there is no answer
}

// Name returns the names of the symbol, which must exist.
func (h Hit) Name() *symtab.Name { return h.Image.SymbolName(h.Symbol) }

// unloadGrace is how near, in nanoseconds, the lifetime of another image may come to an interval
// (see contract 5.4): a program can run on for some milliseconds after the record of its unload.
const unloadGrace = int64(5 * time.Millisecond)

// At returns what an address was during an interval (contract 5.4): the image that had the address for the
// whole interval, if no other image had it at about that time. For every interval in same the answer is
// the same; same holds the interval, or is empty if parts of the interval have other answers. At does not
// allocate.
//
//	Q                        [────]
//	Q widened by 5 ms     [··────··]
//	A                ═══════════════════      the answer, as it holds Q
//	B      ══════┤ ·                          ended before the widened Q: it does not matter
//	C                              ╞═══════   touches the widened Q: with C, Q is ambiguous
func (s *Snapshot) At(addr uint64, during Interval) (hit Hit, same Interval) {
	if s == nil {
		return Hit{Reason: ReasonUnresolved}, Always
	}
	if s.core != nil && s.core.Contains(addr) {
		return Hit{Image: s.core, Symbol: s.core.Text.Lookup(addr)}, Always
	}
	return s.historyAt(addr, during)
}

// historyAt is At for an address outside of the core kernel.
func (s *Snapshot) historyAt(addr uint64, during Interval) (hit Hit, same Interval) {
	c := s.choose(addr, during)
	hit.Image, hit.Reason, same = c.decide(s.tables)
	if hit.Image != nil {
		hit.Symbol = hit.Image.Lookup(addr)
	}
	return hit, same
}

// choose collects the images that had an address at about an interval.
func (s *Snapshot) choose(addr uint64, during Interval) choice {
	c := newChoice(during)
	for _, t := range s.others {
		c.addFrom(t, addr)
	}
	return c
}

// Module returns the core kernel or a module by its name, spelled as the kernel spells it, if one load of
// that name lasted the whole interval and there was no other at about that time (see contract 2.1).
func (s *Snapshot) Module(name string, during Interval) (*Image, Reason) {
	if core := s.Core(); core != nil && name == KernelName {
		return core, ReasonNone
	}
	c := newChoice(during)
	for _, t := range s.Tables() {
		for _, m := range t.texts.byName[name] {
			if m.Lifetime.Overlaps(c.near) && c.isOpen() {
				c.add(t, m)
			}
		}
	}
	image, reason, _ := c.decide(s.Tables())
	return image, reason
}

// MayBeTrampoline reports whether an image that yields to others (see [Image.Yields]) has, or has had, one of the addresses
// [start, end). It looks up each of them.
func (s *Snapshot) MayBeTrampoline(start, end uint64) bool {
	if s == nil {
		return false
	}
	for _, t := range s.others {
		for addr := start; addr < end; addr++ {
			if m := t.images.loaded.at(addr); m != nil && m.Yields() || t.images.past.hasYielding(addr) {
				return true
			}
		}
	}
	return false
}

// A choice is the image that had an address during an interval, as long as there is only one.
type choice struct {
	during Interval
	near   Interval // during, widened by unloadGrace
	alone  Interval // holds near; only images that were added had the address in it

	image    *Image
	table    *Table   // of the image
	lifetime Interval // in which the image was certainly loaded; adjoining lifetimes of one load are one
	several  bool     // there are several images with different answers
	broken   bool     // none of the lifetimes so far holds during, and no later one can
	seen     int      // number of images
}

// maxSeen is the number of images after which a lookup that will have no answer ends, so that its cost does
// not grow with the history.
const maxSeen = 16

func newChoice(during Interval) choice {
	return choice{during: during, near: during.Widened(unloadGrace), alone: Always}
}

// addFrom adds the images of a table that had an address, in the order of their lifetimes.
func (c *choice) addFrom(t *Table, addr uint64) {
	loaded := t.images.loaded.at(addr)
	if loaded != nil && loaded.Lifetime.From <= c.near.From { // all that had the address before were unloaded by then
		c.alone.From = max(c.alone.From, loaded.Lifetime.From)
	} else if !c.addPast(t, addr) {
		return
	}
	if loaded != nil {
		c.addIfNear(t, loaded)
	}
}

// addPast is addFrom for the images that were unloaded. It reports whether a later image can change the answer.
func (c *choice) addPast(t *Table, addr uint64) bool {
	past := &t.images.past
	if past.used == 0 {
		return true
	}
	c.alone.From = max(c.alone.From, c.near.From)
	for m := past.next(addr, c.near.From); m != nil; m = past.next(addr, m.Lifetime.To) {
		if !c.addIfNear(t, m) {
			return false
		}
		if m.Lifetime.To >= c.near.To {
			c.alone.To = min(c.alone.To, m.Lifetime.To)
			return false
		}
	}
	return true
}

// addIfNear adds an image unless it was loaded later. It reports whether a later image can change the answer.
func (c *choice) addIfNear(t *Table, m *Image) bool {
	if m.Lifetime.From >= c.near.To {
		c.alone.To = min(c.alone.To, m.Lifetime.From)
		return false
	}
	c.add(t, m)
	return c.isOpen()
}

// add adds an image, in the order of lifetimes. Where an image that yields meets another, the address is
// the other's (see contract 3.5).
func (c *choice) add(t *Table, m *Image) {
	lifetime := m.certainLifetime(t, c.during)
	c.seen++
	switch {
	case c.image == nil, c.image.Yields() && !m.Yields():
		c.image, c.table, c.lifetime, c.several, c.broken = m, t, lifetime, false, false
	case m.Yields() && !c.image.Yields():
	case !sameAnswer(c.image, m):
		c.several = true
	case lifetime.From <= c.lifetime.To && c.lifetime.From <= lifetime.To:
		c.lifetime = c.lifetime.Union(lifetime)
	case !c.lifetime.Holds(c.during): // there is a gap between the two
		c.image, c.table, c.lifetime = m, t, lifetime
		c.broken = lifetime.From > c.during.From
	}
}

// isOpen reports whether a further image can change the answer, or few have been added.
func (c *choice) isOpen() bool {
	switch {
	case c.several:
		return c.image.Yields() && c.seen <= maxSeen
	case c.broken:
		return c.seen <= maxSeen // a further image may be of other code
	}
	return true
}

// decide returns the image that had the address for the whole interval, or why none certainly had. same is
// as in Snapshot.At.
func (c *choice) decide(tables []*Table) (image *Image, reason Reason, same Interval) {
	same = c.alone.Widened(-unloadGrace)
	switch {
	case c.several:
		return nil, ReasonAmbiguous, Interval{}
	case c.image != nil && c.lifetime.Holds(c.during):
		return c.image, ReasonNone, c.atLeastDuring(same.And(c.image.certainLifetime(c.table, c.during)))
	case c.during == Present:
		return nil, ReasonUnresolved, c.during
	}
	reason, sight := sightOf(tables, c.during)
	if c.image != nil || sight.IsEmpty() {
		return nil, reason, Interval{} // part of the interval has an answer, or another reason
	}
	return nil, reason, c.atLeastDuring(same.And(sight))
}

// atLeastDuring returns an interval, or c.during if that does not lie in it.
func (c *choice) atLeastDuring(i Interval) Interval {
	if i.Holds(c.during) {
		return i
	}
	return c.during
}

// sightOf returns why nothing is known of an interval in which no image had an address: whether a table may
// have missed one. For every interval in around the reason is the same; around is empty if parts of the
// interval have another one.
func sightOf(tables []*Table, during Interval) (reason Reason, around Interval) {
	reason, around = ReasonUnresolved, Always
	for _, t := range tables {
		blind, same := t.blindAround(during)
		switch {
		case !blind:
			around = around.And(same)
		case same.Holds(during):
			return ReasonUnobserved, same
		default:
			reason = ReasonUnobserved
		}
	}
	if reason == ReasonUnobserved {
		return reason, Interval{}
	}
	return reason, around
}

// certainLifetime returns the interval in which an image of a table was certainly loaded (contract 5.1).
func (m *Image) certainLifetime(t *Table, during Interval) Interval {
	lifetime := m.Lifetime
	if during != Present {
		lifetime.To = min(lifetime.To, t.certain)
	}
	return lifetime
}
