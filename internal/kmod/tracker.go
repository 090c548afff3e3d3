// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"maps"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A tracker turns events about modules and lists of modules into lifetimes (contract 5.1, 5.2).
// It opens no file and reads no clock: its callers pass it all instants, on the clock of lifetimes.
type tracker struct {
	history *timeline.Builder
	changes symcache.Changes
	changed bool // something changed since the last table

	loads   map[string]*load   // the loaded modules, by name
	added   map[string]arrival // "add" events that were read, and that no list has confirmed, by name
	removed map[string]bool    // modules for which a "remove" event was read since the scan began

	lastEmpty int64 // the last instant at which the feed was empty
	lastScan  int64 // when the last scan that was applied began; 0 if there was none
	blind     bool  // modules may have been loaded or unloaded unseen after the last certain instant
	losses    int   // how often events were lost
}

// An arrival is an "add" event that was read.
type arrival struct {
	at          int64     // when it was read: the module was loaded then
	emptyBefore int64     // the last instant before that at which the feed was empty
	wall        time.Time // the same instant as at
}

func newTracker(limits timeline.Limits) *tracker {
	return &tracker{
		history: timeline.NewBuilder(limits), blind: true,
		loads: make(map[string]*load), added: make(map[string]arrival), removed: make(map[string]bool),
	}
}

// applyEvent applies an event about a module. at and wall are the instant when it was read.
func (t *tracker) applyEvent(action, name string, at int64, wall time.Time) {
	switch action {
	case "add":
		if l := t.loads[name]; l != nil && !t.blind {
			if !l.announced { // a list showed it before its event was read
				l.announced = true
				return
			}
			t.removed[name] = true
			t.endUnseen(l, at)
		}
		t.added[name] = arrival{at: at, emptyBefore: t.lastEmpty, wall: wall}
	case "remove":
		t.removed[name] = true
		if l := t.loads[name]; l != nil {
			t.endLoad(l, t.history.Certain(), wall)
		} else if a, ok := t.added[name]; ok { // no list has shown it, so its addresses are not known
			t.history.AddBlind(timeline.Interval{From: a.emptyBefore, To: at})
		}
		delete(t.added, name)
	}
}

// applyEmpty records that the feed was empty at an instant.
func (t *tracker) applyEmpty(at int64) {
	t.lastEmpty = at
	t.advanceCertain()
}

// advanceCertain moves the last certain instant forward. Everything is known up to the last instant at
// which the feed was empty, except for modules that were added and that no list has shown yet.
func (t *tracker) advanceCertain() {
	if t.blind {
		return
	}
	certain := t.lastEmpty
	for _, a := range t.added {
		certain = min(certain, a.emptyBefore)
	}
	t.history.SetCertain(max(certain, t.history.Certain()))
}

// applyLoss records that events were lost since the feed was last empty.
func (t *tracker) applyLoss() {
	t.losses++
	t.blind, t.changed = true, true
}

// A scan reads the list, and from sysfs everything about the new modules. This is the state of the
// tracker when the scan began.
type scan struct {
	began  int64 // the list was read later
	polled bool  // no events are read
	blind  bool  // a known load counts as the same only if its build shows that
	losses int   // how often events had been lost
	known  map[string]*load
}

// beginScan begins a scan. polled says that no events are read; then the time since the scan before is
// blind.
func (t *tracker) beginScan(now int64, polled bool) scan {
	clear(t.removed)
	t.blind = t.blind || polled
	return scan{began: now, polled: polled, blind: t.blind, losses: t.losses, known: maps.Clone(t.loads)}
}

// needsList reports whether a list must be read to establish what is certain.
func (t *tracker) needsList() bool { return t.blind || len(t.added) > 0 }

// applyScan applies the result of a scan that ended at an instant. shown has the names of all modules in
// the list that are or were live, and loads has the loads of the live ones. Events that were read since the scan began take
// precedence. If events were lost since then, applyScan applies nothing and reports false.
func (t *tracker) applyScan(s scan, shown map[string]bool, loads []*load, until int64) bool {
	if s.losses != t.losses {
		return false
	}
	certain := t.history.Certain()
	t.endMissingLoads(s, shown, loads, until)
	t.beginNewLoads(s, loads, until)
	maps.DeleteFunc(t.added, func(name string, a arrival) bool { return a.at < s.began || t.loads[name] != nil })
	if s.blind {
		t.history.AddBlind(timeline.Interval{From: certain, To: until})
		if !s.polled && t.lastScan != 0 {
			t.changes.Counts.Resyncs++
		}
	}
	for _, l := range t.loads {
		l.announced = l.announced || s.blind
	}
	t.blind, t.lastScan = false, s.began
	if s.polled {
		t.lastEmpty = s.began
	}
	t.advanceCertain()
	return true
}

