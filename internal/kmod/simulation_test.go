// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// A simulation is a kernel in which modules are loaded and unloaded at random, while a tracker follows
// them. Modules change only in tick, which is called between any two steps of the tracker and of the
// kernel. So each can take a step between any two steps of the other.
type simulation struct {
	*rand.Rand
	t       *testing.T
	time    int64
	modules []*simModule // the ones that have memory
	all     []*simModule // including the ones that were unloaded
	socket  *simSocket   // nil if there is none
	quiet   bool         // modules do not change any more

	feed    *feed
	tracker *tracker
}

// A simModule is a load in the simulation.
type simModule struct {
	entry     listEntry
	id, build string
	from, to  int64 // when it had memory; to is 0 while it still has
	state     int   // 0: loading, 1: live, 2: "add" was sent, 3: unloading, 4: "remove" was sent
	added     int64 // when "add" was read, 0 if it was not
}

// A simSocket is a netlink socket with room for a few events.
type simSocket struct {
	s         *simulation
	queue     []simEvent
	room      int
	overrun   bool // Poll has not reported it yet
	congested bool // drops all events until it is empty
}

// A simEvent is an event about a module.
type simEvent struct {
	uevent.Event
	module *simModule
}

func (c *simSocket) send(e simEvent) {
	if c == nil || c.congested {
		return
	}
	if len(c.queue) == c.room {
		c.overrun, c.congested = true, true
		return
	}
	c.queue = append(c.queue, e)
}

func (c *simSocket) Poll() (uevent.Event, bool, error) {
	c.s.tick()
	var read simEvent
	defer func() {
		c.s.tick()
		if read.Action == "add" {
			read.module.added = c.s.time
		}
	}()
	switch {
	case c.overrun:
		c.overrun = false
		return uevent.Event{}, false, uevent.ErrLost
	case len(c.queue) == 0:
		return uevent.Event{}, false, nil
	}
	read = c.queue[0]
	c.queue = c.queue[1:]
	c.congested = c.congested && len(c.queue) > 0
	return read.Event, true, nil
}

func (*simSocket) Wait(context.Context, time.Time) error { return nil }
func (*simSocket) Close() error                          { return nil }

// tick lets some time pass, during which modules may change.
func (s *simulation) tick() {
	s.time += int64(time.Millisecond) * (10 + s.Int64N(100))
	for !s.quiet && s.IntN(6) == 0 {
		s.changeModule()
	}
}

// changeModule loads a module or takes one a step further.
func (s *simulation) changeModule() {
	if len(s.modules) < 3 && s.IntN(2) == 0 {
		s.beginLoading()
	}
	if len(s.modules) == 0 {
		return
	}
	m := s.modules[s.IntN(len(s.modules))]
	if m.state == 2 && s.IntN(8) > 0 {
		return // modules stay live for a while
	}
	m.state++
	m.entry.live = m.state == 1 || m.state == 2
	switch m.state {
	case 2:
		s.socket.send(simEvent{added(m.entry.name), m})
	case 4:
		s.socket.send(simEvent{removed(m.entry.name), m})
	case 5:
		m.to = s.time
		for i, other := range s.modules {
			if other == m {
				s.modules = append(s.modules[:i], s.modules[i+1:]...)
				return
			}
		}
	}
}

// beginLoading begins to load a module, with a name and at an address that are free.
func (s *simulation) beginLoading() {
	m := &simModule{id: fmt.Sprint("load ", len(s.all)), from: s.time}
	m.entry = listEntry{name: string(rune('a' + s.IntN(4))), addr: textAddr + s.Uint64N(4)*0x1000, size: 0x1000}
	if len(s.all) > 0 && s.IntN(2) == 0 { // a module from before, at the same address
		m.entry = s.all[len(s.all)-1-s.IntN(min(len(s.all), 3))].entry
		m.entry.live = false
	}
	for _, other := range s.modules {
		if other.entry.name == m.entry.name || other.entry.addr == m.entry.addr {
			return
		}
	}
	if s.IntN(4) > 0 {
		m.build = fmt.Sprintf("%08x", len(s.all))
	}
	s.modules, s.all = append(s.modules, m), append(s.all, m)
}

// loaded returns the module with a name that has memory, nil if there is none.
func (s *simulation) loaded(name string) *simModule {
	for _, m := range s.modules {
		if m.entry.name == name {
			return m
		}
	}
	return nil
}

