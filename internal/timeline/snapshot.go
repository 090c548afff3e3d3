// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"math"
	"slices"
)

// A Snapshot is what all sources know at one moment. It is immutable. A nil
// Snapshot knows nothing.
type Snapshot struct {
	tables []*Table
	core   *Image   // in which nearly all look-ups end; nil if it is not known
	others []*Table // those that know more than the core kernel
	packs  *Table   // of a snapshot of packs, else nil
}

// NewSnapshot returns a snapshot of the tables. Tables that are nil, of sources
// that have not published yet, are left out.
func NewSnapshot(tables ...*Table) *Snapshot {
	s := &Snapshot{}
	for _, t := range tables {
		if t == nil {
			continue
		}
		s.tables = append(s.tables, t)
		if core := t.texts.byName[KernelName]; len(core) > 0 && core[0].Lifetime == Always {
			s.core = core[0]
		} else {
			s.others = append(s.others, t)
		}
	}
	return s
}

// Tables returns the tables. The slice must not be changed.
func (s *Snapshot) Tables() []*Table {
	if s == nil {
		return nil
	}
	return s.tables
}

// Core returns the core kernel, nil if it is not known.
func (s *Snapshot) Core() *Image {
	if s == nil {
		return nil
	}
	return s.core
}

// noLandmarks are those of a core kernel that is not known: trampolines may share their pages.
var noLandmarks = Landmarks{SharedTrampolines: true}

// Landmarks returns those of the core kernel; if it is not known, those that name nothing.
// They must not be changed.
func (s *Snapshot) Landmarks() *Landmarks {
	if core := s.Core(); core != nil && core.Landmarks != nil {
		return core.Landmarks
	}
	return &noLandmarks
}

// IsPartial reports whether there may be code that came before a source began, and is not known.
func (s *Snapshot) IsPartial() bool {
	return slices.ContainsFunc(s.Tables(), func(t *Table) bool { return t.partial })
}

// Reason says why there is no answer.
type Reason uint8

// The reasons, first the one that wins.
const (
	ReasonNone       Reason = iota // there is an answer
	ReasonAmbiguous                // several images had the address at about that time
	ReasonUnobserved               // images may have come or gone unseen
	ReasonUnresolved               // no image had the address, or not for all of the interval
)

// String returns the reason's name, as in metrics; empty if there is an answer.
func (r Reason) String() string {
	return [...]string{"", "ambiguous", "unobserved", "unresolved"}[r]
}

// A Hit is what an address was during an interval.
type Hit struct {
	Image  *Image // nil if there is no answer
	Symbol Symbol // the zero value if Image has none there
	Reason Reason // why there is no answer
	Whole  bool   // the same holds for every interval within this one
}

// At returns what an address was during an interval (contract 5.4): the image that had it
// for all of the interval, if no other had it at about that time. It does not allocate.
func (s *Snapshot) At(addr uint64, during Interval) Hit {
	if s == nil {
		return Hit{Reason: ReasonUnresolved, Whole: true}
	}
	if s.core != nil && s.core.Contains(addr) {
		return Hit{Image: s.core, Symbol: s.core.Lookup(addr), Whole: true}
	}
	var only *segment
	var table *Table
	for _, t := range s.others {
		if found := t.root.at(addr); found != nil {
			if only != nil {
				hit, _ := s.choose(addr, during)
				return hit
			}
			only, table = found, t
		}
	}
	if only != nil && only.live != nil && during.To <= table.certain && only.since <= during.From &&
		(len(only.past) == 0 || during.From > math.MinInt64+guard && only.since <= during.From-guard) {
		return Hit{Image: only.live, Symbol: only.symbol(addr), Whole: true}
	}
	hit, _ := s.choose(addr, during)
	return hit
}

// Around returns what At does, and an interval that holds the given one: for all intervals
// in it, the answer is the same. It is empty if there is none.
func (s *Snapshot) Around(addr uint64, during Interval) (hit Hit, span Interval) {
	if s == nil || s.core != nil && s.core.Contains(addr) {
		return s.At(addr, during), Always
	}
	hit, c := s.choose(addr, during)
	switch {
	case !hit.Whole:
		return hit, Interval{}
	case during == Present:
		return hit, during
	}
	span = c.alone.Widened(-guard)
	if hit.Image != nil {
		span = span.and(hit.Image.certainly(c.table, during))
	} else {
		for _, t := range s.others {
			if blind, around := t.blindAround(during); blind == (hit.Reason == ReasonUnobserved) {
				span = span.and(around)
			}
		}
	}
	if !span.Holds(during) {
		return hit, during
	}
	return hit, span
}

// choose is At for what is not in the core kernel. It returns the choice as well.
func (s *Snapshot) choose(addr uint64, during Interval) (Hit, choice) {
	c := choice{during: during, wide: during.Widened(guard), alone: Always}
	for _, t := range s.others {
		if found := t.root.at(addr); found != nil {
			c.alone = c.alone.and(found.overlapping(c.wide, func(m *Image) bool {
				c.add(t, m)
				return c.isOpen()
			}))
		}
	}
	m, reason, whole := s.settle(&c)
	if m == nil {
		return Hit{Reason: reason, Whole: whole}, c
	}
	return Hit{Image: m, Symbol: m.Lookup(addr), Whole: true}, c
}

