package symtab

import (
	"math"
	"slices"
	"time"
)

// History says how much is remembered of code that was unloaded.
type History struct {
	TTL        time.Duration // how long
	MaxEntries int           // and of how many pieces, the last ones
}

// Functions is the record of the functions that are in the kernel and that were
// there lately, of which it makes tables. What a change costs grows with the
// logarithm of their number. It is not safe for concurrent use; its tables are.
type Functions struct {
	history   History
	tree      tree[*Function]
	live      [NumOrigins]int
	memory    [NumOrigins]int64 // bytes, of those that are gone, too
	gone      []*Function       // those that were unloaded, first the one that went first
	forgotten Forgotten
}

// NewFunctions returns a record of nothing.
func NewFunctions(h History) *Functions {
	r := &Functions{history: h}
	r.tree.share()
	return r
}

// At returns the function that is there at an address, nil if none is.
func (r *Functions) At(addr uint64) *Function {
	if s := r.tree.root.floor(addr); s != nil && addr < s.end {
		return s.live
	}
	return nil
}

// All returns the functions that are there, in the order of their addresses.
func (r *Functions) All() []*Function { return r.Overlapping(0, math.MaxUint64) }

// FreeSince returns when the last function went that was at addresses in
// [start, end), math.MinInt64 if none is known.
func (r *Functions) FreeSince(start, end uint64) int64 {
	since := int64(math.MinInt64)
	r.tree.root.each(start, end, func(s *segment[*Function]) bool {
		if n := len(s.dead); n > 0 {
			since = max(since, s.dead[n-1].Valid.To)
		}
		return true
	})
	return since
}

// Overlapping returns the functions that are there at addresses in [start, end).
func (r *Functions) Overlapping(start, end uint64) (functions []*Function) {
	r.tree.root.each(start, end, func(s *segment[*Function]) bool {
		if s.live != nil && (len(functions) == 0 || functions[len(functions)-1] != s.live) {
			functions = append(functions, s.live)
		}
		return true
	})
	return functions
}

// Load records a function that was loaded. What is recorded to be there in its
// place is gone since, as f.Valid.From, even if nobody said so. One whose size is
// guessed only ends where f begins, and if f's is, it ends where another function
// begins. A function without a size, or that reaches over the end of the address
// space, is not recorded, nor one of 2 GiB. What is recorded may be another [Function], see At.
func (r *Functions) Load(f *Function) {
	if f.Guessed {
		f = r.clipNew(f)
	}
	if f.Size == 0 || f.Size >= isGuess || f.End() < f.Start {
		return
	}
	for _, other := range r.Overlapping(f.Start, f.End()) {
		if other.Guessed && other.Start < f.Start {
			r.clip(other, f.Start)
		} else {
			r.Unload(other, f.Valid.From, Slack{Before: other.Slack.Before})
		}
	}
	if since := r.FreeSince(f.Start, f.End()); since > f.Valid.From {
		later := *f
		later.Valid.From = since // whatever it says, it was not there before
		f = &later
	}
	r.tree.changeOwners(f.Start, f.End(), func(s *segment[*Function]) { s.setLive(f) })
	r.live[f.Origin]++
	r.memory[f.Origin] += f.memory()
}

// clipNew returns a function, whose size is guessed, as long as it can be.
func (r *Functions) clipNew(f *Function) *Function {
	for _, other := range r.Overlapping(f.Start, f.End()) {
		if other.Start > f.Start {
			return f.clipped(other.Start)
		}
	}
	return f
}

// clipped returns the function as if it ended at end.
func (f *Function) clipped(end uint64) *Function {
	c := *f
	c.Size = uint32(end - f.Start)
	return &c
}

// clip ends a function that is there at an address inside of it.
func (r *Functions) clip(f *Function, end uint64) {
	c := f.clipped(end)
	r.setLive(end, f.End(), f, nil)
	r.setLive(f.Start, end, f, c)
}

// setLive replaces the owner of the addresses in [start, end) that are f's, and
// reports whether there are any.
func (r *Functions) setLive(start, end uint64, f, by *Function) (found bool) {
	r.tree.changeOwners(start, end, func(s *segment[*Function]) {
		if s.live == f {
			s.setLive(by)
			found = true
		}
	})
	return found
}

// Replace puts another function in the place of one that is there, with the same
// addresses, of which more is known.
func (r *Functions) Replace(f, by *Function) {
	if r.setLive(f.Start, f.End(), f, by) {
		r.memory[by.Origin] += by.memory() - f.memory()
	}
}

// Unload records that a function is not there any more, since an instant or, by
// the slack, some time about it. It stays in the history.
func (r *Functions) Unload(f *Function, at int64, slack Slack) {
	past := *f
	past.Valid.To = max(at, f.Valid.From)
	past.Slack = slack
	keep := r.history.MaxEntries > 0 && r.history.TTL > 0
	found := false
	r.tree.changeOwners(f.Start, f.End(), func(s *segment[*Function]) {
		if s.live != f {
			return
		}
		found = true
		s.setLive(nil)
		if keep {
			s.dead = append(s.dead, &past)
		}
	})
	if !found {
		return
	}
	r.live[f.Origin]--
	if !keep {
		r.memory[f.Origin] -= f.memory()
		r.forgotten.Add(past.Start, past.End(), past.Valid, past.Slack)
		r.joinAll(&past)
		return
	}
	r.gone = append(r.gone, &past)
}

// Expire forgets what was unloaded too long ago, and the first of those that are
// too many, and reports whether there were any.
func (r *Functions) Expire(now int64) bool {
	oldest := now - int64(r.history.TTL)
	n := max(0, len(r.gone)-r.history.MaxEntries)
	for n < len(r.gone) && r.gone[n].Slack.possible(r.gone[n].Valid).To < oldest {
		n++
	}
	for _, f := range r.gone[:n] {
		r.forget(f)
	}
	clear(r.gone[:n])
	r.gone = r.gone[n:]
	return n > 0
}

// forget removes the one that was unloaded first.
func (r *Functions) forget(f *Function) {
	r.tree.changeOwners(f.Start, f.End(), func(s *segment[*Function]) {
		if len(s.dead) > 0 && s.dead[0] == f {
			s.dropFirst()
		}
	})
	r.memory[f.Origin] -= f.memory()
	r.forgotten.Add(f.Start, f.End(), f.Valid, f.Slack)
	r.joinAll(f)
}

// joinAll joins segments that a function that is gone has kept apart.
func (r *Functions) joinAll(f *Function) {
	bounds := []uint64{f.Start, f.End()}
	r.tree.root.each(f.Start, f.End(), func(s *segment[*Function]) bool {
		bounds = append(bounds, s.start)
		return true
	})
	slices.Sort(bounds)
	for _, addr := range slices.Compact(bounds) {
		r.tree.join(addr)
	}
}

// Table returns what is recorded now.
func (r *Functions) Table() *Table {
	v := newView(&r.tree)
	return &Table{
		functions: v,
		low:       v.low,
		high:      v.high,
		live:      r.live,
		memory:    r.memory,
		history:   len(r.gone),
		forgotten: r.forgotten,
	}
}
