package bpfprog

import (
	"encoding/hex"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// follower is what a running Source knows.
type follower struct {
	opts      Options
	programs  Programs
	functions *symtab.Functions
	describer describer
	stats     *symcache.Stats

	// Why there are no records, why programs could not be listed, and why what is no
	// program could not be.
	recordErr, listErr, othersErr error

	askErr error // why a program that there is could not be asked for

	// loaded are the functions that a CPU's records have named, until a record
	// says of which program they are.
	loaded map[uint32][]uint64
	ask    []uint32 // programs that records have named

	// broken are programs of which a function is missing, as something else was loaded
	// in its place. They are gone; or else that was not, and the next list mends them.
	broken map[uint32]bool

	// On the clock of records: when it began, the time of the last record, and when
	// programs were listed for the last time, 0 if never.
	began, newest, listedAt int64

	now     func() int64 // reads that clock
	resyncs resyncs
	doubts  doubts
}

func newFollower(s *Source) *follower {
	f := &follower{
		opts:      s.opts,
		programs:  s.programs,
		functions: symtab.NewFunctions(s.opts.History),
		describer: describer{programs: s.programs, lines: s.opts.SourceLines},
		stats:     &s.stats,
		loaded:    make(map[uint32][]uint64),
		broken:    make(map[uint32]bool),
		began:     now(),
		now:       now,
	}
	f.resyncs.retry = backoff.NewExponentialBackOff()
	f.resyncs.retry.MaxInterval = time.Minute
	f.resyncs.certain = f.began
	return f
}

// resume goes on with what is known after a time without records.
func (f *follower) resume() {
	f.recordErr = nil
	clear(f.loaded)
	f.ask = nil
	f.resyncs.next = time.Time{}
	f.miss()
}

// miss notes that records were lost.
func (f *follower) miss() {
	f.resyncs.wanted = true
	f.doubts.add(f.resyncs.certain, f.now())
	f.resyncs.looks = looks{certain: f.resyncs.certain, lost: true}
}

// now reads the clock of records, and of the times at which programs were loaded.
func now() int64 { return perfring.Boottime.Now() }

func (f *follower) table() *symtab.Table { return f.functions.Table() }

// expire forgets what is too old, and reports whether there was anything.
func (f *follower) expire() bool { return f.functions.Expire(f.now()) }

// apply applies records, in their order, and reports whether they changed anything.
func (f *follower) apply(burst []perfring.Record) (changed bool) {
	var updates updates
	for i := range burst {
		switch r := &burst[i]; r.Type {
		case perfring.TypeKsymbol:
			if r.Symbol.Unregister {
				updates.note(f.unload(r), symcache.KindUnload, r.Time)
			} else {
				updates.note(f.load(r), symcache.KindLoad, r.Time)
			}
		case perfring.TypeBPFEvent:
			changed = f.name(r) || changed
		case perfring.TypeLost:
			f.stats.Lost(int(r.Lost))
			delete(f.loaded, r.CPU)
			f.miss()
		case perfring.TypeMissed:
			f.miss()
		}
		f.newest = max(f.newest, burst[i].Time)
	}
	return updates.tell(f.stats) || changed
}

// updates are the changes of a burst, and when the first of a kind was.
type updates struct {
	n     [symcache.NumKinds]int
	first [symcache.NumKinds]int64
}

// note counts a change, if it is one.
func (u *updates) note(changed bool, kind symcache.Kind, at int64) {
	if !changed {
		return
	}
	if u.n[kind] == 0 {
		u.first[kind] = at
	}
	u.n[kind]++
}

// tell counts the changes, and reports whether there are any.
func (u *updates) tell(stats *symcache.Stats) (some bool) {
	for kind, n := range u.n {
		if n > 0 {
			some = true
			stats.Updated(symcache.Kind(kind), n, time.Now().Add(-time.Duration(now()-u.first[kind])))
		}
	}
	return some
}

// load records a function.
func (f *follower) load(r *perfring.Record) (changed bool) {
	s := r.Symbol
	origin := originOf(s.Kind, s.Name)
	end := s.Addr + uint64(s.Len)
	if origin != symtab.OriginBPF && !f.opts.Trampolines || end <= s.Addr {
		return false
	}
	if r.Time < f.newest {
		f.miss() // what ended it may have come before
	}
	function := symtab.NewFunction(origin, s.Name, s.Addr, s.Len, symtab.Since(r.Time))
	if function.Guessed {
		end = s.Addr + 1 // what begins behind that ends it
	}
	for _, there := range f.functions.Overlapping(s.Addr, end) {
		switch {
		case earliest(there) > r.Time:
			return false // it came later
		case isAbout(r, there) && (r.Time < there.Valid.From || there.Program != nil):
			f.date(there, r)
			return false // it was listed meanwhile
		case there.Program != nil && r.Time < f.listedAt:
			return false // it is about one that was there before
		}
	}
	f.makeRoom(s.Addr, end, r.Time)
	f.functions.Load(function)
	if origin == symtab.OriginBPF {
		f.loaded[r.CPU] = append(f.loaded[r.CPU], s.Addr)
	}
	return true
}

// unload records that a function is gone.
func (f *follower) unload(r *perfring.Record) (changed bool) {
	there := f.functions.At(r.Symbol.Addr)
	if there == nil || !ends(r, there) || earliest(there) > r.Time {
		return false
	}
	if r.Time < f.listedAt && f.isAlive(there.Program) {
		return false // it is about one with the same tag, that was there before
	}
	f.functions.Unload(there, r.Time, there.Slack)
	return true
}

// isAlive reports whether a program still is loaded. None is, of which a record has
// said that it goes.
func (f *follower) isAlive(p *symtab.Program) bool {
	if p == nil {
		return false
	}
	_, err := f.programs.Program(p.ID, 0)
	return err == nil
}

// name records of which program the functions are that a CPU loaded last, and reports
// whether there are any.
func (f *follower) name(r *perfring.Record) (changed bool) {
	addrs := f.loaded[r.CPU]
	f.loaded[r.CPU] = addrs[:0]
	if r.Program.Event != perfring.ProgramLoad {
		return false
	}
	if f.listErr == nil {
		f.ask = append(f.ask, r.Program.ID)
	}
	tag := hex.EncodeToString(r.Program.Tag[:])
	if len(addrs) == 0 {
		return false
	}
	main := f.functions.At(addrs[0])
	if main == nil || main.Tag() != tag {
		return false // whoever loaded it went to another CPU in between
	}
	program := &symtab.Program{ID: r.Program.ID, Tag: main.Tag()}
	for _, addr := range addrs {
		if there := f.functions.At(addr); there != nil && there.Start == addr && there.Program == nil {
			f.functions.Replace(there, there.Of(program, nil))
			changed = true
		}
	}
	return changed
}
