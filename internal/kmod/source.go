// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// A Source publishes the loadable modules and their symbols.
type Source struct {
	roots
	settle time.Duration
	wanted chan struct{} // has a value if the list is to be read

	mu      sync.Mutex // guards what follows; not held while files are read
	record  *record    // of all runs
	feed    *feed
	publish func(symcache.Update) // nil until the first scan of a run is whole, and after it
}

// NewSource returns a source that reads below procfs and sysfs, the directories
// at which /proc and /sys are mounted. After a change it waits for settle, for
// further changes, before it reads. What is unloaded stays known as limits say.
func NewSource(procfs, sysfs string, settle time.Duration, limits timeline.Limits) *Source {
	return &Source{
		roots: roots{procfs, sysfs, runtime.GOARCH}, settle: settle, wanted: make(chan struct{}, 1),
		record: newRecord(limits), feed: newFeed(func() (events, error) { return uevent.Dial() }),
	}
}

// Name returns "modules".
func (*Source) Name() string { return "modules" }

// now reads the clock of lifetimes.
func now() int64 { return perfring.Boottime.Now() }

// moduleOf returns the name of the module that has come or gone, as an event says.
func moduleOf(e uevent.Event) (name string, ok bool) {
	return strings.TrimPrefix(e.DevPath, "/module/"), e.Subsystem == "module" && !e.Synthetic
}

// While a scan was not whole, the time until the next one doubles from the first to the
// last of these: where modules come and go all the time, reading symbols must not take all
// of a CPU.
const (
	minAgain = 20 * time.Millisecond
	maxAgain = time.Second
)

// Run publishes the modules, and anew when modules were loaded or unloaded: the
// first time with their symbols, later before they are read and once they were. A
// kernel without loadable modules has an empty table. Without what sysfs has,
// and without events, modules are published as degraded. Errors are those of
// reading the two files in procfs, and kallsyms.ErrRestricted.
//
// Run can be called again, by one goroutine at a time. The time in between is blind, unless
// the run before ended because of symcache.ErrPaused: then events wait for the next one.
func (s *Source) Run(ctx context.Context, publish func(symcache.Update)) error {
	waiting, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		if errors.Is(context.Cause(ctx), symcache.ErrPaused) {
			s.pause()
		} else {
			s.stop()
		}
	}()
	again := time.Duration(0)
	for reader := newReader(s); ctx.Err() == nil; s.wait(ctx, again) {
		s.mu.Lock()
		if s.feed.open(waiting, s.look, s.failed) { // before anything is listed, or what is loaded in between is missed
			s.record.lost()
		}
		s.mu.Unlock()
		whole, err := reader.scan(publish)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return err
		case whole:
			again = 0
		default:
			again = min(max(2*again, minAgain), maxAgain)
		}
	}
	return nil
}

// pause ends a run, after which another goes on with the same connection.
func (s *Source) pause() {
	s.feed.waiting.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.watched = false
}

// stop ends a run.
func (s *Source) stop() {
	s.mu.Lock()
	s.publish = nil
	s.feed.disconnect()
	s.record.lost()
	s.mu.Unlock()
	s.feed.waiting.Wait()
}

// wait waits for the given time, or if that is 0, until the list is to be read.
func (s *Source) wait(ctx context.Context, again time.Duration) {
	wanted := s.wanted
	if again > 0 {
		wanted = nil
	} else if s.polls() {
		again = lookInterval
	}
	var over <-chan time.Time
	if again > 0 {
		over = time.After(again)
	}
	select {
	case <-ctx.Done():
	case <-over:
	case <-wanted:
		if s.pending() {
			select { // for more of the same kind
			case <-ctx.Done():
			case <-time.After(s.settle):
			}
		}
	}
}

// polls reports whether no events come.
func (s *Source) polls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feed.conn == nil
}

// pending reports whether something came that the list must confirm.
func (s *Source) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.pending()
}

// look applies events as they come, and has the list read now and then. Where none has come,
// a module that goes certainly was there until now.
func (s *Source) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drain(); s.record.changed {
		s.flush()
	}
	if s.feed.isScanDue() {
		s.wantScan()
	}
}

// failed does without a connection that failed, unless that was closed.
func (s *Source) failed(conn events, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.feed.conn == conn {
		s.feed.fail(err)
		s.record.lost()
		s.wantScan()
	}
}

// Refresh publishes what events say until now. What was loaded since the list was read is
// not waited for: nothing is certain after it.
func (s *Source) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.feed.conn == nil {
		return // there is nothing new
	}
	s.drain()
	s.flush()
}

// drain applies the events that have come. The caller holds the lock.
func (s *Source) drain() {
	s.feed.drain(s.record)
	if s.record.pending() {
		s.wantScan()
	}
}

// wantScan has Run read the list.
func (s *Source) wantScan() {
	select {
	case s.wanted <- struct{}{}:
	default: // it knows
	}
}

// flush publishes what is known. The caller holds the lock.
func (s *Source) flush() {
	if s.publish == nil {
		return
	}
	s.publish(symcache.Update{
		Table:    s.record.table(now()),
		Degraded: errors.Join(s.record.degraded(), s.feed.err),
		Changes:  s.record.changes.Take(),
	})
}
