// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
)

// sums are numbers of samples.
type sums struct {
	*Counts
	samples  int   // with kernel frames, or of guests
	user     int64 // samples of user code
	losses   losses
	possible float64 // the whole that shares are relative to
	elapsed  time.Duration
}

func newSums() *sums { return &sums{Counts: NewCounts()} }

// count returns the sums of a batch.
func count(b *live.Batch) *sums {
	counts := NewCounts()
	for _, n := range b.Messages {
		counts.Add(n)
	}
	return &sums{counts, b.Kernel, int64(b.User), lossesOf(b), possible(b), b.End.Sub(b.Start)}
}

// Merge adds other sums.
func (s *sums) Merge(o *sums) {
	s.merge(o.Counts)
	s.samples, s.user = s.samples+o.samples, s.user+o.user
	s.losses.add(o.losses)
	s.possible, s.elapsed = s.possible+o.possible, s.elapsed+o.elapsed
}