// certainly returns when an image of a table was certainly there.
func (m *Image) certainly(t *Table, during Interval) Interval {
	lifetime := m.Lifetime
	if m.IsLive() && during != Present {
		lifetime.To = t.certain
	}
	return lifetime
}

// choice is the image that had an address, and whether there are several.
type choice struct {
	during, wide Interval
	alone        Interval // around wide, between the images before and after it
	image        *Image
	table        *Table   // that has the image
	lifetime     Interval // for which the image certainly was there
	several      bool
	long         bool // image was announced longer than it is, so others come first
	broken       bool // none of several lifetimes holds the interval, nor will one that comes later
	seen         int
}

// few is how many images a look-up looks at before it gives up with several of them, so that what
// it costs does not grow with the history.
const few = 16

// add adds an image. Where one that was announced longer than it is meets another, the
// address is the other's (contract 3.5).
func (c *choice) add(t *Table, m *Image) {
	lifetime := m.certainly(t, c.during)
	long := m.IsLong()
	c.seen++
	switch {
	case c.image == nil, c.long && !long:
		c.image, c.table, c.lifetime, c.several, c.long, c.broken = m, t, lifetime, false, long, false
	case long && !c.long:
	case !sameAnswer(c.image, m):
		c.several = true
	case lifetime.From <= c.lifetime.To && c.lifetime.From <= lifetime.To:
		c.lifetime = c.lifetime.Hull(lifetime)
	case !c.lifetime.Holds(c.during): // there is a gap between the two
		c.image, c.table, c.lifetime = m, t, lifetime
		c.broken = lifetime.From > c.during.From
	}
}

// isOpen reports whether a later image may matter, or few have been looked at.
func (c *choice) isOpen() bool {
	switch {
	case c.several:
		return c.long && c.seen <= few
	case c.broken:
		return c.seen <= few // one may be of other code
	}
	return true
}

// settle returns the image that had the address for all of the interval, or why none is
// certain, and whether the same holds for every interval within this one.
func (s *Snapshot) settle(c *choice) (m *Image, reason Reason, whole bool) {
	switch {
	case c.several:
		return nil, ReasonAmbiguous, false
	case c.image != nil && c.lifetime.Holds(c.during):
		return c.image, ReasonNone, true
	case c.during == Present:
		return nil, ReasonUnresolved, true
	}
	reason = ReasonUnresolved
	whole = c.image == nil
	for _, t := range s.Tables() {
		if blind, around := t.blindAround(c.during); blind {
			if reason = ReasonUnobserved; around.Holds(c.during) && c.image == nil {
				return nil, reason, true
			}
			whole = false
		}
	}
	return nil, reason, whole
}

// MayBeLong reports whether an image that was announced longer than it is may have had one of
// the addresses [start, end) at about an interval; see [Image.IsLong]. Where there were many
// images, it does not look at all of them.
func (s *Snapshot) MayBeLong(start, end uint64, during Interval) (may bool) {
	if s == nil {
		return false
	}
	seen := 0
	for _, t := range s.others {
		t.root.each(start, end, func(found *segment) bool {
			found.overlapping(during.Widened(guard), func(m *Image) bool {
				seen++
				may = may || m.IsLong() || seen > few
				return !may
			})
			return !may
		})
	}
	return may
}

// Named returns the core kernel or a module by its name, spelled as the kernel spells it,
// if one load of that name was there for all of an interval and no other at about that
// time.
func (s *Snapshot) Named(name string, during Interval) (m *Image, reason Reason) {
	if core := s.Core(); core != nil && name == KernelName {
		return core, ReasonNone
	}
	c := choice{during: during, wide: during.Widened(guard)}
	for _, t := range s.Tables() {
		for _, m := range t.texts.byName[name] {
			if m.Lifetime.Overlaps(c.wide) && c.isOpen() {
				c.add(t, m)
			}
		}
	}
	m, reason, _ = s.settle(&c)
	return m, reason
}

// IsModule reports whether a module of that name is there or in the history.
func (s *Snapshot) IsModule(name string) bool {
	if name == KernelName {
		return false // the core kernel
	}
	for _, t := range s.Tables() {
		if len(t.texts.byName[name]) > 0 {
			return true
		}
	}
	return false
}

// ByBuildID returns the core kernel or module with that GNU build id, in lower-case hex:
// of several loads, the last.
func (s *Snapshot) ByBuildID(id string) (*Image, bool) {
	for _, t := range s.Tables() {
		if m, ok := t.texts.byBuild[id]; ok {
			return m, true
		}
	}
	return nil, false
}

// ByFileID returns the core kernel or module with that file ID, or with that file ID of
// where it was loaded (see [Image.LoadedFileID]): of several loads, the last.
func (s *Snapshot) ByFileID(id string) (*Image, bool) {
	for _, t := range s.Tables() {
		if m, ok := t.texts.byFile[id]; ok {
			return m, true
		}
	}
	return nil, false
}

// KnowsFunctionID reports whether a file ID is that of code without symbols of its own
// (contract 4.3) that is there or in the history.
func (s *Snapshot) KnowsFunctionID(id string) bool {
	for _, t := range s.Tables() {
		if t.ids.has(id) {
			return true
		}
	}
	return false
}
