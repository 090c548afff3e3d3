// SPDX-License-Identifier: Apache-2.0

package topview

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
)

// A Window adds up what a view counts of the batches of the last while.
type Window[S interface{ Merge(S) }] struct {
	Sum   S
	Parts []S         // that Sum is made of, oldest first; without a length, they are not kept
	Last  *live.Batch // without its profiles, nil before the first

	length time.Duration // 0 for all since the start
	ends   []time.Time   // of Parts
	empty  func() S
}

// NewWindow returns a window of the last while, or with 0 of all since the start. empty returns
// the sum of nothing.
func NewWindow[S interface{ Merge(S) }](length time.Duration, empty func() S) Window[S] {
	return Window[S]{Sum: empty(), length: length, empty: empty}
}

// Note keeps what a batch says of how this machine is sampled.
func (w *Window[S]) Note(b *live.Batch) {
	about := *b
	about.Profiles = pprofile.Profiles{} // which may be large
	w.Last = &about
}

// Add adds what was counted of a batch, and drops what ended before the window.
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
