// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"context"

	"golang.org/x/time/rate"
)

// A queue wakes the goroutines that do a step.
type queue struct {
	wakes chan struct{} // has an element if a goroutine is to wake
	limit *rate.Limiter
}

func newQueue(limit rate.Limit) queue {
	return queue{wakes: make(chan struct{}, 1), limit: rate.NewLimiter(limit, 1)}
}

// wake wakes one waiting goroutine or, if there is none, the next one that waits.
func (q queue) wake() {
	select {
	case q.wakes <- struct{}{}:
	default:
	}
}

// wait waits until there may be something to do, and the rate limit allows it. It returns false
// if ctx is done.
func (q queue) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-q.wakes:
		return q.limit.Wait(ctx) == nil
	}
}
