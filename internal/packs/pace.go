// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"context"
	"time"
)

// How long after the start of one request the next may start.
const (
	fetchInterval = time.Second
	missInterval  = 100 * time.Millisecond // if the server has answered by then that it has no pack
)

// A pace says when the next request may start: it has an element then.
//
//	         fetchInterval
//	request ├─────────────────────► next request
//	request ├──► 404   next request
//	        └────────►
//	       missInterval
type pace chan struct{}

func newPace() pace {
	p := make(pace, 1)
	p <- struct{}{}
	return p
}

// start waits until a request may start. It returns false if ctx is done.
func (p pace) start(ctx context.Context) (request, bool) {
	select {
	case <-ctx.Done():
		return request{}, false
	case <-p:
		return request{time.Now(), time.AfterFunc(fetchInterval, func() { p <- struct{}{} })}, true
	}
}

// A request holds up those after it.
type request struct {
	at   time.Time
	next *time.Timer
}

// missed lets the next request start earlier, unless it could already start.
func (r request) missed() {
	if r.next.Stop() {
		r.next.Reset(missInterval - time.Since(r.at))
	}
}
