package kmod

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/kernelsym/kernelsym/internal/symcache"
)

// watcher says when to look at the list of modules.
type watcher struct {
	dial     func() (events, error)
	settle   time.Duration
	receiver *receiver // nil if there is none
	err      error     // why not
	retry    *backoff.ExponentialBackOff
	redial   time.Time
	stats    *symcache.Stats
}

// pollInterval is the time between two looks without events.
const pollInterval = time.Second

// newWatcher returns a watcher that receives events until it is closed or ctx is
// done.
func newWatcher(ctx context.Context, dial func() (events, error), settle time.Duration, stats *symcache.Stats) *watcher {
	w := &watcher{dial: dial, settle: settle, retry: backoff.NewExponentialBackOff(), stats: stats}
	w.retry.MaxInterval = time.Minute
	w.open(ctx)
	return w
}

func (w *watcher) open(ctx context.Context) {
	conn, err := w.dial()
	if err != nil {
		w.fail(err)
		return
	}
	w.receiver, w.err = startReceiver(ctx, conn, w.stats), nil
	w.retry.Reset()
}

// fail does without events for a while.
func (w *watcher) fail(err error) {
	w.close()
	w.err = fmt.Errorf("modules are looked at once a second only: %w", err)
	w.redial = time.Now().Add(w.retry.NextBackOff())
}

func (w *watcher) close() {
	if w.receiver != nil {
		w.receiver.close()
		w.receiver = nil
	}
}

// news returns what events told since the last time.
func (w *watcher) news() news {
	if w.receiver == nil {
		return news{missed: true}
	}
	return w.receiver.take()
}

// wait waits until there may be something new, at most for the given time if that
// is not 0. It reports false when ctx is done.
func (w *watcher) wait(ctx context.Context, again time.Duration) bool {
	if w.receiver == nil {
		return w.poll(ctx)
	}
	var enough <-chan time.Time
	if again > 0 {
		timer := time.NewTimer(again)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-enough:
	case <-w.receiver.done:
	case <-w.receiver.came:
		if !sleep(ctx, w.settle) { // for more of the same kind
			return false
		}
		select {
		case <-w.receiver.came:
		default:
		}
	}
	if err := w.receiver.failed(); err != nil {
		w.fail(err)
	}
	return ctx.Err() == nil
}

// poll is wait without events.
func (w *watcher) poll(ctx context.Context) bool {
	if !sleep(ctx, pollInterval) {
		return false
	}
	if time.Now().Before(w.redial) {
		return true
	}
	if w.open(ctx); w.receiver != nil {
		w.stats.Resynced()
	}
	return true
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
