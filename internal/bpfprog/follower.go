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

	// loaded are the functions that a CPU's records have named, until a record
	// says of which program they are.
	loaded map[uint32][]uint64
	ask    []uint32 // programs that records have named

	newest   int64 // the time of the last record
	listedAt int64 // when programs were listed for the last time, on the clock of records
	resyncs  resyncs
}

func newFollower(s *Source) *follower {
	f := &follower{
		opts:      s.opts,
		programs:  s.programs,
		functions: symtab.NewFunctions(s.opts.History),
		describer: describer{programs: s.programs, lines: s.opts.SourceLines},
		stats:     &s.stats,
		loaded:    make(map[uint32][]uint64),
	}
	f.resyncs.retry = backoff.NewExponentialBackOff()
	f.resyncs.retry.MaxInterval = time.Minute
	f.resyncs.last, f.resyncs.certain = now(), now()
	return f
}

// now reads the clock of records, and of the times at which programs were loaded.
func now() int64 { return perfring.Boottime.Now() }

func (f *follower) table() *symtab.Table { return f.functions.Table() }

// expire forgets what is too old, and reports whether there was anything.
func (f *follower) expire() bool { return f.functions.Expire(now()) }

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
			f.resyncs.wanted = true
		case perfring.TypeMissed:
			f.resyncs.wanted = true
		}
		f.newest = max(f.newest, burst[i].Time)
	}
	f.resyncs.passed(f.newest)
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
		f.resyncs.wanted = true // what ended it may have come before
	}
	function := symtab.NewFunction(origin, s.Name, s.Addr, s.Len, symtab.Since(r.Time))
	if function.Guessed {
		end = s.Addr + 1 // what begins behind that ends it
	}
	for _, there := range f.functions.Overlapping(s.Addr, end) {
		switch {
		case there.Valid.From > r.Time:
			return false // it came later
		case there.Program != nil && (r.Time < f.listedAt || isAbout(r, there)):
			return false // it was listed meanwhile
		}
	}
	f.functions.Load(function)
	if origin == symtab.OriginBPF {
		f.loaded[r.CPU] = append(f.loaded[r.CPU], s.Addr)
	}
	return true
}

// unload records that a function is gone.
func (f *follower) unload(r *perfring.Record) (changed bool) {
	there := f.functions.At(r.Symbol.Addr)
	if there == nil || !ends(r, there) || there.Valid.From > r.Time {
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

// isAbout reports whether a record can be about a function that is there. Some kernels
// give the functions of a program the name of its main one.
func isAbout(r *perfring.Record, there *symtab.Function) bool {
	if there.Start != r.Symbol.Addr {
		return false
	}
	tag := symtab.TagOf(r.Symbol.Name)
	if tag == "" {
		return there.Name() == r.Symbol.Name
	}
	return tag == there.Tag() || there.Program != nil && tag == there.Program.Tag
}

// ends reports whether a record can be about the end of a function that is there. Linux
// 5.10 has a tag of its own for the main function of a program that has others, where
// a list has the program's: then it is of the same name.
func ends(r *perfring.Record, there *symtab.Function) bool {
	if isAbout(r, there) {
		return true
	}
	const behindTag = len("bpf_prog_0123456789abcdef")
	is, was := r.Symbol.Name, there.Name()
	return there.Start == r.Symbol.Addr && there.Tag() != "" && symtab.TagOf(is) != "" &&
		len(was) > behindTag && is[behindTag:] == was[behindTag:]
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

// originOf classifies what a record names.
func originOf(kind perfring.SymbolKind, name string) symtab.Origin {
	switch {
	case kind == perfring.KsymOOL:
		return symtab.OriginOOL
	case symtab.TagOf(name) != "":
		return symtab.OriginBPF
	}
	return symtab.OriginTrampoline
}
