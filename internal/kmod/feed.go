// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// events is what says that modules come and go; *uevent.Conn is one.
type events interface {
	Poll() (e uevent.Event, ok bool, err error)
	Wait(ctx context.Context, deadline time.Time) error
	Close() error
}

// Without events, the list is read at each look. With events, a look only asks whether any
// have come, and the list is read every few looks, as a safety net.
const (
	lookInterval = time.Second
	scanInterval = 10 * lookInterval
)

// feed is the connection from which events are read. Its methods need the lock of the
// source, but for its goroutine.
type feed struct {
	dial    func() (events, error)
	now     func() int64 // reads the clock of lifetimes
	conn    events       // nil if there is none
	err     error        // why not
	redial  time.Time
	scanned time.Time // when the last scan began
	watched bool      // a goroutine waits for events
	waiting sync.WaitGroup
}

func newFeed(dial func() (events, error)) *feed {
	return &feed{dial: dial, now: perfring.Boottime.Now}
}

// open begins to receive events, if there is no connection and it is time to try. Until ctx
// is done, look is called, without the lock, whenever there may be something to read, and at each
// interval; or failed, if there will be no more. It reports whether the reception begins with this
// call.
func (f *feed) open(ctx context.Context, look func(), failed func(conn events, err error)) (begins bool) {
	if f.conn == nil {
		if time.Now().Before(f.redial) {
			return false
		}
		conn, err := f.dial()
		if err != nil {
			f.fail(err)
			return false
		}
		f.conn, f.err, begins = conn, nil, true
	}
	if conn := f.conn; !f.watched {
		f.watched = true
		f.waiting.Go(func() {
			for {
				if err := conn.Wait(ctx, time.Now().Add(lookInterval)); ctx.Err() != nil {
					return
				} else if err != nil {
					failed(conn, err)
					return
				}
				look()
			}
		})
	}
	return begins
}

// isScanDue reports whether the list is to be read although no event says so.
func (f *feed) isScanDue() bool { return time.Since(f.scanned) >= scanInterval }

// fail does without events for a while.
func (f *feed) fail(err error) {
	f.disconnect()
	f.err = fmt.Errorf("falling back to polling modules every second: %w", err)
	f.redial = time.Now().Add(lookInterval)
}

// disconnect ends the reception.
func (f *feed) disconnect() {
	if f.conn != nil {
		_ = f.conn.Close() // nothing was written
	}
	f.conn, f.watched, f.redial = nil, false, time.Time{}
}

// drain reads the events that have come, without waiting, and applies them.
func (f *feed) drain(r *record) {
	for f.conn != nil {
		at := f.now()
		switch e, ok, err := f.conn.Poll(); {
		case ok:
			if name, ok := moduleOf(e); ok {
				r.event(e.Action, name, f.now(), time.Now())
			}
		case err == nil:
			r.emptied(at)
			return
		case errors.Is(err, uevent.ErrLost):
			r.changes.Counts.LostRecords++
			r.lost()
		case !errors.Is(err, uevent.ErrSyntax):
			f.fail(err)
			r.lost()
		}
	}
}
