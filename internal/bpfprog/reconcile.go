// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"slices"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// described returns the ids of the programs that are there of which all is known, and
// notes that a list begins.
func (r *record) described() map[uint32]bool {
	r.losses.listing = true
	known, functions := make(map[uint32]bool), make(map[uint32]uint32)
	for _, m := range r.history.Loaded() {
		if isDescribed(m) {
			p := m.Program
			functions[p.ID]++
			known[p.ID] = functions[p.ID] >= p.Functions
		}
	}
	return known
}

func isDescribed(m *timeline.Image) bool { return m.Program != nil && m.Program.Type != "" }

// reconcile applies a list that was read after all losses up to when it began; the records
// until after its end have been applied. What the list shows as known was there
// throughout. What it does not show, or does not tell from another load, was certainly
// there only before the losses. It reports false if the list has to be read again.
func (r *record) reconcile(l *listing) bool {
	about, ok := r.losses.finish(l.ok)
	if !ok {
		return false
	}
	listed := l.alive != nil && about.From < about.To
	confirmed := listed
	for _, m := range r.history.Loaded() {
		switch {
		case m.Lifetime.From >= max(about.To, l.began), l.shows(m):
		case m.Lifetime.From < about.To, listed && m.Program != nil:
			r.end(m, about.From, 0)
		default:
			confirmed = false // it came after the losses, and the list does not tell of it
		}
	}
	if confirmed {
		r.losses.settled = about
	}
	for _, f := range l.found {
		r.found(f, l)
	}
	if about.From < about.To { // what came unseen is known from the list on
		r.history.AddBlind(timeline.Interval{From: about.From, To: max(about.To, l.walked)})
	}
	return true
}

// shows reports whether an image is a function of a program in the list, which no
// trampoline is.
func (l *listing) shows(m *timeline.Image) bool {
	if m.Program == nil {
		return false
	}
	_, alive := slices.BinarySearch(l.alive, m.Program.ID)
	return alive
}

// found applies what a list says of a function; the records until after its end have been
// applied.
func (r *record) found(f function, l *listing) {
	there := r.history.At(f.Start)
	isBPF := there != nil && there.Origin == timeline.OriginBPF
	switch {
	case r.describe(there, f):
	case there != nil && there.Program != nil, r.unloadedSince(f.Start, l.began): // it was unloaded in the meantime
	case r.losses.any() && !r.history.IsFree(f.Start, f.End): // the next list tells which it is
	case isBPF && (there.Start != f.Start || there.End != f.End):
	case isBPF && isNamedLike(there, f):
		r.describeAs(there, f, l.ended)
	default:
		if isBPF { // perhaps of another program, in the same place
			r.end(there, f.Lifetime.From, 0)
		}
		r.loadFound(f)
	}
}

// loadFound records a function that only a list has shown.
func (r *record) loadFound(f function) {
	m := f.Image
	if f.mayBeNameless {
		m = m.WithName("", 0)
		m.MayBeNameless = true
	}
	r.load(m, 0)
}

// describe applies what the kernel says of a function to the image that is there, if that is
// known to be of the same program, and reports whether it is.
func (r *record) describe(there *timeline.Image, f function) bool {
	known := there != nil && there.Program != nil && there.Program.ID == f.Program.ID &&
		there.Start == f.Start && there.End == f.End
	if known && !isDescribed(there) {
		r.describeAs(there, f, there.Program.Since)
	}
	return known
}

// take applies the trampolines and pages at the end of /proc/kallsyms, read between two instants in
// which no record was lost. No image that began before the first has gone since.
func (r *record) take(lines []line, began, ended int64) {
	for i := range lines {
		l := &lines[i]
		there := r.history.At(l.addr)
		isFree := there == nil || there.Yields() && there.Start != l.addr
		if isFree && !r.unloadedSince(l.addr, began) {
			r.load(timeline.NewFunction(l.origin, l.name, l.addr, pageSize, ended), 0)
		}
	}
	r.changed = true
}
