// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// A fakeConn is a connection whose events come from the test.
type fakeConn struct {
	mu     sync.Mutex
	queue  []any // events and errors
	ready  chan struct{}
	closed chan struct{}
}

func newFakeConn() *fakeConn {
	return &fakeConn{ready: make(chan struct{}, 1), closed: make(chan struct{})}
}

// send appends events and errors to the queue.
func (f *fakeConn) send(events ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, events...)
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

func (f *fakeConn) Poll() (uevent.Event, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		return uevent.Event{}, false, nil
	}
	next := f.queue[0]
	f.queue = f.queue[1:]
	if err, ok := next.(error); ok {
		return uevent.Event{}, false, err
	}
	return next.(uevent.Event), true, nil
}

func (f *fakeConn) Wait(ctx context.Context, deadline time.Time) error {
	select {
	case <-time.After(time.Until(deadline)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ready:
		return nil
	case <-f.closed:
		return os.ErrClosed
	}
}

func (f *fakeConn) Close() error {
	close(f.closed)
	return nil
}

func added(module string) uevent.Event   { return eventOf("add", module) }
func removed(module string) uevent.Event { return eventOf("remove", module) }

func eventOf(action, module string) uevent.Event {
	return uevent.Event{Action: action, DevPath: "/module/" + module, Subsystem: "module"}
}

// A stepper makes the scans of a source one by one.
type stepper struct {
	t         *testing.T
	source    *Source
	reader    *reader
	conn      *fakeConn // nil if events are refused
	last      symcache.Update
	published int // number of updates
	counts    symcache.Counts
}

func newStepper(t *testing.T, s *Source) *stepper {
	return &stepper{t: t, source: s, reader: newReader(s)}
}

// stepper returns a stepper that follows the kernel with events.
func (k kernel) stepper() *stepper { return k.stepperWith(newFakeConn()) }

// stepperWith returns a stepper that receives events from conn, or that polls if conn is nil.
func (k kernel) stepperWith(conn *fakeConn) *stepper {
	f := newStepper(k.t, k.source())
	if f.conn = conn; conn != nil {
		f.source.state.feed.conn = conn
	}
	return f
}

func (f *stepper) publish(u symcache.Update) {
	f.last = u
	f.published++
	for kind, n := range u.Changes.Counts.Updates {
		f.counts.Updates[kind] += n
	}
	f.counts.LostRecords += u.Changes.Counts.LostRecords
	f.counts.Resyncs += u.Changes.Counts.Resyncs
}

// scanOnce makes a scan, and reports whether it was complete.
func (f *stepper) scanOnce() bool {
	f.t.Helper()
	complete, err := f.reader.scan(f.publish, true)
	require.NoError(f.t, err)
	return complete
}

// scan makes scans until one is complete.
func (f *stepper) scan() {
	f.t.Helper()
	for complete := false; !complete; {
		complete = f.scanOnce()
	}
}

// at returns the name of the function that certainly was at textAddr at an instant, empty if there is
// none.
func (f *stepper) at(instant int64) string {
	hit, _ := timeline.NewSnapshot(f.last.Table).At(textAddr+8, timeline.Instant(instant))
	if !hit.Symbol.Exists() {
		return ""
	}
	return hit.Name().System
}

// passTime sleeps, long enough for every clock to advance, and returns an instant in the middle of that
// time.
func passTime() int64 {
	time.Sleep(12 * time.Millisecond)
	at := now()
	time.Sleep(12 * time.Millisecond)
	return at
}

const (
	textAddr = 0xffffffffc0200000
	aLine    = "a 4096 0 - Live 0xffffffffc0200000\n"
	bLine    = "b 4096 0 - Live 0xffffffffc0200000\n"
)

// showA has the kernel show only module a, at textAddr; showB, only module b.
func (k kernel) showA() { k.show("a", "\xaa\xaa\xaa\xaa", aLine) }
func (k kernel) showB() { k.show("b", "\xbb\xbb\xbb\xbb", bLine) }

// show has the kernel show only one module, at textAddr. list is the content of /proc/modules.
func (k kernel) show(module, buildID, list string) {
	k.writeSysfs(module, buildID, sections{".text": textAddr})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t in_"+module+"\t["+module+"]\n")
	k.write("proc/modules", list)
}

// publications are the updates that a source published.
type publications struct {
	mu       sync.Mutex
	all      [][2]int // the numbers of modules with and without symbols; equal ones in a row count once
	degraded []string // the errors; equal ones in a row count once
	counts   symcache.Counts
}

func (p *publications) publish(u symcache.Update) {
	var n [2]int
	for _, m := range u.Table.Loaded() {
		if m.Len() > 0 {
			n[0]++
		} else {
			n[1]++
		}
	}
	degraded := "<nil>"
	if u.Degraded != nil {
		degraded = u.Degraded.Error()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 || p.all[len(p.all)-1] != n {
		p.all = append(p.all, n)
	}
	if len(p.degraded) == 0 || p.degraded[len(p.degraded)-1] != degraded {
		p.degraded = append(p.degraded, degraded)
	}
	for kind, n := range u.Changes.Counts.Updates {
		p.counts.Updates[kind] += n
	}
	p.counts.LostRecords += u.Changes.Counts.LostRecords
	p.counts.Resyncs += u.Changes.Counts.Resyncs
}

func (p *publications) get() [][2]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([][2]int(nil), p.all...)
}

// run runs a source until stop is called.
func run(t *testing.T, s *Source) (p *publications, stop func()) {
	t.Helper()
	p = &publications{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, p.publish) }()
	return p, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// line returns a line of /proc/modules for a module that is live.
func line(name string, size, addr uint64) string {
	return fmt.Sprintf("%s %d 0 - Live 0x%016x\n", name, size, addr)
}

// symbol returns a line of /proc/kallsyms for a function.
func symbol(addr uint64, name, module string) string {
	return fmt.Sprintf("%016x t %s\t[%s]\n", addr, name, module)
}
