// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"slices"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// record is what is known of images: what records of the kernel, lists of programs and
// the end of /proc/kallsyms have shown. It makes no system call but to read the clock.
// A Source guards it with a mutex.
type record struct {
	trampolines bool // and pages are wanted, too
	images
	losses  losses
	unloads []unload // lately, and all since a list or a reading of kallsyms began
	tasks   tasks
}

// An unload is that of the image that began at an address.
type unload struct {
	addr uint64
	at   int64
}

func newRecord(trampolines bool, limits symtab.Limits) *record {
	return &record{
		trampolines: trampolines,
		images: images{
			history: symtab.NewHistory(limits),
			unnamed: make(map[uint64]*symtab.Image),
			changes: changes{now: perfring.Boottime.Now},
		},
		tasks: tasks{loaded: make(map[uint32][]*symtab.Image)},
	}
}

// apply applies what the rings held.
func (r *record) apply(b *perfring.Batch) {
	for _, i := range b.Blind {
		r.lose(symtab.Interval(i))
	}
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
	if r.losses.any() {
		r.history.SetCertain(min(until, r.losses.from()))
	} else {
		r.history.SetCertain(max(r.history.Certain(), until))
	}
	if !r.losses.listing {
		first := slices.IndexFunc(r.unloads, func(u unload) bool { return u.at > until-int64(time.Second) })
		if first < 0 {
			first = len(r.unloads)
		}
		r.unloads = r.unloads[first:]
	}
}

// lose notes that records of an interval may be missing.
func (r *record) lose(i symtab.Interval) {
	r.history.Blind(i)
	if !r.losses.settled.Holds(i) { // else no more is announced than a list has seen through
		r.doubt(i)
	}
	r.losses.add(i)
	r.tasks.lost = max(r.tasks.lost, i.To)
	r.advance(i.From)
	r.changed = true
}

// doubt forgets what is not certain as records of an interval may be missing: of which programs
// functions are that were told apart later, and when images were unloaded.
func (r *record) doubt(i symtab.Interval) {
	r.history.CutShort(i)
	if r.since <= i.From {
		return
	}
	for _, m := range r.history.Live() {
		if m.Program != nil && m.Program.Since > i.From && m.Lifetime.From < i.To {
			r.end(m, i.From, 0)
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
	if there := r.history.At(m.Start); m.Origin == symtab.OriginBPF && there != nil && there.Lifetime.From >= m.Lifetime.From {
		r.tasks.announce(rec, there)
	}
}

// isKnown reports whether the record of a function's load is about the one that is there: a
// list has shown it, or another record, of which Linux 5.10 has two.
func (r *record) isKnown(there, m *symtab.Image) bool {
	return there != nil && there.Start == m.Start && there.End == m.End && m.Origin == symtab.OriginBPF &&
		!r.losses.any() && (there.Name() == m.Name() || r.unnamed[m.Start] == there)
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
func (r *record) imageOf(rec *perfring.Record) *symtab.Image {
	s := rec.Symbol
	origin := originOf(s.Kind, s.Name)
	if origin != symtab.OriginBPF && !r.trampolines || s.Addr+uint64(s.Len) <= s.Addr {
		return nil
	}
	return newImage(origin, s.Name, s.Addr, s.Len, rec.Time)
}

// newImage returns an image that is there since an instant. The page that is announced for
// a dispatcher is its own; see symtab.Image.IsLong.
func newImage(origin symtab.Origin, name string, start uint64, size uint32, since int64) *symtab.Image {
	m := symtab.NewFunction(origin, name, start, size, since)
	m.TrueSize = strings.HasPrefix(name, "bpf_dispatcher_")
	return m
}

// originOf classifies what a record names. A program that was loaded without CAP_BPF has
// no name.
func originOf(kind perfring.SymbolKind, name string) symtab.Origin {
	switch {
	case kind == perfring.KsymOOL:
		return symtab.OriginOOL
	case name == "" || symtab.TagOf(name) != "":
		return symtab.OriginBPF
	}
	return symtab.OriginTrampoline
}
