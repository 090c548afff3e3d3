// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
)

// schedule says when to do what records do not ask for.
type schedule struct {
	listAt  time.Time // when programs may be listed again
	relist  bool      // they are to be listed although no record was lost
	kept    time.Time // when old images were evicted last, and CPUs looked for
	looked  int64     // before the CPUs that have rings were looked for last, on the clock of records
	hotplug bool      // a CPU came online or went offline
	wake    func()    // ends waiting for records
}

const (
	// housekeeping is the time between two looks at what to evict and at the CPUs, when
	// nothing else happens. Where uevents do not arrive, lookWithoutEvents is: nothing is certain
	// after the last look.
	housekeeping      = 10 * time.Second
	lookWithoutEvents = time.Second

	// restFor is how many times as long as a list took it is until the next, so that lost
	// records that are followed by more do not take a CPU.
	restFor = 10

	// retryEvery is the time until the kernel is asked again for what it failed to tell.
	retryEvery = 10 * time.Second
)

// never is later than anything that is waited for.
var never = time.Unix(1<<40, 0)

// lookInterval returns the time between two looks at the CPUs. The connection does not change while
// Run waits.
func (s *state) lookInterval() time.Duration {
	if s.cpus == nil {
		return lookWithoutEvents
	}
	return housekeeping
}

// keepHouse evicts old images and looks for new CPUs, now and then.
func (s *Source) keepHouse() error {
	s.mu.Lock()
	at := s.now()
	hotplug, due := s.hotplug, time.Since(s.kept) >= s.lookInterval()
	if due {
		s.kept = time.Now()
		s.changed = s.history.Evict(s.now()) || s.changed
	}
	s.mu.Unlock()
	if !hotplug && !due {
		return nil
	}
	if err := s.recorder.RefreshCPUs(hotplug); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.polls() {
		s.looked = at
	}
	s.hotplug = s.hotplug && !hotplug // another event may have come since
	s.readCPUs()
	return nil
}

// publishResumed publishes what is known after a pause in which no record was lost, before
// anything is listed or read again.
func (s *Source) publishResumed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return
	}
	s.state.drain()
	if s.ready = !s.losses.any(); s.ready {
		s.publishTable()
	}
}

// round applies the records that there are, finds out what they do not tell, publishes
// all of that as one table, and returns when the next round is due at the latest.
func (s *Source) round(ctx context.Context) (deadline time.Time, err error) {
	s.drain()
	for asked := false; ctx.Err() == nil; {
		s.mu.Lock()
		ask, listAt, tailAt := len(s.ask) > 0, s.listDue(), s.tail.due()
		s.mu.Unlock()
		switch at := time.Now(); {
		case !listAt.After(at):
			s.list(ctx)
		case ask && !asked:
			asked = true
			s.describeNew()
		case !tailAt.After(at):
			s.readTail(ctx)
		case ask:
			return at, s.finishRound()
		default:
			deadline = at.Add(s.lookInterval())
			for _, due := range []time.Time{listAt, tailAt} {
				if due.Before(deadline) {
					deadline = due
				}
			}
			return deadline, s.finishRound()
		}
	}
	return time.Time{}, nil
}

// finishRound publishes what has changed. It returns an error if nothing ever will.
func (s *Source) finishRound() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polls() && isRefused(s.missing.list) && !errors.Is(s.missing.list, bpf.ErrUnsupported) {
		return errors.Join(s.missing.records, s.missing.list)
	}
	if s.changed || !s.ready {
		s.ready = true
		s.publishTable()
	}
	return nil
}

// listDue returns when to list programs.
func (s *state) listDue() time.Time {
	switch {
	case s.losses.any() || s.relist:
		return s.listAt
	case s.missing.again():
		return s.listAt.Add(retryEvery)
	}
	return never
}

// list lists the programs, and brings what is known into line with that.
func (s *Source) list(ctx context.Context) {
	began := time.Now()
	s.mu.Lock()
	known, lost, polls := s.described(), s.losses.any(), s.polls()
	isFirst := lost && s.losses.from() == math.MinInt64
	s.relist = false
	s.mu.Unlock()
	l, err := s.lister.list(ctx, known, lost && !polls)
	refused := isRefused(err)
	l.ok = refused || err == nil && s.catchUp(ctx, l.ended)

	s.mu.Lock()
	defer s.mu.Unlock()
	if l.ok = l.ok && ctx.Err() == nil; ctx.Err() != nil {
		s.reconcile(l)
		s.relist, s.listAt = true, time.Time{} // at once, if there is another run
		return
	}
	if s.reconcile(l) && lost && !isFirst && !polls {
		s.Resyncs++
	}
	s.advance(s.drained)
	s.missing.list, s.missing.program, s.changed = err, l.err, true
	if refused {
		s.ask = nil
	}
	took := time.Since(began)
	rest := restFor * took
	switch {
	case polls:
		rest = max(pollInterval, pollShare*pollCost*time.Duration(len(l.alive)))
	case err != nil && !refused:
		rest = retryEvery
	}
	s.listAt = time.Now().Add(rest)
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

// describeNew asks for programs that records have named. Where it is not known what a
// program's functions are, a list will tell.
func (s *Source) describeNew() {
	s.mu.Lock()
	ids, refused := s.ask, isRefused(s.missing.list)
	s.ask = nil
	s.mu.Unlock()
	if refused {
		return
	}
	found, rest, err := s.lister.ask(ids)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask = append(rest, s.ask...)
	for _, f := range found {
		s.relist = !s.describe(s.history.At(f.Start), f) || s.relist
	}
	if err != nil {
		s.missing.program, s.changed = err, true
	}
}

// readTail reads the end of /proc/kallsyms.
func (s *Source) readTail(ctx context.Context) {
	s.mu.Lock()
	s.losses.listing = true // so that unloads are kept
	s.mu.Unlock()
	began := s.now()
	lines, err := s.tail.lines(ctx, s.lister.pace)
	ended := s.now()
	complete := s.catchUp(ctx, ended)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses.finish(false)
	complete = complete && !s.losses.any()
	if ctx.Err() != nil {
		return
	}
	if !complete {
		s.tail.lost = time.Now()
		return
	}
	s.tail.read = time.Now()
	s.take(lines, began, ended)
	if err == nil || errors.Is(err, errBudget) {
		s.tail.done(err != nil)
	}
	s.missing.tail = err
}
