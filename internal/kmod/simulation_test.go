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

// simulation is a kernel in which modules come and go by chance while a record is made of
// what it shows. Nothing happens but in tick, which is called between any two steps of
// both, so that each can come between any two steps of the other.
type simulation struct {
	*rand.Rand
	t       *testing.T
	time    int64
	modules []*simulated // that are there
	all     []*simulated
	socket  *simSocket
	quiet   bool

	feed   *feed
	record *record
}

// simulated is a load in the simulation.
type simulated struct {
	listed
	id, build string
	from, to  int64 // when its memory was there; to is 0 while it is
	state     int   // loading, live, "add" sent, unloading, "remove" sent
}

// simSocket is a netlink socket with room for some events.
type simSocket struct {
	s         *simulation
	queue     []uevent.Event
	room      int
	overrun   bool // not said yet
	congested bool // drops everything until it is empty
}

func (c *simSocket) send(e uevent.Event) {
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
	defer c.s.tick()
	switch {
	case c.overrun:
		c.overrun = false
		return uevent.Event{}, false, uevent.ErrLost
	case len(c.queue) == 0:
		return uevent.Event{}, false, nil
	}
	e := c.queue[0]
	c.queue = c.queue[1:]
	c.congested = c.congested && len(c.queue) > 0
	return e, true, nil
}

func (*simSocket) Wait(context.Context, time.Time) error { return nil }
func (*simSocket) Close() error                          { return nil }

// tick lets some time pass, in which something may happen.
func (s *simulation) tick() {
	s.time += int64(time.Millisecond) * (10 + s.Int64N(100))
	for !s.quiet && s.IntN(6) == 0 {
		s.happen()
	}
}

// happen does one thing to one module.
func (s *simulation) happen() {
	if len(s.modules) < 3 && s.IntN(2) == 0 {
		s.begin()
	}
	if len(s.modules) == 0 {
		return
	}
	m := s.modules[s.IntN(len(s.modules))]
	if m.state == 2 && s.IntN(8) > 0 {
		return // most of the time nothing happens to a module
	}
	m.state++
	m.live = m.state == 1 || m.state == 2
	switch m.state {
	case 2:
		s.socket.send(added(m.name))
	case 4:
		s.socket.send(removed(m.name))
	case 5:
		m.to = s.time
		for i, is := range s.modules {
			if is == m {
				s.modules = append(s.modules[:i], s.modules[i+1:]...)
				return
			}
		}
	}
}

// begin begins to load a module, of a name and at a place that is free.
func (s *simulation) begin() {
	m := &simulated{id: fmt.Sprint("load ", len(s.all)), from: s.time}
	m.listed = listed{name: string(rune('a' + s.IntN(4))), addr: place + s.Uint64N(4)*0x1000, size: 0x1000}
	if len(s.all) > 0 && s.IntN(2) == 0 { // again where it was before
		m.listed = s.all[len(s.all)-1-s.IntN(min(len(s.all), 3))].listed
		m.live = false
	}
	for _, is := range s.modules {
		if is.name == m.name || is.addr == m.addr {
			return
		}
	}
	if s.IntN(4) > 0 {
		m.build = fmt.Sprintf("%08x", len(s.all))
	}
	s.modules, s.all = append(s.modules, m), append(s.all, m)
}

// find returns the load of a name that is there.
func (s *simulation) find(name string) *simulated {
	for _, m := range s.modules {
		if m.name == name {
			return m
		}
	}
	return nil
}

// scan does what reader.scan does.
func (s *simulation) scan() {
	s.feed.drain(s.record)
	k := s.record.begin(s.time, s.feed.conn == nil)
	s.tick()
	var list []listed
	for _, m := range s.modules {
		list = append(list, m.listed)
	}
	s.tick()
	shown := make(map[string]bool)
	var loads []*load
	for _, is := range list {
		shown[is.name] = true
		if !is.live {
			continue
		}
		s.tick()
		m := s.find(is.name)
		l := k.known[is.name]
		isSame := l != nil && l.addr == is.addr
		if isSame && k.blind {
			isSame = m != nil && (l.is(is, m.build) || k.polled && l.info.BuildID == "" && m.build == "")
		}
		if !isSame {
			if m == nil || m.addr != is.addr {
				continue // it has gone
			}
			l = loadAt(is.name, is.addr, is.size)
			l.info.BuildID, l.info.FileID = m.build, m.id
		}
		loads = append(loads, l)
	}
	for range s.IntN(10) {
		s.tick()
	}
	until := s.time
	s.tick()
	s.feed.drain(s.record)
	s.record.apply(k, shown, loads, until)
}

// step does something that a source does.
func (s *simulation) step() {
	switch n := s.IntN(40); {
	case n == 0 && s.feed.conn != nil:
		s.feed.conn, s.socket = nil, nil
		s.record.lost()
	case n < 4 && s.feed.conn == nil:
		s.socket = &simSocket{s: s, room: 1 + s.IntN(4)}
		s.feed.conn = s.socket
		s.record.lost()
	case n < 15:
		s.scan()
	case n < 30:
		s.feed.drain(s.record)
	default:
		for range s.IntN(30) {
			s.tick()
		}
	}
}

// check holds answers for times in the past against what was true, and returns how many
// there were, and how many there could have been.
func (s *simulation) check() (answered, possible int) {
	snapshot := timeline.NewSnapshot(s.record.table(s.time))
	for range 50 {
		from := s.Int64N(s.time)
		during := timeline.Interval{From: from, To: from + 1 + s.Int64N(int64(300*time.Millisecond))}
		addr := place + s.Uint64N(4)*0x1000 + 8
		var truth *simulated
		for _, m := range s.all {
			if m.addr == addr-8 && m.from <= during.From && (m.to == 0 || during.To <= m.to) {
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

// TestSimulation: whatever happens, every claimed lifetime lies within the true one.
func TestSimulation(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	const seeds = 100
	answered, possible := 0, 0
	for seed := range seeds {
		s := &simulation{Rand: rand.New(rand.NewPCG(uint64(seed), 1)), t: t, time: int64(time.Second)}
		s.feed = newFeed(nil)
		s.feed.now = func() int64 { return s.time }
		s.record = newRecord(timeline.Limits{TTL: 1 << 60, MaxEntries: 1 << 20})
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
		// In the end all that is there is known.
		if s.feed.conn == nil {
			s.socket = &simSocket{s: s, room: 1 + s.IntN(4)}
			s.feed.conn = s.socket
			s.record.lost()
		}
		s.quiet = true
		s.scan()
		s.scan()
		from := s.time
		s.tick()
		s.feed.drain(s.record)
		snapshot := timeline.NewSnapshot(s.record.table(s.time))
		for _, m := range s.modules {
			if m.live {
				hit, _ := snapshot.At(m.addr, timeline.Instant(from))
				require.NotNil(t, hit.Image, "seed %d: %s", seed, m.id)
				assert.Equal(t, m.id, hit.Image.Text.FileID)
			}
		}
	}
	t.Logf("%d answers of %d possible", answered, possible)
	assert.Greater(t, answered*3, possible, "there are answers")
}
