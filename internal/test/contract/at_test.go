// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"slices"

	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// modelGuard is the distance that the lifetimes of other images must keep (section 5.4 of the contract).
const modelGuard = 5 * ms

// A modelHit is the model's answer for an address.
type modelHit struct {
	image  *modelImage
	symbol *modelSymbol
	reason timeline.Reason
	had    bool // an image had the address at about that time
}

// at answers section 5.4 of the contract by searching the list of recorded images.
func (w *world) at(addr uint64, q timeline.Interval) modelHit {
	if w.core != nil && w.core.contains(addr) {
		return modelHit{image: w.core, symbol: w.core.symbol(addr)}
	}
	var near []*modelImage
	for _, m := range w.images {
		if m.contains(addr) && m.life.Overlaps(q.Widened(modelGuard)) {
			near = append(near, m)
		}
	}
	// A trampoline has an address only if nothing else has it (section 3.5).
	isTrampoline := func(m *modelImage) bool { return m.Origin == timeline.OriginTrampoline }
	if slices.ContainsFunc(near, func(m *modelImage) bool { return !isTrampoline(m) }) {
		near = slices.DeleteFunc(near, isTrampoline)
	}
	m, reason := w.choose(near, q)
	if m == nil {
		return modelHit{reason: reason, had: len(near) > 0}
	}
	return modelHit{image: m, symbol: m.symbol(addr)}
}

// choose returns the one image that had the address throughout q, or the reason why there is no such image.
func (w *world) choose(near []*modelImage, q timeline.Interval) (*modelImage, timeline.Reason) {
	if slices.ContainsFunc(near, func(m *modelImage) bool { return !sameAnswer(m, near[0]) }) {
		return nil, timeline.ReasonAmbiguous
	}
	lives := make([]timeline.Interval, len(near))
	for i, m := range near {
		lives[i] = m.life
		if q != timeline.Present {
			lives[i].To = min(m.life.To, w.certain[m.source])
		}
	}
	for range near { // adjoining lifetimes count as one
		for i := range lives {
			for _, other := range lives {
				if lives[i].From <= other.To && other.From <= lives[i].To {
					lives[i] = lives[i].Union(other)
				}
			}
		}
	}
	for i, life := range lives {
		if life.Holds(q) {
			return near[i], timeline.ReasonNone
		}
	}
	return nil, w.reason(q)
}

// reason returns why no image had an address throughout q.
func (w *world) reason(q timeline.Interval) timeline.Reason {
	if q == timeline.Present {
		return timeline.ReasonUnresolved
	}
	for source := range numSources {
		if q.To > w.certain[source] || slices.ContainsFunc(w.blind[source], q.Overlaps) {
			return timeline.ReasonUnobserved
		}
	}
	return timeline.ReasonUnresolved
}

// sameAnswer reports whether two images are the same load, or loads of the same build at the same base. A BPF
// program is identified by its ID, and code about which only the name is known by that and its extent.
func sameAnswer(a, b *modelImage) bool {
	switch {
	case a == b:
		return true
	case a.Name() != b.Name() || a.start != b.start || a.Origin != b.Origin || a.isText() != b.isText():
		return false
	case a.isText():
		return a.BuildID() != "" && a.BuildID() == b.BuildID() && a.Base() == b.Base()
	case a.Program == nil || b.Program == nil:
		return a.Program == b.Program && a.end == b.end
	}
	return a.Program.ID == b.Program.ID && a.end == b.end
}

// named returns the load of a module, or the core kernel, that a name stands for in q.
func (w *world) named(name string, q timeline.Interval) (*modelImage, timeline.Reason) {
	if name == timeline.KernelName && w.core != nil {
		return w.core, timeline.ReasonNone
	}
	var near []*modelImage
	for _, m := range w.images {
		if m.isText() && m.Name() == name && m.life.Overlaps(q.Widened(modelGuard)) {
			near = append(near, m)
		}
	}
	return w.choose(near, q)
}

// texts returns the core kernel and all modules, loaded or in the history.
func (w *world) texts() (texts []*modelImage) {
	if w.core != nil {
		texts = append(texts, w.core)
	}
	for _, m := range w.images {
		if m.isText() {
			texts = append(texts, m)
		}
	}
	return texts
}

// snapshot returns the tables that the sources have published.
func (w *world) snapshot() *timeline.Snapshot {
	tables := []*timeline.Table{nil, w.history[sourceModules].Table(), w.history[sourceBPF].Table()}
	if w.core != nil {
		core := w.core.Image
		if w.located {
			core = core.AsLocated()
		}
		tables[0] = timeline.NewTable(core)
	}
	return timeline.NewSnapshot(tables...)
}

// landmarks returns the known landmarks of the core kernel's text.
func (w *world) landmarks() *symtab.Landmarks {
	if w.core != nil {
		return w.core.Text.Landmarks
	}
	return &symtab.Landmarks{SharedTrampolines: true} // unknown, so the cautious answer
}
