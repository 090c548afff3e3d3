package kmod

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// heard is when events told of a module.
type heard struct {
	added   int64 // the last time, on the clock of lifetimes; 0 if none did
	removed int64 // the first time
}

// news is what events told.
type news struct {
	since  time.Time        // when the first came; zero if none did
	missed bool             // there may have been others, that nothing received
	heard  map[string]heard // by module
}

// receiver receives events as they come, also while files are read: an event does
// not say when it was sent, so that the time at which it is received must be close
// to that. Its methods but run are for one goroutine.
type receiver struct {
	conn   events
	stats  *symcache.Stats
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is received any more
	came   chan struct{} // has a value if something came

	mu   sync.Mutex // guards what follows
	news news
	err  error // why nothing is received any more
}

// startReceiver begins to receive from conn, which it closes in the end. What came
// before is missed.
func startReceiver(ctx context.Context, conn events, stats *symcache.Stats) *receiver {
	ctx, cancel := context.WithCancel(ctx)
	r := &receiver{
		conn: conn, stats: stats, cancel: cancel,
		done: make(chan struct{}), came: make(chan struct{}, 1),
		news: news{missed: true},
	}
	go r.run(ctx)
	return r
}

// close ends the reception.
func (r *receiver) close() {
	r.cancel()
	_ = r.conn.Close() // nothing was written
	<-r.done
}

func (r *receiver) run(ctx context.Context) {
	defer close(r.done)
	for {
		e, err := r.conn.Receive(ctx)
		at := now()
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, uevent.ErrSyntax) || err == nil && e.Subsystem != "module" {
			continue
		}
		if r.note(e, err, at); r.failed() != nil {
			return
		}
		select {
		case r.came <- struct{}{}:
		default: // nobody looked since the last
		}
	}
}

// note notes what Receive returned.
func (r *receiver) note(e uevent.Event, err error, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, uevent.ErrLost):
		r.stats.Lost(1)
		if !r.news.missed {
			r.stats.Resynced()
		}
		r.news.missed = true
	case err != nil:
		r.err, r.news.missed = err, true
	default:
		r.news.note(e, at)
	}
}

// take returns what came since the last time.
func (r *receiver) take() news {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.news
	r.news = news{missed: r.err != nil}
	return n
}

// failed returns why nothing is received any more, nil if something is.
func (r *receiver) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// note notes that an event of a module came.
func (n *news) note(e uevent.Event, at int64) {
	if n.heard == nil {
		n.since, n.heard = time.Now(), make(map[string]heard)
	}
	name := strings.TrimPrefix(e.DevPath, "/module/")
	h := n.heard[name]
	switch e.Action {
	case "add":
		h.added = at
	case "remove":
		if h.removed == 0 {
			h.removed = at
		}
	}
	n.heard[name] = h
}