// endMissingLoads ends the loads that the scan did not find any more.
func (t *tracker) endMissingLoads(s scan, shown map[string]bool, loads []*load, until int64) {
	found := make(map[string]*load, len(loads))
	for _, l := range loads {
		found[l.name] = l
	}
	for _, l := range t.loads {
		switch by := found[l.name]; {
		case by == l:
			if s.polled && l.buildID == "" {
				t.restartLifetime(l, until)
			}
		case s.blind:
			t.endLoad(l, t.history.Certain(), time.Time{})
		case !shown[l.name] || by != nil: // a "remove" event would have ended it
			if by != nil {
				by.announced = l.announced
			}
			t.endUnseen(l, until)
		default: // it is in the list but not live: it will be unloaded, and an event will say when
		}
	}
}

// endUnseen ends a load that turns out, at an instant, to have been unloaded, although no "remove" event was read: the
// events since the last scan prove nothing. The kernel sends none if a program had it send a synthetic one before
// (kobject_synth_uevent and __kobject_del in lib).
func (t *tracker) endUnseen(l *load, at int64) {
	t.endLoad(l, min(t.lastScan, t.history.Certain()), time.Time{})
	t.history.AddBlind(timeline.Interval{From: t.lastScan, To: at})
}

// restartLifetime begins the lifetime of a load anew. It is for a load that cannot be distinguished from
// the one that was loaded before: only that it is loaded now is certain.
func (t *tracker) restartLifetime(l *load, at int64) {
	m := t.imageOf(l)
	if m == nil {
		return
	}
	if again := m.WithLifetime(timeline.Since(at)); m.Lifetime.From < t.history.Certain() {
		t.history.Load(again)
	} else {
		t.history.Replace(m, again) // it was certainly loaded at no instant, so nothing is kept of it
	}
}

// beginNewLoads begins the loads that are new in the scan.
func (t *tracker) beginNewLoads(s scan, loads []*load, until int64) {
	var starts []uint64
	for _, l := range loads {
		starts = append(starts, l.starts()...)
	}
	slices.Sort(starts)
	for _, l := range loads {
		if t.loads[l.name] != nil || t.removed[l.name] {
			continue
		}
		from := until
		a, isAdded := t.added[l.name]
		l.announced = l.announced || isAdded
		if isAdded && !s.blind { // in a blind interval, it may be another load
			from, l.added = min(from, a.at), a.wall
		}
		t.beginLoad(l, starts, from)
	}
}

// beginLoad records a new load, which was certainly loaded since an instant. starts are the addresses
// at which modules begin, sorted.
func (t *tracker) beginLoad(l *load, starts []uint64, from int64) {
	l.fixEnd(starts)
	if l.hasCode() {
		m, err := l.image(new(symtab.Sorter), 0)
		if err != nil {
			l.info.Start, l.symbolsRead = 0, true // its code cannot be at these addresses
		} else {
			t.history.Load(m.WithLifetime(timeline.Since(from)))
		}
	}
	t.loads[l.name], t.changed = l, true
	t.changes.Note(symcache.KindLoad, 1, l.added)
}

// endLoad records that a load was certainly loaded only until an instant. wall is when its "remove" event
// was read, zero if none was.
func (t *tracker) endLoad(l *load, at int64, wall time.Time) {
	if m := t.imageOf(l); m != nil {
		t.history.Unload(m, at)
	}
	delete(t.loads, l.name)
	t.changed = true
	t.changes.Note(symcache.KindUnload, 1, wall)
}

// imageOf returns the image of a load that has not ended, nil if it has none.
func (t *tracker) imageOf(l *load) *timeline.Image {
	if m := t.history.At(l.info.Start); m != nil && m.Name() == l.name {
		return m
	}
	return nil
}

// withoutSymbols returns the loads whose symbols have not been read yet.
func (t *tracker) withoutSymbols() (loads []*load) {
	for _, l := range t.loads {
		if !l.symbolsRead {
			loads = append(loads, l)
		}
	}
	return loads
}

// applySymbols records the images with symbols of loads, except for loads that have ended since.
func (t *tracker) applySymbols(images map[*load]*timeline.Image) {
	for l, image := range images {
		if t.loads[l.name] != l {
			continue
		}
		l.symbolsRead, t.changed = true, true
		if m := t.imageOf(l); m != nil && image != nil {
			t.history.Replace(m, image.WithLifetime(m.Lifetime))
		}
		t.changes.Note(symcache.KindSymbols, 1, l.added)
	}
}

// table returns a table of all that is known at an instant. It evicts images that were unloaded too
// long before that instant.
func (t *tracker) table(now int64) *timeline.Table {
	t.changed = false
	t.history.Evict(now)
	return t.history.Table()
}

// degraded returns the error of a load from which something is missing, the first by name, or nil.
func (t *tracker) degraded() error {
	for _, name := range slices.Sorted(maps.Keys(t.loads)) {
		if err := t.loads[name].err; err != nil {
			return err
		}
	}
	return nil
}
