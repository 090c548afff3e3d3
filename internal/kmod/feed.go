// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// A connection receives the kernel's events about modules; *uevent.Conn is one.
type connection interface {
	Poll() (e uevent.Event, ok bool, err error)
	Wait(ctx context.Context, deadline time.Time) error
	Close() error
}

// Without events, Run reads the list at every poll. With events, a poll only reads the events that
// have arrived, and Run reads the list every few polls, as a safety net.
const (
	pollInterval = time.Second
	scanInterval = 10 * pollInterval
)

// A feed is the connection from which events are read. Its caller holds the lock of the source. Only
// the goroutine that open starts does not hold it.
type feed struct {
	dial      func() (connection, error)
	now       func() int64   // reads the clock of lifetimes
	conn      connection     // nil if there is none
	err       error          // why there is no connection
	redialAt  time.Time      // when open may dial again
	scannedAt time.Time      // when the last scan began
	waiters   sync.WaitGroup // of the goroutines that wait for events
}

func newFeed(dial func() (connection, error)) *feed {
	return &feed{dial: dial, now: perfring.Boottime.Now}
}

// open begins to receive events, if there is no connection and it is time to try. It reports whether
// this call opened a connection. Until ctx is done, a goroutine calls poll, without the lock, whenever
// there may be events to read, and at every pollInterval. If the connection fails, the goroutine calls
// failed and ends.
func (f *feed) open(ctx context.Context, poll func(), failed func(conn connection, err error)) (opened bool) {
	if f.conn != nil || time.Now().Before(f.redialAt) {
		return false
	}
	conn, err := f.dial()
	if err != nil {
		f.fail(err)
		return false
	}
	f.conn, f.err = conn, nil
	f.waiters.Go(func() {
		for {
			if err := conn.Wait(ctx, time.Now().Add(pollInterval)); ctx.Err() != nil {
				return
			} else if err != nil {
				failed(conn, err)
				return
			}
			poll()
		}
	})
	return true
}

// isScanDue reports whether Run must read the list even if no event asks for it.
func (f *feed) isScanDue() bool { return time.Since(f.scannedAt) >= scanInterval }

// fail closes the connection. For a while, the source does without events.
func (f *feed) fail(err error) {
	f.disconnect()
	f.err = fmt.Errorf("falling back to polling modules every second: %w", err)
	f.redialAt = time.Now().Add(pollInterval)
}

// disconnect closes the connection, if there is one.
func (f *feed) disconnect() {
	if f.conn != nil {
		_ = f.conn.Close() // nothing was written
	}
	f.conn, f.redialAt = nil, time.Time{}
}

// drain applies the events that have arrived, without waiting for more.
func (f *feed) drain(t *tracker) {
	for f.conn != nil {
		at := f.now()
		switch e, ok, err := f.conn.Poll(); {
		case ok:
			if name, ok := moduleOf(e); ok {
				t.applyEvent(e.Action, name, f.now(), time.Now())
			}
		case err == nil:
			t.applyEmpty(at)
			return
		case errors.Is(err, uevent.ErrLost):
			t.changes.Counts.LostRecords++
			t.applyLoss()
		case !errors.Is(err, uevent.ErrSyntax):
			f.fail(err)
			t.applyLoss()
		}
	}
}

// moduleOf returns the name of the module that was loaded or unloaded according to an event. ok is false
// for other events, and if the kernel sent the event because a program in user space asked for it.
func moduleOf(e uevent.Event) (name string, ok bool) {
	return strings.TrimPrefix(e.DevPath, "/module/"), e.Subsystem == "module" && !e.Synthetic
}
