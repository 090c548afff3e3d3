// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"slices"

	"github.com/kernelsym/kernelsym/internal/ledger"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A listing is a list of the loaded programs, as it was read.
type listing struct {
	began int64      // the clock before it was read,
	read  int64      // after the last id was read,
	ended int64      // and after the last program was queried
	ids   []uint32   // of the programs that were loaded, in order; nil if the kernel refuses to list programs
	found []function // of the programs that were not fully known
	err   error      // why a program could not be queried
}

// known returns the ids of the loaded programs, and whether all of their functions are described.
func (f *follower) known() map[uint32]bool {
	complete, functions := make(map[uint32]bool), make(map[uint32]uint32)
	for _, m := range f.ledger.Images() {
		if isDescribed(m) {
			p := m.Program
			functions[p.ID]++
			complete[p.ID] = functions[p.ID] >= p.Functions
		}
	}
	return complete
}

// handleList applies a list, after all records up to its end. It reports whether that settled the losses before it.
func (f *follower) handleList(l *listing) bool {
	list := ledger.List{Began: l.began, Read: l.read}
	if l.ids != nil {
		list.Shows, list.Covers = l.shows, isOfProgram
	}
	if !f.ledger.EndList(list) {
		return false
	}
	for _, found := range l.found {
		f.handleListed(found, l)
	}
	return true
}

// shows reports whether an image is a function of a program in the list.
func (l *listing) shows(m *timeline.Image) bool {
	if m.Program == nil {
		return false
	}
	_, is := slices.BinarySearch(l.ids, m.Program.ID)
	return is
}

// isOfProgram reports whether an image is known to be a function of a program. Trampolines and pages are not.
func isOfProgram(m *timeline.Image) bool { return m.Program != nil }

// handleListed applies the description of a function from a list.
func (f *follower) handleListed(found function, l *listing) {
	start, end := found.image.Start, found.image.End
	loaded := f.ledger.At(start)
	isBPF := loaded != nil && loaded.Origin == timeline.OriginBPF
	switch {
	case f.fillIn(loaded, found):
	case isOfAnother(loaded), f.ledger.WasUnloaded(start, l.began): // the function was unloaded in the meantime
	case !f.ledger.Loss().IsEmpty() && !f.ledger.IsFree(start, end): // the next list shows which one it is
	case isBPF && (loaded.Start != start || loaded.End != end):
	case isBPF && isNamedLike(loaded, found):
		f.describe(loaded, found, l.ended)
	default:
		if isBPF { // it may belong to another program, in the same place
			f.ledger.End(loaded, found.image.Lifetime.From)
		}
		f.ledger.Loaded(found.asListed())
	}
}

func isOfAnother(loaded *timeline.Image) bool { return loaded != nil && loaded.Program != nil }

// needsSymbols reports whether the kernel's list of symbols must have BPF code, because code with a name was loaded before
// an instant and still is. Its name is the kernel's symbol (see contract 3.5). Pages are in other parts of the list.
func (f *follower) needsSymbols(before int64) bool {
	return slices.ContainsFunc(f.ledger.Images(), func(m *timeline.Image) bool {
		return m.Origin != timeline.OriginOOL && m.Name() != "" && m.Lifetime.From < before
	})
}

// handleKallsyms applies the trampolines and pages at the end of /proc/kallsyms, which was read between two instants in
// which no record was lost. No image that was loaded before the first has been unloaded since.
func (f *follower) handleKallsyms(symbols []kallsymsSymbol, began, ended int64) {
	for i := range symbols {
		s := &symbols[i]
		loaded := f.ledger.At(s.addr)
		isFree := loaded == nil || loaded.Yields() && loaded.Start != s.addr
		if isFree && !f.ledger.WasUnloaded(s.addr, began) {
			m := timeline.NewFunction(s.origin, s.name, s.addr, pageSize, ended)
			f.ledger.Loaded(m)
			f.traced.add(m)
		}
	}
}
