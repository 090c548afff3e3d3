package kmod

import (
	"maps"
	"os"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// initTime is how long the code of a module is taken to have run before the event
// that it was added: that is sent when its init function has returned, which takes
// some milliseconds, or as long as the hardware does that it waits for.
const initTime = time.Second

// exitTime is how long the code of a module is taken to be there after the event that
// it was removed: that is sent after its exit function, before its memory is given up.
const exitTime = time.Second

// when is what is known of when modules came and went: what the looks at the list
// and the events tell. Times are on the clock of lifetimes.
type when struct {
	looked  int64              // when the list was read that was taken over last; 0 if none was
	looking int64              // when the one is read that is being taken over
	missed  bool               // there may have been events since looked that nothing received
	hear    func() news        // returns what events told since the last time; nil if none do
	events  map[string]heard   // what they told since looked, by module
	coming  map[string]arrival // modules that were in the last list, but not live
}

// arrival is what is known of a module that is not initialized yet, or is about to go.
type arrival struct {
	identity
	absent int64 // the last look before it was in the list
	seen   int64 // the first at which it was
}

// is reports whether it is that of a load of a module. Its size becomes another when
// it is initialized.
func (a arrival) is(id identity) bool {
	return a.dir != nil && id.dir != nil && a.addr == id.addr && os.SameFile(a.dir, id.dir)
}

// now reads the clock of lifetimes.
func now() int64 { return perfring.Boottime.Now() }

// begin begins a look. What events told until then happened before it.
func (w *when) begin() news {
	n := w.news()
	w.looking = now()
	return n
}

// news returns what events told since the last time.
func (w *when) news() news {
	if w.hear == nil {
		return news{}
	}
	return w.hear()
}

// told takes over what events told.
func (w *when) told(n news) {
	w.missed = w.missed || n.missed
	if w.events == nil {
		w.events = make(map[string]heard)
	}
	for name, h := range n.heard {
		all := w.events[name]
		if all.removed <= w.looked {
			all.removed = h.removed
		}
		all.added = max(all.added, h.added)
		w.events[name] = all
	}
}

// tookOver ends a look. missed says that events may have been missed since it began.
func (w *when) tookOver(list []identity, missed bool) {
	coming := make(map[string]arrival)
	for _, id := range list {
		if id.live {
			continue
		}
		a := w.coming[id.name]
		if !a.is(id) {
			a = arrival{identity: id, absent: w.looked, seen: w.looking}
		}
		coming[id.name] = a
	}
	w.coming, w.looked, w.missed = coming, w.looking, missed
	maps.DeleteFunc(w.events, func(name string, h heard) bool {
		_, isComing := coming[name]
		return !isComing && max(h.added, h.removed) <= w.looked
	})
}

// began returns since when a module is certainly there that was not in the list
// before, and since when it may be. It was initialized before an event told of it,
// and its code ran before that.
func (w *when) began(m *module) (certain, possible int64) {
	certain = now()
	a := w.coming[m.name]
	if a.is(m.identity) {
		certain = a.seen
	} else {
		a = arrival{absent: w.looked}
	}
	if w.missed {
		return certain, a.absent // it may even have come and gone and come again
	}
	told := w.looking // none did until then
	if h := w.events[m.name]; h.added > a.absent {
		told = h.added
		certain = min(certain, h.added)
	}
	return certain, max(a.absent, min(certain, told)-int64(initTime))
}

// ended returns until when a module was certainly there that is not in the list any
// more, and until when it may have been: when the list was last read, it was; and until
// an event told that it was about to go. Others may have been in its place since then,
// that no look has seen.
func (w *when) ended(m *module) (certain, possible int64) {
	certain, possible = w.looked, now()
	if !w.missed {
		certain = w.looking // none did until then
		if h := w.events[m.name]; h.removed > w.looked {
			certain = min(certain, h.removed)
			possible = min(possible, h.removed+int64(exitTime))
		}
	}
	certain = max(certain, m.info.Valid.From)
	return certain, max(certain, possible)
}

// date says of the modules that are in the list since when they are there, if they
// were not in it before, and puts those into the history that are not in it any more.
func (k *known) date(modules []*module) {
	for _, m := range k.modules {
		if was := m.published; was != nil && !slices.Contains(modules, m) { // else it has no code
			until, latest := k.when.ended(m)
			slack := symtab.NewSlack(0, time.Duration(latest-until))
			slack.Before = m.info.Slack.Before
			k.past.add(was.Lived(symtab.Interval{From: m.info.Valid.From, To: until}, slack))
		}
	}
	for _, m := range modules {
		switch {
		case slices.Contains(k.modules, m):
		case k.when.looked == 0:
			m.info.Valid = symtab.Always // for all that is known
		default:
			from, earliest := k.when.began(m)
			earliest = max(earliest, k.past.freeSince(m.info.Start, m.info.End))
			m.info.Valid = symtab.Since(from)
			m.info.Slack = symtab.NewSlack(time.Duration(from-earliest), 0)
		}
	}
}
