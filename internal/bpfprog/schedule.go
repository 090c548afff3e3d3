// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

const (
	// maintainEvery is the time between two calls of maintain. Where the kernel sends no events about CPUs,
	// or an event is late, it is maintainWithoutEvents: nothing is certain after the rings were opened last.
	maintainEvery         = 10 * time.Second
	maintainWithoutEvents = time.Second

	// restFor is how many times as long as a list took it is until the next one, so that losses that follow each other
	// do not take a whole CPU. It is at least minRest.
	restFor = 10
	minRest = time.Millisecond

	// retryEvery is the time until something that failed is tried again.
	retryEvery = 10 * time.Second

	// publishEvery is the time between two tables while something changes and no message asks for one.
	publishEvery = 10 * time.Second
)

// never is later than anything that is waited for.
var never = time.Unix(1<<40, 0)

// step does one round, and waits until the next one is due.
func (s *Source) step(ctx context.Context) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.state.wake = cancel // what happens from now on ends the wait
	s.mu.Unlock()
	if err := s.maintain(); err != nil {
		return err
	}
	deadline, err := s.round(ctx)
	if err != nil {
		return err
	}
	return s.wait(waiting, deadline)
}

// round applies the records that have come, finds out what they do not say, publishes the
// result if it is time to, and returns when the next round is due at the latest.
func (s *Source) round(ctx context.Context) (deadline time.Time, err error) {
	s.drain()
	for queried := false; ctx.Err() == nil; {
		s.mu.Lock()
		mustQuery, traceAt := len(s.state.follower.toQuery) > 0, s.state.follower.traced.findAt
		listAt, kallsymsAt, interval := s.state.listDue(), s.state.kallsyms.due(), s.state.cpus.interval()
		s.mu.Unlock()
		switch at := time.Now(); {
		case !listAt.After(at):
			s.list(ctx)
		case mustQuery && !queried:
			queried = true
			s.queryNewPrograms()
		case !traceAt.After(at):
			s.findTracedFunctions()
		case !kallsymsAt.After(at):
			s.readKallsyms(ctx)
		case mustQuery:
			return at, s.finishRound()
		default:
			return earliest(at.Add(interval), listAt, traceAt, kallsymsAt), s.finishRound()
		}
	}
	return time.Time{}, nil
}

func earliest(at time.Time, others ...time.Time) time.Time {
	for _, other := range others {
		if other.Before(at) {
			at = other
		}
	}
	return at
}

// listDue returns when programs must be listed next.
func (s *state) listDue() time.Time {
	switch {
	case !s.follower.ledger.Loss().IsEmpty() || s.relist:
		return s.listAt
	case s.missing.mayEnd():
		return s.listAt.Add(retryEvery)
	}
	return never
}

// list lists the programs, and applies the list.
func (s *Source) list(ctx context.Context) {
	began := time.Now()
	known, loss := s.beginList()
	l, err := s.run.lister.list(ctx, known, !loss.IsEmpty() && !s.polls())
	isComplete := isRefused(err) || err == nil && s.catchUp(ctx, l.ended)

	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil { // another run would list again
		s.state.follower.ledger.AbortList()
		return
	}
	s.state.missing.list, s.state.missing.program = err, l.err
	s.state.endList(l, isComplete, loss)
	s.state.listAt = time.Now().Add(max(s.minRest, s.state.restAfterList(time.Since(began), len(l.ids))))
}

// beginList returns the programs that are known when a list begins, and the losses that it may settle.
func (s *Source) beginList() (known map[uint32]bool, loss timeline.Interval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.relist = false
	ledger := s.state.follower.ledger
	ledger.BeginList()
	return s.state.follower.known(), ledger.Loss()
}

// endList applies a list, if that is complete, which was read to settle a loss.
func (s *state) endList(l *listing, isComplete bool, loss timeline.Interval) {
	isFirst := loss.From == math.MinInt64
	switch {
	case !isComplete:
		s.follower.ledger.AbortList()
	case s.follower.handleList(l) && !loss.IsEmpty() && !isFirst && !s.polls():
		s.follower.changes.Counts.Resyncs++
	}
	s.stale = true
	s.follower.ledger.Complete(s.complete)
	if isRefused(s.missing.list) {
		s.follower.toQuery = nil
	}
}

// restAfterList returns the time until the next list, given how long the last one took and how many programs it had.
func (s *state) restAfterList(took time.Duration, programs int) time.Duration {
	switch err := s.missing.list; {
	case s.polls():
		return max(pollInterval, pollShare*pollCost*time.Duration(programs))
	case err != nil && !isRefused(err):
		return retryEvery
	}
	return restFor * took
}

// catchUp applies records until they are complete up to an instant.
func (s *Source) catchUp(ctx context.Context, until int64) bool {
	const tries = 100
	for range tries {
		if s.drain() >= until {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return false
}

// queryNewPrograms queries the programs that records have announced. Where the functions of a program are not known
// from records, it requests a list, which shows them.
func (s *Source) queryNewPrograms() {
	s.mu.Lock()
	follower := s.state.follower
	ids, refused := follower.toQuery, isRefused(s.state.missing.list)
	follower.toQuery = nil
	s.mu.Unlock()
	if refused {
		return
	}
	found, left, err := s.run.lister.queryNew(ids)

	s.mu.Lock()
	defer s.mu.Unlock()
	follower.toQuery = append(left, follower.toQuery...)
	for _, is := range found {
		s.state.relist = !follower.fillIn(follower.ledger.At(is.image.Start), is) || s.state.relist
	}
	if err != nil {
		s.state.missing.program = err
	}
}

// findTracedFunctions finds the functions that trampolines belong to.
func (s *Source) findTracedFunctions() {
	s.mu.Lock()
	keys := s.state.follower.untraced()
	s.state.follower.traced.findAt = never
	s.mu.Unlock()
	found, err := s.run.functions.find(keys)

	s.mu.Lock()
	defer s.mu.Unlock()
	unknown := s.state.follower.handleTraced(found)
	if s.state.missing.traced = nil; unknown > 0 && err != nil {
		s.state.missing.traced = fmt.Errorf("%d trampolines: %w", unknown, err)
	}
}

// readKallsyms reads the end of /proc/kallsyms, and applies it if no record was lost in the meantime. If code was unloaded
// in the meantime, it is read again later.
func (s *Source) readKallsyms(ctx context.Context) {
	s.mu.Lock()
	s.state.follower.ledger.BeginList() // so that it keeps unloads
	s.mu.Unlock()
	began := s.run.lister.now()
	symbols, err := s.kallsyms.readSymbols(ctx, s.run.lister.pace)
	ended := s.run.lister.now()
	isComplete := s.catchUp(ctx, ended)
	var hidden error
	if err == nil && !symbols.hasBPF {
		hidden = hiddenError(s.kallsyms.procfs)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.follower.ledger.AbortList()
	switch {
	case ctx.Err() != nil:
	case !isComplete, !s.state.follower.ledger.Loss().IsEmpty():
		s.state.kallsyms.lost = time.Now()
	default:
		if hidden != nil && s.state.follower.needsSymbols(began) {
			err = hidden
		}
		s.state.follower.handleKallsyms(symbols.all, began, ended)
		s.state.kallsyms.finish(err, s.state.follower.ledger.AnyUnloaded(began))
		s.state.missing.kallsyms = err
	}
}
