// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// slot returns where a module can be; the last slots are for trampolines.
func (w *world) slot() uint64 { return slots + uint64(w.r.Intn(numSlots-4))*slotSize }

// loadSomething loads a module, or one of the things that the BPF source follows.
func (w *world) loadSomething(source int, at int64) {
	r := w.r
	if source == sourceModules {
		w.load(source, w.builds[r.Intn(len(w.builds))].load(w.slot()), at)
		return
	}
	start := w.slot() + []uint64{0, 0, 0x100, 0x180, 0x400, 0xfc0}[r.Intn(6)]
	var m *modelImage
	kind := r.Intn(10)
	if w.traces && r.Intn(2) == 0 {
		kind = 2
	}
	switch kind {
	case 0: // eBPF loaded without CAP_BPF
		m = newFunction(timeline.OriginBPF, "", start, 0x40)
	case 1:
		m = newFunction(timeline.OriginOOL, "kprobe_insn_page", start, slotSize)
	case 2, 3:
		start = slots + uint64(numSlots-4+r.Intn(4))*slotSize + []uint64{0, 0x200, 0x800}[r.Intn(3)]
		m = w.newTrampoline(start)
	default:
		if r.Intn(3) == 0 { // beside and inside the trampolines
			start = slots + uint64(numSlots-4+r.Intn(4))*slotSize + uint64(r.Intn(16))<<8
		}
		name := fmt.Sprintf("bpf_prog_%016x_f%d", r.Intn(3), r.Intn(3))
		m = newFunction(timeline.OriginBPF, name, start, []uint32{0x40, 0x80, 0x100}[r.Intn(3)])
		if r.Intn(4) != 0 {
			m.describe(r, w.id())
		}
	}
	w.load(source, m, at)
}

// newTrampoline returns a trampoline of a function of the core kernel, of a module, or of a BPF program.
func (w *world) newTrampoline(start uint64) *modelImage {
	r := w.r
	if r.Intn(3) == 0 {
		of := modelTraced{program: 1 + uint32(r.Intn(int(w.nextID))), typ: 1 + uint32(r.Intn(2))}
		m := newFunction(timeline.OriginTrampoline, fmt.Sprintf("bpf_trampoline_%d", uint64(of.program)<<32|uint64(of.typ)), start, slotSize)
		m.traced = of
		return m
	}
	i := r.Intn(len(w.traced))
	m := newFunction(timeline.OriginTrampoline, fmt.Sprintf("bpf_trampoline_%d", keyOf(i)), start, slotSize)
	m.traced = w.traced[i]
	return m
}

// keyOf returns the key of function i of world.traced: its BTF object, and its type in that.
func keyOf(i int) timeline.TrampolineKey { return timeline.TrampolineKey(2<<32 | 1<<31 | i + 1) }

// traceSome chooses functions of the core kernel and of modules that can have trampolines. Some cannot be found in BTF.
func (w *world) traceSome() {
	images := []*modelImage{w.core, w.core, w.core, w.core}
	for _, b := range w.builds {
		images = append(images, b.load(slots))
	}
	found := make(map[timeline.TrampolineKey]timeline.TracedFunction)
	for i := range 8 {
		var of modelTraced
		if m := images[w.r.Intn(len(images))]; m != nil && w.r.Intn(5) != 0 {
			s := m.symbols[w.r.Intn(len(m.symbols))]
			names := append([]string{s.system}, s.others...)
			of = modelTraced{image: m.Name(), name: names[w.r.Intn(len(names))]}
		}
		w.traced = append(w.traced, of)
		found[keyOf(i)] = timeline.TracedFunction{Image: of.image, Name: of.name}
	}
	w.history[sourceBPF].SetTraced(found)
}

// endsAtNext reports whether the image may have been announced with too great a length.
func (m *modelImage) endsAtNext() bool { return m.isText() || m.Origin == timeline.OriginTrampoline }

func (m *modelImage) overlaps(start, end uint64) bool { return m.start < end && start < m.end }

// load records an image. Whatever was in its place has been unloaded; in nearly all cases, that is recorded,
// too.
func (w *world) load(source int, m *modelImage, from int64) {
	m.source = source
	for _, other := range slices.Clone(w.images) { // which unload changes
		inPlace := other.life.To == timeline.Forever && other.overlaps(m.start, m.end)
		if !inPlace || other.source != source && w.r.Intn(10) == 0 {
			continue
		}
		// Where two modules meet, neither is cut short: their extents are exact.
		mustGo := other.isText() || m.isText() || other.start == m.start
		if mustGo || w.r.Intn(2) == 0 && !other.endsAtNext() && !m.endsAtNext() {
			if other.source != source || other.isText() || w.r.Intn(5) != 0 {
				w.unload(other, from)
			}
		}
	}
	for _, other := range w.live(source) {
		if m.endsAtNext() && other.start > m.start && other.start < m.end {
			m.end = other.start // a trampoline ends where something else begins
		}
	}
	inPlace := w.live(source) // the lowest first: among images unloaded at one instant, it is also forgotten first
	slices.SortFunc(inPlace, func(a, b *modelImage) int { return cmp.Compare(a.start, b.start) })
	for _, other := range inPlace {
		switch {
		case !other.overlaps(m.start, m.end):
		case other.endsAtNext() && other.start < m.start:
			other.trim(m.start)
		default: // its unload was missed
			other.life.To = max(min(w.certain[source], from), other.life.From+1)
			w.gone[source] = append(w.gone[source], other)
		}
	}
	w.history[source].Load(m.WithLifetime(timeline.Since(from)))
	for _, other := range w.gone[source] {
		if other.overlaps(m.start, m.end) {
			from = max(from, other.life.To) // two cannot be at one address
		}
	}
	m.trim(m.end)
	m.life = timeline.Since(from)
	w.images = append(w.images, m)
	w.forget(source, math.MinInt64)
}

// trim ends an image and its symbols.
func (m *modelImage) trim(end uint64) {
	m.end = end
	for i := range m.symbols {
		m.symbols[i].end = min(m.symbols[i].end, end)
	}
}
