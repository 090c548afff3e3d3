// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"cmp"
	"container/heap"
	"slices"
)

// A span is the pack addresses [start, end), with a rank that stands for their contents. Where
// spans overlap, the highest rank counts.
type span struct{ start, end, rank uint32 }

// flatten calls emit, in the order of addresses, for spans that do not overlap and are equivalent
// to the given ones. It sorts the given spans.
func flatten(spans []span, emit func(span)) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var open ranked
	pos := uint32(0)
	for i := 0; i < len(spans) || len(open) > 0; {
		if len(open) == 0 {
			pos = spans[i].start
		}
		for ; i < len(spans) && spans[i].start == pos; i++ {
			heap.Push(&open, spans[i])
		}
		for len(open) > 0 && open[0].end <= pos {
			heap.Pop(&open)
		}
		if len(open) == 0 {
			continue
		}
		next := open[0].end
		if i < len(spans) {
			next = min(next, spans[i].start)
		}
		emit(span{pos, next, open[0].rank})
		pos = next
	}
}

// ranked is a heap of spans. The first one has the highest rank.
type ranked []span

func (r ranked) Len() int           { return len(r) }
func (r ranked) Less(i, j int) bool { return r[i].rank > r[j].rank }
func (r ranked) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *ranked) Push(x any)        { *r = append(*r, x.(span)) }
func (r *ranked) Pop() any {
	last := len(*r) - 1
	s := (*r)[last]
	*r = (*r)[:last]
	return s
}
