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

// fake is a socket in which a test puts events.
type fake struct {
	mu     sync.Mutex
	queue  []any // events and errors
	ready  chan struct{}
	closed chan struct{}
}

func newFake() *fake { return &fake{ready: make(chan struct{}, 1), closed: make(chan struct{})} }

// send puts events and errors into the socket.
func (f *fake) send(events ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, events...)
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

func (f *fake) Poll() (uevent.Event, bool, error) {
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

func (f *fake) Wait(ctx context.Context, deadline time.Time) error {
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

func (f *fake) Close() error {
	close(f.closed)
	return nil
}

func added(module string) uevent.Event   { return eventOf("add", module) }
func removed(module string) uevent.Event { return eventOf("remove", module) }

func eventOf(action, module string) uevent.Event {
	return uevent.Event{Action: action, DevPath: "/module/" + module, Subsystem: "module"}
}

// stepper makes the scans of a source, one by one.
type stepper struct {
	*reader
	t         *testing.T
	events    *fake // nil if events are refused
	last      symcache.Update
	published int
	counts    symcache.Counts
}

// stepper returns what follows the kernel by events.
func (k kernel) stepper() *stepper { return k.stepperBy(newFake()) }

// stepperBy returns what follows the kernel by events, if they are not nil.
func (k kernel) stepperBy(events *fake) *stepper {
	s := k.source()
	f := &stepper{reader: newReader(s), t: k.t, events: events}
	if events != nil {
		s.feed.conn = events
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

// once makes a scan, and reports whether it was whole.
func (f *stepper) once() bool {
	f.t.Helper()
	whole, err := f.reader.scan(f.publish)
	require.NoError(f.t, err)
	return whole
}

// scan makes scans until one is whole.
func (f *stepper) scan() {
	f.t.Helper()
	for whole := false; !whole; {
		whole = f.once()
	}
}

// at names who had the place at an instant.
func (f *stepper) at(instant int64) string {
	hit, _ := timeline.NewSnapshot(f.last.Table).At(place+8, timeline.Instant(instant))
	if !hit.Symbol.Exists() {
		return ""
	}
	return hit.Name().System
}

// pause lets time pass, in which clocks cannot be mistaken, and returns an instant in
// the middle.
func pause() int64 {
	time.Sleep(12 * time.Millisecond)
	at := now()
	time.Sleep(12 * time.Millisecond)
	return at
}

const (
	place = 0xffffffffc0200000
	aLine = "a 4096 0 - Live 0xffffffffc0200000\n"
	bLine = "b 4096 0 - Live 0xffffffffc0200000\n"
)

// showA has module a at the place, showB b.
func (k kernel) showA() { k.show("a", "\xaa\xaa\xaa\xaa", aLine) }
func (k kernel) showB() { k.show("b", "\xbb\xbb\xbb\xbb", bLine) }

func (k kernel) show(module, buildID, list string) {
	k.sysfs(module, buildID, sections{".text": place})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t in_"+module+"\t["+module+"]\n")
	k.write("proc/modules", list)
}

// publications are what a source published: the numbers of modules with and
// without symbols, without repetitions.
type publications struct {
	mu       sync.Mutex
	all      [][2]int
	degraded []string
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

// line returns a line of /proc/modules.
func line(name string, size, addr uint64) string {
	return fmt.Sprintf("%s %d 0 - Live 0x%016x\n", name, size, addr)
}

// symbol returns a line of /proc/kallsyms.
func symbol(addr uint64, name, module string) string {
	return fmt.Sprintf("%016x t %s\t[%s]\n", addr, name, module)
}
