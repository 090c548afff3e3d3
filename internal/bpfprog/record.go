// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"math"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// record is what is known of images: what records of the kernel, lists of programs and
// the end of /proc/kallsyms have shown. It makes no system call but to read the clock.
// A Source guards it with a mutex.
type record struct {
	trampolines bool // and pages are wanted, too
	images
	losses  losses
	limit   int64    // nothing is certain after it, whatever records say; farFuture if there is no limit
	unloads []unload // lately, and all since a list or a reading of kallsyms began
	tasks   tasks
}

// An unload is that of the image that began at an address.
type unload struct {
	addr uint64
	at   int64
}

// farFuture is later than any instant.
const farFuture = math.MaxInt64

func newRecord(trampolines bool, limits timeline.Limits) *record {
	return &record{
		trampolines: trampolines,
		limit:       farFuture,
		images: images{
			history: timeline.NewHistory(limits),
			changes: changes{now: perfring.Boottime.Now},
		},
		tasks: tasks{loaded: make(map[uint32][]*timeline.Image)},
	}
}

// apply applies what the rings held.
func (r *record) apply(b *perfring.Batch) {
	r.lose(b.Blind...)
	r.LostRecords += int64(b.Lost)
	for i := range b.Records {
		switch rec := &b.Records[i]; {
		case rec.Type == perfring.TypeKsymbol && rec.Symbol.Unregister:
			r.unloaded(rec)
		case rec.Type == perfring.TypeKsymbol:
			r.loaded(rec)
		case rec.Type == perfring.TypeBPFEvent && rec.Program.Event == perfring.ProgramLoad:
			r.identified(rec)
		}
	}
	if len(b.Blind) > 0 {
		clear(r.tasks.loaded)
	}
	r.advance(b.Certain)
}

// advance notes that records are complete until an instant, but for losses.
func (r *record) advance(until int64) {
	certain := max(r.history.Certain(), until)
	if r.losses.any() {
		certain = min(until, r.losses.from())
	}
	r.history.SetCertain(min(certain, r.limit))
	if !r.losses.listing {
		first := slices.IndexFunc(r.unloads, func(u unload) bool { return u.at > until-int64(time.Second) })
		if first < 0 {
			first = len(r.unloads)
		}
		r.unloads = r.unloads[first:]
	}
}

// lose notes that records of intervals may be missing.
func (r *record) lose(intervals ...perfring.Interval) {
	var news []timeline.Interval
	for _, blind := range intervals {
		i := timeline.Interval(blind)
		r.history.AddBlind(i)
		if !r.losses.settled.Holds(i) { // else it is announced again
			r.history.TruncateLifetimes(i)
			news = append(news, i)
		}
		r.losses.add(i)
		r.tasks.lost = max(r.tasks.lost, i.To)
		r.advance(i.From)
		r.changed = true
	}
	r.doubt(news)
}

// doubt ends functions of which something has become known only since an interval began in which
// others may have come unseen, until the next list.
func (r *record) doubt(intervals []timeline.Interval) {
	if !slices.ContainsFunc(intervals, func(i timeline.Interval) bool { return i.From < r.since }) {
		return
	}
	for _, m := range r.history.Loaded() {
		since := int64(math.MaxInt64)
		for _, i := range intervals {
			if m.Lifetime.From < i.To {
				since = min(since, i.From)
			}
		}
		if m.NamedSince > since || m.Program != nil && m.Program.Since > since {
			r.end(m, since, 0)
		}
	}
}

// loaded applies the record of a load.
func (r *record) loaded(rec *perfring.Record) {
	m := r.imageOf(rec)
	if m == nil {
		return
	}
	if there := r.history.At(m.Start); r.isKnown(there, m) {
		if there.Name() != m.Name() {
			r.name(there, m.Name(), rec.Time)
		}
		return
	}
	r.load(m, rec.Time)
	if there := r.history.At(m.Start); m.Origin == timeline.OriginBPF && there != nil && there.Lifetime.From >= m.Lifetime.From {
		r.tasks.announce(rec, there)
	}
}

// isKnown reports whether the record of a function's load is about the one that is there: a
// list has shown it, or another record, of which Linux 5.10 has two.
func (r *record) isKnown(there, m *timeline.Image) bool {
	return there != nil && there.Start == m.Start && there.End == m.End && m.Origin == timeline.OriginBPF &&
		!r.losses.any() && (there.Name() == m.Name() || there.MayBeNameless)
}

// unloaded applies the record of an unload.
func (r *record) unloaded(rec *perfring.Record) {
	addr, at := rec.Symbol.Addr, rec.Time
	r.unloads = append(r.unloads, unload{addr, at})
	there := r.history.At(addr)
	if there == nil || there.Start != addr || there.Lifetime.From > at {
		return
	}
	if r.losses.any() && there.Lifetime.From < r.losses.to() {
		at = min(at, r.losses.from()) // it can be about another load
	}
	r.end(there, at, rec.Time)
}

// unloadedSince reports whether an image that began at an address was unloaded at or
// after an instant.
func (r *record) unloadedSince(addr uint64, since int64) bool {
	return slices.ContainsFunc(r.unloads, func(u unload) bool { return u.addr == addr && u.at >= since })
}

// imageOf returns the image that a record is about, nil if it is not wanted.
func (r *record) imageOf(rec *perfring.Record) *timeline.Image {
	s := rec.Symbol
	origin := originOf(s.Kind, s.Name)
	if origin != timeline.OriginBPF && !r.trampolines || s.Addr+uint64(s.Len) <= s.Addr {
		return nil
	}
	return timeline.NewFunction(origin, s.Name, s.Addr, s.Len, rec.Time)
}

// originOf classifies what a record names. A program that was loaded without CAP_BPF has
// no name.
func originOf(kind perfring.SymbolKind, name string) timeline.Origin {
	switch {
	case kind == perfring.KsymOOL:
		return timeline.OriginOOL
	case name == "" || timeline.TagOf(name) != "":
		return timeline.OriginBPF
	}
	return timeline.OriginTrampoline
}
