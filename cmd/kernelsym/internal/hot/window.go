// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
)

// sums are numbers of samples.
type sums struct {
	counts   *Counts
	samples  int   // with kernel frames, or of guests
	user     int64 // samples of user code
	losses   losses
	idle     idle    // what was left out
	possible float64 // the whole that shares are relative to
	elapsed  time.Duration

	batch *live.Batch // to count it again; nil for several
}

func newSums() *sums { return &sums{counts: NewCounts()} }

// count returns the sums of a batch.
func count(b *live.Batch, showIdle bool) *sums {
	s := newSums()
	for sample, codes := range s.idle.countedIn(b, showIdle) {
		s.counts.addSample(sample, codes)
	}
	s.samples, s.user, s.losses, s.possible, s.elapsed = b.Kernel-s.idle.samples, int64(b.User), lossesOf(b), possible(b), b.End.Sub(b.Start)
	s.batch = b
	return s
}

// Merge adds other sums.
func (s *sums) Merge(o *sums) {
	s.counts.merge(o.counts)
	s.samples, s.user = s.samples+o.samples, s.user+o.user
	s.losses.add(o.losses)
	s.idle.add(&o.idle)
	s.possible, s.elapsed = s.possible+o.possible, s.elapsed+o.elapsed
}
