// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// A Source publishes the loadable modules and their symbols.
type Source struct {
	roots        roots
	settle       time.Duration // how long Run waits for further changes before it reads the list
	scanRequests chan struct{} // has a value if Run must read the list

	mu    sync.Mutex // guards state; not held while files are read
	state state
}

// state is everything about a Source that changes.
type state struct {
	tracker *tracker // of all runs
	feed    *feed
	publish func(symcache.Update) // nil until the first scan of a run is complete, and after the run
}

// NewSource returns a source that reads below procfs and sysfs, the directories where /proc and /sys
// are mounted. After a change, the source waits for further ones before it reads the list; settle says
// how long. limits say for how long, and how many, unloaded modules stay known.
func NewSource(procfs, sysfs string, settle time.Duration, limits timeline.Limits) *Source {
	return &Source{
		roots:  roots{procfs, sysfs, runtime.GOARCH},
		settle: settle, scanRequests: make(chan struct{}, 1),
		state: state{
			tracker: newTracker(limits),
			feed:    newFeed(func() (connection, error) { return uevent.Dial() }),
		},
	}
}

// Name returns "modules".
func (*Source) Name() string { return "modules" }

// now reads the clock of lifetimes.
func now() int64 { return perfring.Boottime.Now() }

// After a scan that was not complete, Run waits before it reads symbols again: first minRetry, then twice
// as long each time, up to maxRetry. Where modules are loaded and unloaded all the time, reading symbols
// must not take up a whole CPU. The list does not wait for that.
const (
	minRetry = 20 * time.Millisecond
	maxRetry = time.Second
)

// Run publishes a table of the modules, and another one whenever modules were loaded or unloaded. The
// first table has the symbols. Later, a new module is published before its symbols are read, and again
// afterwards. For a kernel without loadable modules, the table is empty. Without sysfs, or without
// events, modules are published as degraded. Run returns an error if it cannot read the two files in
// procfs, and kallsyms.ErrRestricted if the kernel hides its addresses.
//
// Run can be called again; only one goroutine at a time may call it. The time between two runs is blind.
func (s *Source) Run(ctx context.Context, publish func(symcache.Update)) error {
	waiting, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		s.stop()
	}()
	var retry time.Duration
	var retryAt time.Time // zero if all is complete
	for reader := newReader(s); ctx.Err() == nil; s.wait(ctx, retryAt) {
		s.connect(waiting) // before anything is listed, or a module that is loaded in between is missed
		withSymbols := !time.Now().Before(retryAt)
		complete, err := reader.scan(publish, withSymbols)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return err
		case complete:
			retry, retryAt = 0, time.Time{}
		case withSymbols:
			retry = min(max(2*retry, minRetry), maxRetry)
			retryAt = time.Now().Add(retry)
		}
	}
	return nil
}

// connect begins to receive events, if there is no connection and it is time to try. Events from before
// a new connection are lost.
func (s *Source) connect(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.feed.open(ctx, s.poll, s.feedFailed) {
		s.state.tracker.applyLoss()
	}
}

// stop ends a run.
func (s *Source) stop() {
	s.mu.Lock()
	s.state.publish = nil
	s.state.feed.disconnect()
	s.state.tracker.applyLoss()
	s.mu.Unlock()
	s.state.feed.waiters.Wait()
}

// wait waits until Run must read the list: until a scan is requested, until retryAt unless it is zero, or
// otherwise, if no events are received, until the next poll.
func (s *Source) wait(ctx context.Context, retryAt time.Time) {
	var expired <-chan time.Time
	if !retryAt.IsZero() {
		expired = time.After(time.Until(retryAt))
	} else if s.polls() {
		expired = time.After(pollInterval)
	}
	select {
	case <-ctx.Done():
	case <-expired:
	case <-s.scanRequests:
		if s.needsList() {
			select { // further changes may follow
			case <-ctx.Done():
			case <-time.After(s.settle):
			}
		}
	}
}

// polls reports whether no events are received.
func (s *Source) polls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.feed.conn == nil
}

// needsList reports whether there was a change that a list must confirm.
func (s *Source) needsList() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.tracker.needsList()
}

// poll applies the events that have arrived, and has Run read the list every scanInterval. If none has
// arrived, a module that is unloaded later was certainly loaded until now.
func (s *Source) poll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drain(); s.state.tracker.changed {
		s.state.publishTable()
	}
	if s.state.feed.isScanDue() {
		s.requestScan()
	}
}

// feedFailed gives up a connection that failed, unless it was closed before.
func (s *Source) feedFailed(conn connection, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.feed.conn == conn {
		s.state.feed.fail(err)
		s.state.tracker.applyLoss()
		s.requestScan()
	}
}

// Refresh applies the events that have arrived and publishes a table. If modules were loaded since the
// last list was read, it does not wait for the next one: nothing is certain after they were loaded.
func (s *Source) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.feed.conn == nil {
		return // there is nothing new
	}
	s.drain()
	s.state.publishTable()
}

// drain applies the events that have arrived, and requests a scan if they need a list. The caller holds
// the lock.
func (s *Source) drain() {
	s.state.feed.drain(s.state.tracker)
	if s.state.tracker.needsList() {
		s.requestScan()
	}
}

// requestScan has Run read the list.
func (s *Source) requestScan() {
	select {
	case s.scanRequests <- struct{}{}:
	default: // a request is pending
	}
}

// publishTable publishes a table, but not before the first scan of a run is complete. The caller holds
// the lock.
func (s *state) publishTable() {
	if s.publish == nil {
		return
	}
	s.publish(symcache.Update{
		Table:    s.tracker.table(now()),
		Degraded: errors.Join(s.tracker.degraded(), s.feed.err),
		Changes:  s.tracker.changes.Take(),
	})
}
