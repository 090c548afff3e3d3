package bpfprog

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// resyncs says when to list programs again.
type resyncs struct {
	wanted  bool      // records were lost
	next    time.Time // not before
	retry   *backoff.ExponentialBackOff
	began   int64 // the last time, on the clock of records
	certain int64 // until when nothing is missing
}

// restFor is how many times as long as a resync took it is until the next, so that
// lost records that are followed by more do not take a CPU.
const restFor = 10

// nextResync returns when to look whether to list again, at most the deadline.
func (f *follower) nextResync(deadline time.Time) time.Time {
	if next := f.resyncs.next; (f.resyncs.wanted || f.listErr != nil) && next.Before(deadline) {
		return next
	}
	return deadline
}

// complete finds out what records do not tell, and reports whether it did.
func (f *follower) complete() (changed bool) {
	if (f.resyncs.wanted || f.listErr != nil) && !time.Now().Before(f.resyncs.next) {
		f.ask = f.ask[:0]
		return f.resync()
	}
	for _, id := range f.ask {
		p, err := f.programs.Program(id, f.describer.want())
		if err == nil {
			changed = f.describe(p) || changed
		}
	}
	f.ask = f.ask[:0]
	return changed
}

// resync lists the programs. It asks only for those that are new, and reports
// whether anything changed.
func (f *follower) resync() (changed bool) {
	began := time.Now()
	boot := now()
	changed, err := f.list(boot)
	hadErr := f.listErr != nil
	f.listErr = err
	if err != nil {
		f.resyncs.next = time.Now().Add(f.resyncs.retry.NextBackOff())
		return changed || !hadErr
	}
	f.resyncs.retry.Reset()
	if f.resyncs.wanted {
		f.stats.Resynced()
	}
	f.resyncs.wanted = false
	f.resyncs.began, f.resyncs.certain = boot, now()
	f.resyncs.next = time.Now().Add(restFor * time.Since(began))
	return changed || hadErr
}

// list brings the functions into line with the programs that there are.
func (f *follower) list(began int64) (changed bool, err error) {
	ids, err := f.ids()
	if err != nil {
		return false, err
	}
	known := make(map[uint32]bool)
	var unknown []*symtab.Function
	for _, function := range f.functions.All() {
		if function.Origin != symtab.OriginBPF {
			continue
		}
		switch p := function.Program; {
		case p == nil:
			unknown = append(unknown, function)
		case known[p.ID]:
		default:
			if _, known[p.ID] = slices.BinarySearch(ids, p.ID); !known[p.ID] {
				delete(known, p.ID)
				f.unloadMissed(function, began)
				changed = true
			}
		}
	}
	for _, id := range ids {
		if known[id] {
			continue
		}
		p, err := f.programs.Program(id, f.describer.want())
		if errors.Is(err, bpf.ErrGone) {
			continue
		}
		if err != nil {
			return changed, err
		}
		changed = f.describe(p) || changed
	}
	for _, function := range unknown {
		if f.functions.At(function.Start) == function { // no program has it
			f.unloadMissed(function, began)
			changed = true
		}
	}
	return changed, nil
}

// unloadMissed records that a function is gone, of which no record says when.
func (f *follower) unloadMissed(function *symtab.Function, now int64) {
	certain := max(f.resyncs.certain, function.Valid.From)
	slack := symtab.NewSlack(0, time.Duration(now-certain))
	slack.Before = function.Slack.Before
	f.functions.Unload(function, certain, slack)
	f.stats.Updated(symcache.KindUnload, 1, time.Time{})
}

// ids returns the ids of all programs, in order.
func (f *follower) ids() (ids []uint32, err error) {
	for id := uint32(0); ; {
		if id, err = f.programs.Next(id); errors.Is(err, io.EOF) {
			return ids, nil
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
}
