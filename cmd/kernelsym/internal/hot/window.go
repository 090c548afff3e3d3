package hot

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
)

// window holds the batches of the last while, and what they are together.
type window struct {
	length  time.Duration // 0 for all since the start
	batches []batch       // oldest first
	sum     sums
}

// batch is what is counted of a live.Batch.
type batch struct {
	end time.Time
	sums
}

// sums are numbers of samples.
type sums struct {
	*Counts
	user      int64
	lost      uint64
	throttled int
	possible  float64 // samples, if no CPU had been idle
	elapsed   time.Duration
	last      *live.Batch // without its profiles; nil before the first
}

func (s *sums) add(o *sums) {
	s.merge(o.Counts)
	s.user, s.lost, s.throttled = s.user+o.user, s.lost+o.lost, s.throttled+o.throttled
	s.possible, s.elapsed, s.last = s.possible+o.possible, s.elapsed+o.elapsed, o.last
}

// add adds a batch and drops those that ended before the window.
func (w *window) add(b *live.Batch) error {
	counts := NewCounts()
	err := counts.Add(b.Profiles)
	about := *b
	about.Profiles = pprofile.Profiles{} // which may be large
	one := batch{b.End, sums{
		counts, int64(b.User), b.Lost, b.Throttled, b.Possible(), b.End.Sub(b.Start), &about,
	}}
	if w.length == 0 {
		w.sum.add(&one.sums)
		return err
	}
	w.batches = append(w.batches, one)
	for b.End.Sub(w.batches[0].end) >= w.length {
		w.batches = w.batches[1:]
	}
	w.sum = sums{Counts: NewCounts()}
	for i := range w.batches {
		w.sum.add(&w.batches[i].sums)
	}
	return err
}
