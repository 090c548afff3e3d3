package bpfprog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// resyncs says when to list programs again.
type resyncs struct {
	wanted bool      // records were lost
	next   time.Time // not before
	retry  *backoff.ExponentialBackOff
	looks
}

// restFor is how many times as long as a resync took it is until the next, so that
// lost records that are followed by more do not take a CPU.
const restFor = 10

// isPartial reports whether something is missing that may be there another time.
func (f *follower) isPartial() bool {
	return f.listErr != nil && !errors.Is(f.listErr, bpf.ErrUnsupported) || f.askErr != nil ||
		errors.Is(f.othersErr, kallsyms.ErrRestricted)
}

// nextLook returns until when to wait for records, at most the deadline.
func (f *follower) nextLook(deadline time.Time) time.Time {
	if len(f.ask) > 0 {
		return time.Now()
	}
	if f.resyncs.ended != 0 {
		deadline = earlier(deadline, time.Now().Add(settle))
	}
	if f.resyncs.wanted || f.isPartial() {
		deadline = earlier(deadline, f.resyncs.next)
	}
	if f.doubts.any {
		deadline = earlier(deadline, f.doubts.due())
	}
	return deadline
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// askTime is for how long programs are asked for before the rings are read again.
const askTime = time.Millisecond

// complete finds out what records do not tell, and reports whether it did.
func (f *follower) complete(ctx context.Context) (changed bool) {
	if (f.resyncs.wanted || f.isPartial()) && !time.Now().Before(f.resyncs.next) {
		return f.resync(ctx)
	}
	if f.doubts.any && !time.Now().Before(f.doubts.due()) {
		return f.settleDoubts(ctx)
	}
	n, had := 0, f.askErr
	for began := time.Now(); n < len(f.ask) && time.Since(began) < askTime; n++ {
		described, err := f.askFor(f.ask[n])
		changed = described || changed
		f.askErr = cmp.Or(f.askErr, err)
	}
	f.ask = slices.Delete(f.ask, 0, n)
	if had == nil && f.askErr != nil { // it is asked for once more with the next list
		if again := time.Now().Add(f.resyncs.retry.NextBackOff()); again.After(f.resyncs.next) {
			f.resyncs.next = again
		}
		changed = true
	}
	return changed
}

// askFor asks for a program, and reports whether that has changed anything. One that is
// gone is no error.
func (f *follower) askFor(id uint32) (changed bool, err error) {
	at := f.now() // it was there then, or will be gone
	p, err := f.programs.Program(id, f.describer.want())
	switch {
	case errors.Is(err, bpf.ErrGone):
		delete(f.broken, id)
		return false, nil
	case err != nil:
		return false, err
	}
	delete(f.broken, id)
	return f.describe(p, at), nil
}

// resync lists the programs, and reports whether anything changed.
func (f *follower) resync(ctx context.Context) (changed bool) {
	was := f.degraded()
	began := time.Now()
	f.askErr = nil
	changed, f.listErr = f.list(ctx)
	if errors.Is(f.othersErr, kallsyms.ErrRestricted) {
		f.othersErr = f.readOthers(ctx)
	}
	if f.listErr == nil && f.askErr == nil {
		if f.resyncs.wanted {
			f.stats.Resynced()
		}
		f.resyncs.wanted = len(f.broken) > 0 // by what was just listed
		f.listedAt = f.now()
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
	began := f.now()
	ids, err := f.ids()
	if err != nil {
		return false, err
	}
	ended := f.now()
	known := make(map[uint32]bool)
	var unknown, gone []*symtab.Function
	for _, function := range f.functions.All() {
		if function.Origin != symtab.OriginBPF {
			continue
		}
		if p := function.Program; p == nil || p.Type == "" { // nobody has asked for it
			unknown = append(unknown, function)
		} else if _, there := slices.BinarySearch(ids, p.ID); there {
			known[p.ID] = !f.broken[p.ID]
		} else {
			gone = append(gone, function)
		}
	}
	// What is new comes first: by that it is known when what was in its place was gone.
	described, err := f.askForAll(ctx, ids, known)
	changed = f.unloadAll(gone, ended) || described
	maps.DeleteFunc(f.broken, func(id uint32, _ bool) bool {
		_, there := slices.BinarySearch(ids, id)
		return !there
	})
	if err != nil || f.askErr != nil {
		return changed, err // any that is unknown can be that of a program that could not be asked for
	}
	changed = f.unloadAll(unknown, f.now()) || changed
	f.ask = f.ask[:0]
	f.resyncs.looks = looks{certain: began}
	return changed, nil
}

// askForAll asks for the programs that are not known, and reports whether that has
// changed anything.
func (f *follower) askForAll(ctx context.Context, ids []uint32, known map[uint32]bool) (changed bool, err error) {
	for _, id := range ids {
		if known[id] {
			continue
		}
		described, err := f.askFor(id)
		if isRefused(err) || ctx.Err() != nil {
			return changed, cmp.Or(err, ctx.Err())
		}
		changed = described || changed
		f.askErr = cmp.Or(f.askErr, err)
	}
	return changed, nil
}

// isRefused reports whether the kernel will not tell of any program either.
func isRefused(err error) bool {
	return errors.Is(err, bpf.ErrPermission) || errors.Is(err, bpf.ErrHidden) || errors.Is(err, bpf.ErrUnsupported)
}

// unloadAll records that functions are gone, by an instant, unless something else is
// known to be in their place. It reports whether there were any.
func (f *follower) unloadAll(functions []*symtab.Function, by int64) (some bool) {
	for _, function := range functions {
		if f.functions.At(function.Start) == function {
			f.unloadMissed(function, f.resyncs.certain, by)
			some = true
		}
	}
	return some
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
