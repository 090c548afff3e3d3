package kmod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// watcher says when to look at the list of modules.
type watcher struct {
	dial   func() (events, error)
	settle time.Duration
	conn   events // nil if there is none
	err    error  // why not
	retry  *backoff.ExponentialBackOff
	redial time.Time
	stats  *symcache.Stats
	since  time.Time        // when the first event came of those that wait waited for; zero if none came
	lost   bool             // events were lost meanwhile
	told   map[string]heard // what events told meanwhile, by module
}

// pollInterval is the time between two looks without events.
const pollInterval = time.Second

func newWatcher(dial func() (events, error), settle time.Duration, stats *symcache.Stats) *watcher {
	w := &watcher{dial: dial, settle: settle, retry: backoff.NewExponentialBackOff(), stats: stats, told: make(map[string]heard)}
	w.retry.MaxInterval = time.Minute
	w.open()
	return w
}

func (w *watcher) open() {
	conn, err := w.dial()
	if err != nil {
		w.fail(err)
		return
	}
	w.conn, w.err = conn, nil
	w.retry.Reset()
}

// fail does without events for a while.
func (w *watcher) fail(err error) {
	w.close()
	w.err = fmt.Errorf("modules are looked at once a second only: %w", err)
	w.redial = time.Now().Add(w.retry.NextBackOff())
}

func (w *watcher) close() {
	if w.conn != nil {
		_ = w.conn.Close() // nothing was written
		w.conn = nil
	}
}

// wait waits until there may be something new, at most for the given time if that
// is not 0. It reports false when ctx is done.
func (w *watcher) wait(ctx context.Context, again time.Duration) bool {
	w.since, w.lost = time.Time{}, false
	clear(w.told)
	defer func() {
		if w.lost {
			w.stats.Resynced()
		}
	}()
	if w.conn == nil {
		if !sleep(ctx, pollInterval) {
			return false
		}
		if !time.Now().Before(w.redial) {
			w.open()
			w.lost = w.conn != nil
		}
		return true
	}
	waitCtx, cancel := ctx, context.CancelFunc(func() {})
	if again > 0 {
		waitCtx, cancel = context.WithTimeout(ctx, again)
	}
	defer cancel()
	if !w.receive(waitCtx) {
		return ctx.Err() == nil
	}
	// For more of the same kind.
	settleCtx, cancelSettle := context.WithTimeout(ctx, w.settle)
	defer cancelSettle()
	for w.conn != nil && w.receive(settleCtx) { //nolint:revive // until it is quiet or the time is over
	}
	return ctx.Err() == nil
}

// receive waits for an event of a module, and reports whether it came before ctx
// was done. It is as good as one that events were lost.
func (w *watcher) receive(ctx context.Context) bool {
	for {
		e, err := w.conn.Receive(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case errors.Is(err, uevent.ErrLost):
			w.stats.Lost(1)
			w.lost = true
			return true
		case errors.Is(err, uevent.ErrSyntax):
		case err != nil:
			w.fail(err)
			return true
		case e.Subsystem == "module":
			if w.since.IsZero() {
				w.since = time.Now()
			}
			w.note(e)
			return true
		}
	}
}

// note notes when an event told of a module.
func (w *watcher) note(e uevent.Event) {
	name := strings.TrimPrefix(e.DevPath, "/module/")
	t := w.told[name]
	switch e.Action {
	case "add":
		t.added = now()
	case "remove":
		if t.removed == 0 {
			t.removed = now()
		}
	}
	w.told[name] = t
}

// sleep waits and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
