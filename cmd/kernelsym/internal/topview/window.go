// SPDX-License-Identifier: Apache-2.0

package topview

import (
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
)

// A Window sums up what a view counts in recent batches.
type Window[S interface{ Merge(S) }] struct {
	Sum   S
	Parts []S         // the parts of Sum, oldest first; not kept without a length
	Last  *live.Batch // the last batch, without its profiles; nil before the first

	length time.Duration // 0 for all since the start
	ends   []time.Time   // the end of each of Parts
	empty  func() S
}

// NewWindow returns a window over the last length of time, or since the start if length is 0. empty
// returns an empty sum.
func NewWindow[S interface{ Merge(S) }](length time.Duration, empty func() S) Window[S] {
	return Window[S]{Sum: empty(), length: length, empty: empty}
}

// Note keeps a batch's description of how this machine is sampled.
func (w *Window[S]) Note(b *live.Batch) {
	about := *b
	about.Messages = nil // which may be large
	w.Last = &about
}

// Add adds the counts of a batch, and drops the parts that ended before the window.
func (w *Window[S]) Add(b *live.Batch, part S) {
	w.Note(b)
	if w.length == 0 {
		w.Sum.Merge(part)
		return
	}
	w.Parts, w.ends = append(w.Parts, part), append(w.ends, b.End)
	for b.End.Sub(w.ends[0]) >= w.length {
		w.Parts, w.ends = w.Parts[1:], w.ends[1:]
	}
	w.Sum = w.empty()
	for _, p := range w.Parts {
		w.Sum.Merge(p)
	}
}
