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

// record is what lists and events say of the loads of modules: which are there, and of
// all the lifetimes (see contract 5.1 and 5.2). Instants are those of the clock
// of lifetimes.
type record struct {
	history *timeline.History
	changes symcache.Changes
	changed bool // something changed since the last table

	loads   map[string]*load   // that are there, by name
	added   map[string]arrival // of which an "add" event was read, and that no list has confirmed
	removed map[string]bool    // of which a "remove" event was read since the scan began

	empty  int64 // the last instant at which the feed was empty
	listed int64 // when the last list was read
	blind  bool  // something may have come or gone unseen since what is certain
	losses int
}

// arrival is what an "add" event says.
type arrival struct {
	at    int64     // when it was read: the module was there
	after int64     // the last instant before that at which the feed was empty
	since time.Time // at
}

func newRecord(limits timeline.Limits) *record {
	return &record{
		history: timeline.NewHistory(limits), blind: true,
		loads: make(map[string]*load), added: make(map[string]arrival), removed: make(map[string]bool),
	}
}

// event applies an event about a module, read at an instant.
func (r *record) event(action, name string, at int64, since time.Time) {
	switch action {
	case "add":
		if r.loads[name] == nil || r.blind { // else the list showed it before its event was read
			r.added[name] = arrival{at: at, after: r.empty, since: since}
		}
	case "remove":
		r.removed[name] = true
		if l := r.loads[name]; l != nil {
			r.unload(l, r.history.Certain(), since)
		} else if a, ok := r.added[name]; ok { // it came and went, and where it was is not known
			r.history.AddBlind(timeline.Interval{From: a.after, To: at})
		}
		delete(r.added, name)
	}
}

// emptied says that the feed was empty at an instant.
func (r *record) emptied(at int64) {
	r.empty = at
	r.advance()
}

// advance moves what is certain forward: nothing is missing up to the last instant at which
// the feed was empty, except what was added and not listed yet.
func (r *record) advance() {
	if r.blind {
		return
	}
	certain := r.empty
	for _, a := range r.added {
		certain = min(certain, a.after)
	}
	r.history.SetCertain(max(certain, r.history.Certain()))
}

// lost says that events were lost since the feed was empty.
func (r *record) lost() {
	r.losses++
	r.blind, r.changed = true, true
}

// begin begins a scan. A scan without events between it and the one before is blind.
func (r *record) begin(now int64, polled bool) scan {
	clear(r.removed)
	r.blind = r.blind || polled
	return scan{from: now, polled: polled, blind: r.blind, losses: r.losses, known: maps.Clone(r.loads)}
}

// pending reports whether the list has to be read to know what is certain.
func (r *record) pending() bool { return r.blind || len(r.added) > 0 }

// apply applies what a scan that ended at an instant has seen: the names in the list, live
// or not, and of those that are live, their loads. Events that were read since have
// precedence. It reports false if events were lost meanwhile: then it applies nothing.
func (r *record) apply(k scan, shown map[string]bool, loads []*load, until int64) bool {
	if k.losses != r.losses {
		return false
	}
	certain := r.history.Certain()
	r.applyUnloads(k, shown, loads, until)
	r.applyLoads(k, loads, until)
	maps.DeleteFunc(r.added, func(name string, a arrival) bool { return a.at < k.from || r.loads[name] != nil })
	if k.blind {
		r.history.AddBlind(timeline.Interval{From: certain, To: until})
		if !k.polled && r.listed != 0 {
			r.changes.Counts.Resyncs++
		}
	}
	r.blind, r.listed = false, k.from
	if k.polled {
		r.empty = k.from
	}
	r.advance()
	return true
}

// applyUnloads ends the loads that are not there any more.
func (r *record) applyUnloads(k scan, shown map[string]bool, loads []*load, until int64) {
	here := make(map[string]*load, len(loads))
	for _, l := range loads {
		here[l.name] = l
	}
	for _, l := range r.loads {
		switch by := here[l.name]; {
		case by == l:
			if k.polled && l.buildID == "" {
				r.restart(l, until)
			}
		case k.blind:
			r.unload(l, r.history.Certain(), time.Time{})
		case !shown[l.name] || by != nil: // its event should have been read: do not trust them
			r.unload(l, min(r.listed, r.history.Certain()), time.Time{})
			r.history.AddBlind(timeline.Interval{From: r.listed, To: until})
		default: // it is about to go, and an event will say when
		}
	}
}

// restart records that a load is there that cannot be distinguished from the one that was there
// before: nothing is certain but that it is there now.
func (r *record) restart(l *load, at int64) {
	m := r.image(l)
	if m == nil {
		return
	}
	if again := m.WithLifetime(timeline.Since(at)); m.Lifetime.From < r.history.Certain() {
		r.history.Load(again)
	} else {
		r.history.Replace(m, again) // it never was certain
	}
}

// applyLoads begins the loads that are new.
func (r *record) applyLoads(k scan, loads []*load, until int64) {
	var starts []uint64
	for _, l := range loads {
		starts = append(starts, l.starts()...)
	}
	slices.Sort(starts)
	for _, l := range loads {
		if r.loads[l.name] != nil || r.removed[l.name] {
			continue
		}
		from := until
		if a, ok := r.added[l.name]; ok && !k.blind { // or it may be another load
			from, l.since = min(from, a.at), a.since
		}
		r.load(l, starts, from)
	}
}

// load records a load.
func (r *record) load(l *load, starts []uint64, from int64) {
	l.settle(starts)
	if l.hasCode() {
		m, err := l.image(new(symtab.Sorter), 0)
		if err != nil {
			l.info.Start, l.named = 0, true // it cannot be there
		} else {
			r.history.Load(m.WithLifetime(timeline.Since(from)))
		}
	}
	r.loads[l.name], r.changed = l, true
	r.changes.Note(symcache.KindLoad, 1, l.since)
}

// unload records that a load certainly was there until an instant.
func (r *record) unload(l *load, at int64, since time.Time) {
	if m := r.image(l); m != nil {
		r.history.Unload(m, at)
	}
	delete(r.loads, l.name)
	r.changed = true
	r.changes.Note(symcache.KindUnload, 1, since)
}

// image returns the image of a load that is there, nil if it has none.
func (r *record) image(l *load) *timeline.Image {
	if m := r.history.At(l.info.Start); m != nil && m.Name() == l.name {
		return m
	}
	return nil
}

// unnamed returns the loads whose symbols were not read yet.
func (r *record) unnamed() (loads []*load) {
	for _, l := range r.loads {
		if !l.named {
			loads = append(loads, l)
		}
	}
	return loads
}

// name records loads with their symbols, unless they have gone meanwhile.
func (r *record) name(images map[*load]*timeline.Image) {
	for l, image := range images {
		if r.loads[l.name] != l {
			continue
		}
		l.named, r.changed = true, true
		if m := r.image(l); m != nil && image != nil {
			r.history.Replace(m, image.WithLifetime(m.Lifetime))
		}
		r.changes.Note(symcache.KindSymbols, 1, l.since)
	}
}

// table returns what is known, and forgets what was unloaded too long before now.
func (r *record) table(now int64) *timeline.Table {
	r.changed = false
	r.history.Evict(now)
	return r.history.Table()
}

// degraded says what is missing of the first module of which something is.
func (r *record) degraded() error {
	for _, name := range slices.Sorted(maps.Keys(r.loads)) {
		if err := r.loads[name].err; err != nil {
			return err
		}
	}
	return nil
}