// scan does what reader.scan does.
func (s *simulation) scan() {
	s.feed.drain(s.tracker)
	scan := s.tracker.beginScan(s.time, s.feed.conn == nil)
	s.tick()
	var list []listEntry
	for _, m := range s.modules {
		list = append(list, m.entry)
	}
	s.tick()
	shown := make(map[string]bool)
	var loads []*load
	for _, entry := range list {
		shown[entry.name] = true
		if !entry.live {
			continue
		}
		s.tick()
		m := s.loaded(entry.name)
		l := scan.known[entry.name]
		isSame := l != nil && l.addr == entry.addr
		if isSame && scan.blind {
			isSame = m != nil && (l.matches(entry, m.build) || scan.polled && l.buildID == "" && m.build == "")
		}
		if !isSame {
			if m == nil || m.entry.addr != entry.addr {
				continue // it was unloaded
			}
			l = loadAt(entry.name, entry.addr, entry.size)
			l.buildID, l.info.BuildID, l.info.FileID = m.build, m.build, m.id
		}
		loads = append(loads, l)
	}
	for range s.IntN(10) {
		s.tick()
	}
	until := s.time
	s.tick()
	s.feed.drain(s.tracker)
	s.tracker.applyScan(scan, shown, loads, until)
}

// step takes a step that a source can take.
func (s *simulation) step() {
	switch n := s.IntN(40); {
	case n == 0 && s.feed.conn != nil:
		s.feed.conn, s.socket = nil, nil
		s.tracker.applyLoss()
	case n < 4 && s.feed.conn == nil:
		s.socket = &simSocket{s: s, room: 1 + s.IntN(4)}
		s.feed.conn = s.socket
		s.tracker.applyLoss()
	case n < 15:
		s.scan()
	case n < 30:
		s.feed.drain(s.tracker)
	default:
		for range s.IntN(30) {
			s.tick()
		}
	}
}

// check compares answers for instants in the past with the truth. It returns the number of answers, and
// the number of answers that were possible.
func (s *simulation) check() (answered, possible int) {
	table := s.tracker.table(s.time)
	snapshot := timeline.NewSnapshot(table)
	s.checkAdded(table, snapshot)
	for range 50 {
		from := s.Int64N(s.time)
		during := timeline.Interval{From: from, To: from + 1 + s.Int64N(int64(300*time.Millisecond))}
		addr := textAddr + s.Uint64N(4)*0x1000 + 8
		var truth *simModule
		for _, m := range s.all {
			if m.entry.addr == addr-8 && m.from <= during.From && (m.to == 0 || during.To <= m.to) {
				truth = m
			}
		}
		if truth != nil {
			possible++
		}
		hit, _ := snapshot.At(addr, during)
		if hit.Image == nil {
			continue
		}
		answered++
		require.NotNil(s.t, truth, "%s at %v", hit.Image.Text.FileID, during)
		require.Equal(s.t, truth.id, hit.Image.Text.FileID, "%v", during)
		require.LessOrEqual(s.t, during.To, s.time)
	}
	return answered, possible
}

// checkAdded verifies that a module whose "add" event was read is known at each instant since then, unless that is blind
// or not certain.
func (s *simulation) checkAdded(table *timeline.Table, snapshot *timeline.Snapshot) {
	for _, m := range s.modules {
		if m.state != 2 || m.added == 0 || m.added >= table.Certain() {
			continue
		}
		at := timeline.Instant(m.added + s.Int64N(table.Certain()-m.added))
		if hit, _ := snapshot.At(m.entry.addr, at); !table.IsBlind(at) {
			require.NotNil(s.t, hit.Image, "%s at %v", m.id, at)
		}
	}
}

// TestSimulation verifies that every claimed lifetime lies within the true one, whatever happens.
func TestSimulation(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	const seeds = 100
	answered, possible := 0, 0
	for seed := range seeds {
		s := &simulation{Rand: rand.New(rand.NewPCG(uint64(seed), 1)), t: t, time: int64(time.Second)}
		s.feed = newFeed(nil)
		s.feed.now = func() int64 { return s.time }
		s.tracker = newTracker(timeline.Limits{TTL: 1 << 60, MaxEntries: 1 << 20})
		s.socket = &simSocket{s: s, room: 1 + s.IntN(4)}
		s.feed.conn = s.socket
		for range 200 {
			s.step()
			a, p := s.check()
			answered, possible = answered+a, possible+p
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		// In the end, all live modules are known.
		if s.feed.conn == nil {
			s.socket = &simSocket{s: s, room: 1 + s.IntN(4)}
			s.feed.conn = s.socket
			s.tracker.applyLoss()
		}
		s.quiet = true
		s.scan()
		s.scan()
		from := s.time
		s.tick()
		s.feed.drain(s.tracker)
		snapshot := timeline.NewSnapshot(s.tracker.table(s.time))
		for _, m := range s.modules {
			if m.entry.live {
				hit, _ := snapshot.At(m.entry.addr, timeline.Instant(from))
				require.NotNil(t, hit.Image, "seed %d: %s", seed, m.id)
				assert.Equal(t, m.id, hit.Image.Text.FileID)
			}
		}
	}
	t.Logf("%d answers of %d possible", answered, possible)
	assert.Greater(t, answered*3, possible, "there are answers")
}
