// SPDX-License-Identifier: Apache-2.0

package contract_test

import "github.com/kernelsym/kernelsym/internal/timeline"

// address returns an address worth testing: near the bounds of symbols and images, in the gaps between them,
// or where functions are patched.
func (w *world) address() uint64 {
	m := w.image()
	if m == nil {
		return slots + uint64(w.r.Intn(numSlots*slotSize))
	}
	if len(m.symbols) == 0 || w.r.Intn(6) == 0 {
		edges := []uint64{m.start, m.start - 1, m.end, m.end - 1, m.start + uint64(w.r.Int63n(int64(m.end-m.start)))}
		if m.gap.End > 0 {
			edges = append(edges, m.gap.Start, m.gap.End)
		}
		return edges[w.r.Intn(len(edges))]
	}
	s := m.symbols[w.r.Intn(len(m.symbols))]
	return w.in(&s)
}

// in returns an address in or near a symbol.
func (w *world) in(s *modelSymbol) uint64 {
	return []uint64{
		s.start, s.start, s.start + 1, s.start + 5, s.start + 9, s.start + 8, s.start + 12, s.end, s.end - 1, s.end + 1,
		s.start + uint64(w.r.Int63n(int64(s.end-s.start)+1)),
	}[w.r.Intn(11)]
}

// image returns one of the images, often the core kernel, nil if there is none.
func (w *world) image() *modelImage {
	if w.core != nil && w.r.Intn(3) == 0 || len(w.images) == 0 {
		return w.core
	}
	return w.images[w.r.Intn(len(w.images))]
}

// moment returns a time half a millisecond off all that happened, often near to it.
func (w *world) moment() int64 {
	r := w.r
	t := w.first - 20*ms + r.Int63n((w.now-w.first)/ms+30)*ms
	if len(w.times) > 0 && r.Intn(3) == 0 {
		t = w.times[r.Intn(len(w.times))] + int64(r.Intn(17)-8)*ms
	}
	return t + ms/2
}

// instant is a moment with the error of the conversion of times (section 5.3 of the contract).
func (w *world) instant() timeline.Interval {
	return timeline.Instant(w.moment()).Widened(ms / 5)
}
