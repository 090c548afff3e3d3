package bpfprog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// resyncs says when to list programs again.
type resyncs struct {
	wanted bool      // records were lost
	next   time.Time // not before
	retry  *backoff.ExponentialBackOff

	// On the clock of records: when the last one was, and until when none is
	// missing. That some were lost, a ring says after it was read once more.
	last, certain int64
}

// passed notes that all records up to an instant were applied.
func (r *resyncs) passed(newest int64) {
	if !r.wanted && newest > r.last {
		r.last, r.certain = newest, r.last
	}
}

// restFor is how many times as long as a resync took it is until the next, so that
// lost records that are followed by more do not take a CPU.
const restFor = 10

// isPartial reports whether something is missing that may be there another time.
func (f *follower) isPartial() bool {
	return f.listErr != nil && !errors.Is(f.listErr, bpf.ErrUnsupported) || errors.Is(f.othersErr, kallsyms.ErrRestricted)
}

// nextLook returns until when to wait for records, at most the deadline.
func (f *follower) nextLook(deadline time.Time) time.Time {
	if len(f.ask) > 0 {
		return time.Now()
	}
	if next := f.resyncs.next; (f.resyncs.wanted || f.isPartial()) && next.Before(deadline) {
		return next
	}
	return deadline
}

// askFor is for how long programs are asked for before the rings are read again.
const askFor = time.Millisecond

// complete finds out what records do not tell, and reports whether it did.
func (f *follower) complete(ctx context.Context) (changed bool) {
	if (f.resyncs.wanted || f.isPartial()) && !time.Now().Before(f.resyncs.next) {
		return f.resync(ctx)
	}
	n := 0
	for began := time.Now(); n < len(f.ask) && time.Since(began) < askFor; n++ {
		p, err := f.programs.Program(f.ask[n], f.describer.want())
		if err == nil {
			changed = f.describe(p) || changed
		}
	}
	f.ask = slices.Delete(f.ask, 0, n)
	return changed
}

// resync lists the programs, and reports whether anything changed.
func (f *follower) resync(ctx context.Context) (changed bool) {
	was := f.degraded()
	began := time.Now()
	changed, f.listErr = f.list(ctx)
	if errors.Is(f.othersErr, kallsyms.ErrRestricted) {
		f.othersErr = f.readOthers(ctx)
	}
	if f.listErr == nil {
		if f.resyncs.wanted {
			f.stats.Resynced()
		}
		f.resyncs.wanted = false
		f.listedAt = now()
	}
	if f.isPartial() {
		f.resyncs.next = time.Now().Add(f.resyncs.retry.NextBackOff())
	} else {
		f.resyncs.retry.Reset()
		f.resyncs.next = time.Now().Add(restFor * time.Since(began))
	}
	return changed || (was == nil) != (f.degraded() == nil)
}

// list brings the functions into line with the programs that there are, and
// reports whether they were not. It asks only for programs that are new.
func (f *follower) list(ctx context.Context) (changed bool, err error) {
	began := now()
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
		if p := function.Program; p == nil || p.Type == "" { // nobody has asked for it
			unknown = append(unknown, function)
		} else if _, known[p.ID] = slices.BinarySearch(ids, p.ID); !known[p.ID] {
			f.unloadMissed(function, began)
			changed = true
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
		if err = cmp.Or(err, ctx.Err()); err != nil {
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
	f.ask = f.ask[:0]
	f.resyncs.last, f.resyncs.certain = began, began
	return changed, nil
}

// unloadMissed records that a function is gone, of which no record says when. It
// was by the instant now.
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
