// SPDX-License-Identifier: Apache-2.0

package packs

import "context"

// A queue wakes the goroutines that do a step. It has an element if a goroutine is to wake.
type queue chan struct{}

func newQueue() queue { return make(queue, 1) }

// wake wakes one waiting goroutine or, if there is none, the next one that waits.
func (q queue) wake() {
	select {
	case q <- struct{}{}:
	default:
	}
}

// wait waits until there may be something to do. It returns false if ctx is done.
func (q queue) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-q:
		return true
	}
}
