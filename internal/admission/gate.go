// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxRequests is the number of requests whose messages are received and handled at once. One host has 3 of them at most.
	maxRequests = 4
	// maxWaiting is the number of requests that wait until they are received. Each can have sent a window of data. One host has
	// 256 of them at most.
	maxWaiting = 384
	// patience is how long a request waits for its turn, then for the end of its message, then for memory.
	patience = 5 * time.Second
	// retryAfter is when a sender whose request was refused should try again.
	retryAfter = time.Second
)

// Reasons to refuse a request.
var (
	ErrBusy     = errors.New("no memory for this message now")
	ErrTooLarge = errors.New("the message would take too much memory")
)

// A Gate decides when the message of a request is decoded. Its methods are safe for concurrent use.
type Gate struct {
	limit      int64 // bytes of memory that must not be exceeded when a message is decoded
	maxMessage int64 // bytes of memory that one message may take
	refused    func(error)

	queue *queue // the requests that wait until they are received

	turn     sync.Mutex   // held by the request whose message is next
	full     atomic.Bool  // the last message found no memory in time
	admitted atomic.Int64 // cost of the messages that have not been released

	patience time.Duration
	used     func() int64
	collect  func()
}

// New returns a gate that leaves headroom below Go's memory limit for the copies that exporters make, and admits messages
// that take up to maxMessage. It calls refused with the reason of each refusal. Without a memory limit, it only limits the
// number of requests and the size of each.
func New(headroom, maxMessage int64, refused func(error)) (*Gate, error) {
	limit := debug.SetMemoryLimit(-1)
	if limit < headroom+maxMessage {
		return nil, fmt.Errorf("GOMEMLIMIT is less than headroom and max_message together: %d MiB", limit>>20)
	}
	return newGate(limit-headroom, maxMessage, refused), nil
}

func newGate(limit, maxMessage int64, refused func(error)) *Gate {
	return &Gate{
		limit: limit, maxMessage: maxMessage, refused: refused,
		queue:    newQueue(maxRequests, maxWaiting),
		patience: patience, used: memoryUsed, collect: runtime.GC,
	}
}

// enter waits for some time until the message of a request of a host may be received. Each call without an error must be
// followed by one of leave.
func (g *Gate) enter(ctx context.Context, host string) error {
	if !g.queue.reserve(host) {
		return ErrBusy
	}
	t := g.queue.wait(host)
	ctx, cancel := context.WithTimeout(ctx, g.patience)
	defer cancel()
	select {
	case <-t.turn:
	case <-ctx.Done():
		if g.queue.quit(t) {
			return ErrBusy
		}
	}
	return nil
}

// waitToEnter is enter for a request that has a place already, and cannot be refused any more.
func (g *Gate) waitToEnter(host string) { <-g.queue.wait(host).turn }

// leave ends a request of a host.
func (g *Gate) leave(host string) { g.queue.end(host) }

// admit waits until a message of this cost may be decoded. Messages are admitted in turn. Once a message has waited in vain,
// only one at a time waits until another is admitted. Each call without an error must be followed by one of release.
func (g *Gate) admit(cost int64) error {
	if cost > g.maxMessage {
		return ErrTooLarge
	}
	deadline := time.Now().Add(g.patience)
	if !g.full.Load() {
		g.turn.Lock()
	} else if !g.turn.TryLock() {
		return ErrBusy
	}
	defer g.turn.Unlock()
	for !g.fits(cost) {
		start := time.Now()
		g.collect() // garbage counts as used
		if g.fits(cost) {
			break
		}
		if start.After(deadline) {
			g.full.Store(true)
			return ErrBusy
		}
		time.Sleep(2*time.Since(start) + time.Millisecond) // collecting takes a third of the time
	}
	g.full.Store(false)
	g.admitted.Add(cost)
	return nil
}

func (g *Gate) fits(cost int64) bool { return g.used()+g.admitted.Load()+cost <= g.limit }

// release ends what admit has begun.
func (g *Gate) release(cost int64) { g.admitted.Add(-cost) }

// memoryUsed returns the memory that counts against Go's memory limit, without free memory.
func memoryUsed() (n int64) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64()) //nolint:gosec // at most 1<<63
}
