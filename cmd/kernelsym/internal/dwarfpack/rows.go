// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"math"
	"sort"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// A row has the answer for the code from an address on.
type row struct {
	addr   uint32
	answer answer
}

// An answer has the node and the source line of an address.
type answer struct {
	node pack.Node
	file pack.File
	line uint32
}

// A run is rows of one unit without a gap.
type run struct {
	start, end uint32
	first      int // number of its first row
	n          int
}

// rowChunk is the number of rows allocated at once. A slice of a million rows would take twice
// their memory to grow.
const rowChunk = 1 << 14

// rows are the rows of all units, unit after unit.
type rows struct {
	chunks [][]row
	n      int
	runs   []run
}

func (rs *rows) at(i int) *row { return &rs.chunks[i/rowChunk][i%rowChunk] }

// begin begins the rows of a unit.
func (rs *rows) begin() { rs.runs = append(rs.runs, run{}) }

// add adds the answer for [start, end), which must not be below the range added last.
func (rs *rows) add(start, end uint32, a answer) {
	last := &rs.runs[len(rs.runs)-1]
	switch {
	case a == answer{}:
		return
	case last.n == 0:
		*last = run{start: start, first: rs.n}
	case last.end != start:
		rs.runs = append(rs.runs, run{start: start, first: rs.n})
		last = &rs.runs[len(rs.runs)-1]
	case rs.at(rs.n-1).answer == a:
		last.end = end
		return
	}
	if rs.n%rowChunk == 0 {
		rs.chunks = append(rs.chunks, make([]row, rowChunk))
	}
	*rs.at(rs.n) = row{start, a}
	rs.n++
	last.n++
	last.end = end
}

// write writes the rows in the order of their addresses. Where units overlap, the first one counts.
func (rs *rows) write(w *pack.Writer) {
	spans := make([]span, 0, len(rs.runs))
	for i, r := range rs.runs {
		if r.n > 0 {
			spans = append(spans, span{r.start, r.end, math.MaxUint32 - uint32(i)})
		}
	}
	var last uint32
	written := false
	flatten(spans, func(s span) {
		if written && s.start != last {
			w.Row(last, 0, 0, 0)
		}
		rs.writeRun(w, &rs.runs[math.MaxUint32-s.rank], s.start, s.end)
		last, written = s.end, true
	})
	if written {
		w.Row(last, 0, 0, 0)
	}
}

// writeRun writes the rows of a run for [start, end), which must lie in it.
func (rs *rows) writeRun(w *pack.Writer, r *run, start, end uint32) {
	i := sort.Search(r.n, func(i int) bool { return rs.at(r.first+i).addr > start }) - 1
	for ; i < r.n; i++ {
		row := rs.at(r.first + i)
		if row.addr >= end {
			return
		}
		w.Row(max(row.addr, start), row.answer.node, row.answer.file, row.answer.line)
	}
}

// A piece has the node and line that a unit has at the addresses [start, end).
type piece struct {
	start, end uint32
	node       int32 // noNode without a node
	line       int   // number in lines, -1 without a line
}

// merge calls emit with the pieces that two sequences of spans make together. Each sequence is in
// order, without overlaps.
func merge(nodes, lines []span, emit func(piece) error) error {
	var pos uint32
	for len(nodes) > 0 || len(lines) > 0 {
		p := piece{start: math.MaxUint32, end: math.MaxUint32, node: noNode, line: -1}
		for _, spans := range [...][]span{nodes, lines} {
			if len(spans) > 0 {
				p.start = min(p.start, max(pos, spans[0].start))
			}
		}
		if len(nodes) > 0 {
			p.bound(nodes[0], func() { p.node = int32(nodes[0].rank) })
		}
		if len(lines) > 0 {
			p.bound(lines[0], func() { p.line = int(math.MaxUint32 - lines[0].rank) })
		}
		if err := emit(p); err != nil {
			return err
		}
		pos = p.end
		nodes, lines = behind(nodes, pos), behind(lines, pos)
	}
	return nil
}

// bound ends the piece where a span begins or ends, and calls covered if the span covers the piece.
// The span must not end before the piece.
func (p *piece) bound(s span, covered func()) {
	if s.start > p.start {
		p.end = min(p.end, s.start)
		return
	}
	p.end = min(p.end, s.end)
	covered()
}

// behind drops the spans that end at or below pos.
func behind(spans []span, pos uint32) []span {
	for len(spans) > 0 && spans[0].end <= pos {
		spans = spans[1:]
	}
	return spans
}

// coalesced appends a span, or extends the last one if it is adjacent and has the same rank.
func coalesced(spans []span, s span) []span {
	if n := len(spans); n > 0 && spans[n-1].end == s.start && spans[n-1].rank == s.rank {
		spans[n-1].end = s.end
		return spans
	}
	return append(spans, s)
}
