// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/ledger"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A follower applies records, lists of programs and the end of /proc/kallsyms to a ledger. It makes no system calls.
type follower struct {
	ledger      *ledger.Ledger
	trampolines bool // trampolines and out-of-line pages are wanted, too
	loading     loading
	toQuery     []uint32 // the ids of programs that records have announced and that were not queried yet
	traced      traced
	changes     symcache.Changes
}

func newFollower(trampolines bool, limits timeline.Limits) *follower {
	return &follower{
		ledger: ledger.New(limits), trampolines: trampolines,
		loading: loading{byTask: make(map[uint32][]*timeline.Image)}, traced: newTraced(),
	}
}

// takeChanges returns the changes since the last call.
func (f *follower) takeChanges() symcache.Changes {
	counts := f.ledger.TakeCounts()
	f.changes.Note(symcache.KindLoad, counts.Loaded, time.Time{})
	f.changes.Note(symcache.KindUnload, counts.Unloaded, time.Time{})
	f.changes.Note(symcache.KindSymbols, counts.Learned, time.Time{})
	return f.changes.Take()
}

// apply applies what the rings held, read when the wall clock showed an instant.
func (f *follower) apply(b *perfring.Batch, wall time.Time) {
	f.lose(b.Blind...)
	f.changes.Counts.LostRecords += int64(b.Lost)
	announced := func(kind symcache.Kind, rec *perfring.Record) {
		f.changes.Note(kind, 0, wall.Add(time.Duration(rec.Time-b.At)))
	}
	for i := range b.Records {
		switch rec := &b.Records[i]; {
		case rec.Type == perfring.TypeKsymbol && rec.Symbol.Unregister:
			if f.ledger.Unloaded(rec.Symbol.Addr, rec.Time) {
				announced(symcache.KindUnload, rec)
			}
		case rec.Type == perfring.TypeKsymbol:
			if f.handleLoad(rec) {
				announced(symcache.KindLoad, rec)
			}
		case rec.Type == perfring.TypeBPFEvent && rec.Program.Event == perfring.ProgramLoad:
			f.handleProgramLoad(rec)
		}
	}
	if len(b.Blind) > 0 {
		clear(f.loading.byTask)
	}
	f.ledger.Complete(b.Certain)
	f.changes.Applied()
}

// lose records that records of intervals may be missing.
func (f *follower) lose(intervals ...perfring.Interval) {
	losses := make([]timeline.Interval, len(intervals))
	for i, loss := range intervals {
		losses[i] = timeline.Interval{From: loss.From, To: loss.To}
		f.loading.lost = max(f.loading.lost, loss.To)
	}
	f.ledger.Missed(losses...)
}

// handleLoad applies the record of a load, and reports whether it announced an image that was not known.
func (f *follower) handleLoad(rec *perfring.Record) bool {
	m := f.imageOf(rec)
	if m == nil {
		return false
	}
	if loaded := f.ledger.At(m.Start); f.isSameLoad(loaded, m) {
		if loaded.Name() != m.Name() {
			f.ledger.Learn(loaded, loaded.WithName(m.Name(), rec.Time), rec.Time)
		}
		return false
	}
	f.ledger.Loaded(m)
	f.traced.add(m)
	if loaded := f.ledger.At(m.Start); m.Origin == timeline.OriginBPF && loaded != nil && loaded.Lifetime.From >= m.Lifetime.From {
		f.loading.add(rec, loaded)
	}
	return true
}

// isSameLoad reports whether the record of a function's load is about the function that is loaded already. A list has
// shown that one, or another record: Linux 5.10 writes two for the main function of a program.
func (f *follower) isSameLoad(loaded, m *timeline.Image) bool {
	return loaded != nil && loaded.Start == m.Start && loaded.End == m.End && m.Origin == timeline.OriginBPF &&
		f.ledger.Loss().IsEmpty() && (loaded.Name() == m.Name() || loaded.MayBeNameless)
}

// imageOf returns the image that a record is about, nil if it is not wanted.
func (f *follower) imageOf(rec *perfring.Record) *timeline.Image {
	s := rec.Symbol
	origin := originOf(s.Kind, s.Name)
	if origin != timeline.OriginBPF && !f.trampolines || s.Addr+uint64(s.Len) <= s.Addr {
		return nil
	}
	return timeline.NewFunction(origin, s.Name, s.Addr, s.Len, rec.Time)
}

// originOf classifies the code that a record names. A program that was loaded without CAP_BPF has no name.
func originOf(kind perfring.SymbolKind, name string) timeline.Origin {
	switch {
	case kind == perfring.KsymOOL:
		return timeline.OriginOOL
	case name == "" || timeline.TagOf(name) != "":
		return timeline.OriginBPF
	}
	return timeline.OriginTrampoline
}

// fillIn applies a description to the image at its address, if that is known to belong to the same program. It
// reports whether it is.
func (f *follower) fillIn(loaded *timeline.Image, by function) bool {
	if loaded == nil || loaded.Program == nil || loaded.Program.ID != by.image.Program.ID ||
		loaded.Start != by.image.Start || loaded.End != by.image.End {
		return false
	}
	if !isDescribed(loaded) {
		f.describe(loaded, by, loaded.Program.Since)
	}
	return true
}

// describe applies a description to the image of the function, whose program is known from an instant on. Up to
// Linux 6.0, a record can have another name than the kernel's own for the function: the main function's for all
// functions of a program, or the first function's own for the main one.
func (f *follower) describe(loaded *timeline.Image, by function, since int64) {
	m := loaded.WithProgram(knownSince(by.image.Program, since), by.image.Lines).WithType(by.image.TypeID)
	if !hasNameOf(loaded, by) {
		m = m.WithName(by.image.Name(), since)
	}
	f.ledger.Learn(loaded, m, since)
}

// isDescribed reports whether a description was applied to an image.
func isDescribed(m *timeline.Image) bool { return m.Program != nil && m.Program.Type != "" }

// knownSince returns a program as one that is known, for some function, from an instant on.
func knownSince(p *timeline.Program, since int64) *timeline.Program {
	if p.Since == since {
		return p
	}
	known := *p
	known.Since = since
	return &known
}

// hasNameOf reports whether an image has the name of a function, or none. Before Linux 6.1, the kernel may have cut the
// name off, at 128 bytes.
func hasNameOf(m *timeline.Image, is function) bool {
	const shortest = 127
	name := m.Name()
	return name == "" || name == is.image.Name() || len(name) >= shortest && strings.HasPrefix(is.image.Name(), name)
}

// isNamedLike reports whether an image has one of the names that a record can give a function, or none.
func isNamedLike(m *timeline.Image, is function) bool {
	return hasNameOf(m, is) || m.Name() == is.firstSymbol
}
