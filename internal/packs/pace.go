// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"context"
	"time"
)

// How long after the start of one fetch the next may start.
const (
	fetchInterval = time.Second
	missInterval  = 100 * time.Millisecond // if the server has answered by then that it has no pack
)

// A pace says when the next fetch may start: it has an element then.
//
//	       fetchInterval
//	fetch ├─────────────────────► next fetch
//	fetch ├──► 404   next fetch
//	      └────────►
//	     missInterval
type pace chan struct{}

func newPace() pace {
	p := make(pace, 1)
	p.allow()
	return p
}

// wait waits until a fetch may start. It returns false if ctx is done. Otherwise the caller calls start or allow.
func (p pace) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-p:
		return true
	}
}

// allow lets a fetch start.
func (p pace) allow() { p <- struct{}{} }

// start starts a fetch, which holds up the next one. The fetch calls missed, which lets that start earlier unless it
// already could, if the server has no pack.
func (p pace) start() (missed func()) {
	began, next := time.Now(), time.AfterFunc(fetchInterval, p.allow)
	return func() {
		if next.Stop() {
			next.Reset(missInterval - time.Since(began))
		}
	}
}
