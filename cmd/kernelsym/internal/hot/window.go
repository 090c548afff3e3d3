// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
)

// sums are numbers of samples.
type sums struct {
	*Counts
	user      int64
	lost      uint64
	throttled int
	possible  float64 // number of samples if no CPU had been idle
	elapsed   time.Duration
}

func newSums() *sums { return &sums{Counts: NewCounts()} }

// count returns the sums of a batch.
func count(b *live.Batch) (*sums, error) {
	counts := NewCounts()
	var errs []error
	for _, pd := range b.Profiles {
		errs = append(errs, counts.Add(pd))
	}
	return &sums{counts, int64(b.User), b.Lost, b.Throttled, b.Possible(), b.End.Sub(b.Start)}, errors.Join(errs...)
}

// Merge adds other sums.
func (s *sums) Merge(o *sums) {
	s.merge(o.Counts)
	s.user, s.lost, s.throttled = s.user+o.user, s.lost+o.lost, s.throttled+o.throttled
	s.possible, s.elapsed = s.possible+o.possible, s.elapsed+o.elapsed
}
