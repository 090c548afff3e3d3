// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Ledger keeps the lifetimes of the images of one source. It is not safe for concurrent use; its tables are.
type Ledger struct {
	history *timeline.Builder
	counts  Counts
	changed bool

	// Losses, as the union of their intervals. A loss goes from the first to the third of these; AbortList takes it back
	// to the first:
	//
	//	Missed ─► beforeList ─ EndList ─► settled
	//	Missed, between BeginList and EndList ─► duringList ─ EndList ─► beforeList
	beforeList timeline.Interval // the next list settles them
	duringList timeline.Interval // since the list that is being read began
	settled    timeline.Interval // by the last list that confirmed all images
	listing    bool              // a list is being read

	limit         int64    // an upper bound of what is certain, whatever events have arrived
	learned       int64    // the highest since of Learn
	recentUnloads []unload // in the order in which they were applied
}

// An unload is the event of an unload.
type unload struct {
	start uint64 // of the image
	at    int64
}

// Counts are numbers of changes.
type Counts struct{ Loaded, Unloaded, Learned int }

// unloadsKept is how long the event of an unload is kept, so that a list which was read before it does not bring the
// image back.
const unloadsKept = int64(time.Second)

// New returns a ledger without images, to which nothing is certain yet.
func New(limits timeline.Limits) *Ledger {
	return &Ledger{history: timeline.NewBuilder(limits), limit: math.MaxInt64}
}

// At returns the image that is loaded at an address, nil if there is none.
func (l *Ledger) At(addr uint64) *timeline.Image { return l.history.At(addr) }

// IsFree reports whether no image is loaded at addresses in [start, end).
func (l *Ledger) IsFree(start, end uint64) bool { return l.history.IsFree(start, end) }

// Images returns the images that are loaded, in the order of their addresses.
func (l *Ledger) Images() []*timeline.Image { return l.history.Loaded() }

// Certain returns the instant up to which everything is known that the events and lists so far can show.
func (l *Ledger) Certain() int64 { return l.history.Certain() }

// Loaded applies the event of a load, or what a list shows: an image was loaded when its lifetime begins.
func (l *Ledger) Loaded(m *timeline.Image) {
	l.history.Load(m)
	l.counts.Loaded++
	l.changed = true
}

// Unloaded applies the event of an unload: the image that starts at an address was unloaded at an instant. Unloaded
// reports whether an image was loaded there. If events were lost since it was loaded, the event may be about another
// load, so the image was certainly loaded only until the loss began.
func (l *Ledger) Unloaded(start uint64, at int64) bool {
	l.recentUnloads = append(l.recentUnloads, unload{start, at})
	m := l.history.At(start)
	if m == nil || m.Start != start || m.Lifetime.From > at {
		return false
	}
	if loss := l.Loss(); m.Lifetime.From < loss.To && !loss.IsEmpty() {
		at = min(at, loss.From)
	}
	l.End(m, at)
	return true
}

// WasUnloaded reports whether there was the event of an unload, at or after an instant, of an image that started at an
// address. It covers the last second, and the time since the list that is being read began.
func (l *Ledger) WasUnloaded(start uint64, since int64) bool {
	return slices.ContainsFunc(l.recentUnloads, func(u unload) bool { return u.start == start && u.at >= since })
}

// AnyUnloaded reports whether there was the event of an unload at or after an instant. It covers the same time as WasUnloaded.
func (l *Ledger) AnyUnloaded(since int64) bool {
	return slices.ContainsFunc(l.recentUnloads, func(u unload) bool { return u.at >= since })
}

// End records that a loaded image was certainly loaded only until an instant.
func (l *Ledger) End(m *timeline.Image, at int64) {
	l.history.Unload(m, at)
	l.counts.Unloaded++
	l.changed = true
}

// Learn puts an image in the place of one about which more became known, from events or lists up to an instant. Missed
// takes it back if events before that instant turn out to be lost.
func (l *Ledger) Learn(old, with *timeline.Image, since int64) {
	l.learned = max(l.learned, since)
	l.history.Replace(old, with)
	l.counts.Learned++
	l.changed = true
}

// Missed records that events of some intervals may be lost. A loss that a list has settled may be reported again.
func (l *Ledger) Missed(losses ...timeline.Interval) {
	var news []timeline.Interval
	for _, loss := range losses {
		l.history.AddBlind(loss)
		if !l.settled.Holds(loss) {
			l.history.TruncateLifetimes(loss)
			l.addLoss(loss)
			news = append(news, loss)
		}
		l.Complete(loss.From)
		l.changed = true
	}
	l.dropStale(news)
}

func (l *Ledger) addLoss(loss timeline.Interval) {
	if l.listing {
		l.duringList = union(l.duringList, loss)
	} else {
		l.beforeList = union(l.beforeList, loss)
	}
}

