package bpfprog

import (
	"math"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// maxSlack is the longest time that a symtab.Slack can tell, 71 minutes.
const maxSlack = math.MaxUint32 * time.Microsecond

// earliest returns from when on a function may have been there.
func earliest(function *symtab.Function) int64 {
	from, before := function.Valid.From, int64(function.Slack.Before)*1000
	if from < math.MinInt64+before {
		return math.MinInt64
	}
	return from - before
}

// date notes when a function was loaded that was listed before the record of that was
// applied. That is no change: it had its name already.
func (f *follower) date(there *symtab.Function, r *perfring.Record) {
	if r.Time >= max(f.listedAt, there.Valid.From) {
		return
	}
	dated := *there
	dated.Valid, dated.Slack = symtab.Since(r.Time), symtab.Slack{}
	f.functions.Replace(there, &dated)
}

// makeRoom records of what is there in [start, end), but has to have gone by an
// instant, that it is missed, and reports whether there was any. What only reaches
// into it by a guess stays.
func (f *follower) makeRoom(start, end uint64, by int64) (some bool) {
	for _, there := range f.functions.Overlapping(start, end) {
		if !there.Guessed || there.Start >= start {
			f.unloadMissed(there, f.resyncs.certain, by)
			if there.Program != nil && f.listErr == nil { // it is gone, and its other functions are
				f.broken[there.Program.ID] = true
				f.resyncs.wanted = true
			}
			some = true
		}
	}
	return some
}

// unloadMissed records that a function is gone, of which no record says when: it was
// there until the instant certain, and gone by another. Where these are further apart
// than maxSlack, it is not known for the rest of that time.
func (f *follower) unloadMissed(function *symtab.Function, certain, by int64) {
	certain = max(min(certain, by), function.Valid.From)
	slack := symtab.NewSlack(0, time.Duration(by-certain))
	slack.Before = function.Slack.Before
	f.functions.Unload(function, certain, slack)
	f.stats.Updated(symcache.KindUnload, 1, time.Time{})
}

// looks finds out until when no record is missing.
type looks struct {
	certain int64 // until then none is

	lost bool // some are since, and what is there was not listed yet

	// A look at the rings that found no loss: when it began, or later, and when it
	// ended; 0 if there is none that is waiting for another one to confirm it.
	began, ended int64
}

// settle is more than the time for which records are held back, also the one that says
// that others were lost, and how long that takes to be read.
const settle = 10 * time.Millisecond

// looked notes a look at the rings that found no loss: they were read after began, and
// not after ended. What was lost before a look, it finds, but tells only with the next,
// after the time for which it is held back. So a look is certain by one that begins
// later than that.
func (l *looks) looked(began, ended int64) {
	switch {
	case l.lost:
	case l.ended == 0:
		l.began, l.ended = began, ended
	case began >= l.ended+int64(settle):
		l.certain = max(l.certain, l.began)
		l.began, l.ended = 0, 0
	}
}
