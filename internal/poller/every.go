// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"context"
	"time"
)

// Every calls f each time an interval has passed, until ctx is done.
func Every(ctx context.Context, interval time.Duration, f func()) {
	if p, err := New(); err == nil {
		defer p.Close() //nolint:errcheck // nothing was written
		for p.Sleep(ctx, time.Now().Add(interval)) == nil {
			f()
		}
	}
	tick(ctx, interval, f) // on another system, or if too many files are open
}

// EveryOrStep is like Every, but also calls f when the wall clock is set, if the kernel reports
// that.
func EveryOrStep(ctx context.Context, interval time.Duration, f func()) {
	everyOrStep(ctx, interval, f)
	Every(ctx, interval, f) // on another system, or if too many files are open
}

// tick is Every with a timer of the Go runtime.
func tick(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if ctx.Err() == nil { // both can be ready
				f()
			}
		}
	}
}