// dropStale ends the images about which something was learned after one of these losses began, before it was reported.
// They were certainly loaded until then; the next list shows the ones that still are.
func (l *Ledger) dropStale(losses []timeline.Interval) {
	if !slices.ContainsFunc(losses, func(loss timeline.Interval) bool { return loss.From < l.learned }) {
		return
	}
	for _, m := range l.history.Loaded() {
		certain := int64(math.MaxInt64)
		for _, loss := range losses {
			if m.Lifetime.From < loss.To {
				certain = min(certain, loss.From)
			}
		}
		if m.NamedSince > certain || m.Program != nil && m.Program.Since > certain {
			l.End(m, certain)
		}
	}
}

// Complete records that all events up to an instant were applied, except for lost ones.
func (l *Ledger) Complete(until int64) {
	certain := max(l.history.Certain(), until)
	if loss := l.Loss(); !loss.IsEmpty() {
		certain = min(until, loss.From) // which may be earlier than before: losses are reported late
	}
	l.history.SetCertain(min(certain, l.limit))
	if !l.listing {
		l.forgetUnloads(until - unloadsKept)
	}
}

// forgetUnloads forgets the events of unloads up to the last one that was applied before an instant.
func (l *Ledger) forgetUnloads(before int64) {
	kept := slices.IndexFunc(l.recentUnloads, func(u unload) bool { return u.at > before })
	if kept < 0 {
		kept = len(l.recentUnloads)
	}
	l.recentUnloads = l.recentUnloads[kept:]
}

// Limit sets an instant after which nothing is certain, math.MaxInt64 for none.
func (l *Ledger) Limit(at int64) {
	l.limit = at
	l.Complete(l.history.Certain())
}

// Loss returns the union of the losses that no list has settled, empty if there are none.
func (l *Ledger) Loss() timeline.Interval { return union(l.beforeList, l.duringList) }

// A List is a list of the loaded images, as it was read.
type List struct {
	Began int64 // before the first entry was read
	Read  int64 // after the last entry was read; the images that it shows were loaded then

	// Shows reports whether the list shows an image. If it is nil, there is no list, and there never will be.
	Shows func(m *timeline.Image) bool

	// Covers reports whether the list shows images of this kind.
	Covers func(m *timeline.Image) bool
}

// BeginList records that a list will be read. EndList or AbortList must follow.
func (l *Ledger) BeginList() { l.listing = true }

// AbortList records that the list was not read. The next one settles all losses up to then.
func (l *Ledger) AbortList() {
	l.beforeList, l.duringList = l.Loss(), timeline.Interval{}
	l.listing = false
}

// EndList settles the losses before a list, after all events up to the end of the list were applied. An image from
// before the end of these losses that the list does not show was certainly loaded only until they began. EndList
// reports false, and settles nothing, if events that may be part of these losses were lost while the list was read.
func (l *Ledger) EndList(list List) bool {
	loss, later := l.beforeList, l.duringList
	if !later.IsEmpty() && later.From < loss.To {
		l.AbortList()
		return false
	}
	l.listing, l.beforeList, l.duringList = false, later, timeline.Interval{}
	if loss.IsEmpty() {
		return true
	}
	confirmed := list.Shows != nil
	for _, m := range l.history.Loaded() {
		isShown := list.Shows != nil && list.Shows(m)
		isCovered := list.Shows != nil && list.Covers(m)
		switch {
		case isShown, m.Lifetime.From >= max(loss.To, list.Began):
		case m.Lifetime.From < loss.To, isCovered:
			l.End(m, loss.From)
		default:
			confirmed = false // it was loaded between the losses and the list, which does not cover it
		}
	}
	if confirmed {
		l.settled = loss
	}
	l.history.AddBlind(timeline.Interval{From: loss.From, To: max(loss.To, list.Read)})
	return true
}

// union returns the shortest interval that holds two others; either may be empty.
func union(a, b timeline.Interval) timeline.Interval {
	switch {
	case a.IsEmpty():
		return b
	case b.IsEmpty():
		return a
	}
	return a.Union(b)
}

// Evict forgets the images that were unloaded longer ago than the limits allow. The time before becomes blind.
func (l *Ledger) Evict(now int64) { l.changed = l.history.Evict(now) || l.changed }

// SetPartial says whether images may be loaded that neither an event nor a list will show.
func (l *Ledger) SetPartial(partial bool) { l.history.SetPartial(partial) }

// SetTraced sets the functions that trampolines belong to. The map must not change afterwards.
func (l *Ledger) SetTraced(functions map[timeline.TrampolineKey]timeline.TracedFunction) {
	l.history.SetTraced(functions)
	l.changed = true
}

// Changed reports whether there were changes since the last table.
func (l *Ledger) Changed() bool { return l.changed }

// Table returns a table of the lifetimes.
func (l *Ledger) Table() *timeline.Table {
	l.changed = false
	return l.history.Table()
}

// TakeCounts returns the numbers of changes since the last call.
func (l *Ledger) TakeCounts() Counts {
	counts := l.counts
	l.counts = Counts{}
	return counts
}
