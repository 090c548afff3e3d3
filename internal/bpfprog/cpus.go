// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/kernelsym/kernelsym/internal/uevent"
)

// cpuEvents receives the kernel's events about CPUs; a uevent.Conn does.
type cpuEvents interface {
	Poll() (e uevent.Event, ok bool, err error)
	Wait(ctx context.Context, deadline time.Time) error
	Close() error
}

func dialCPUs() (cpuEvents, error) {
	conn, err := uevent.Dial()
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// cpus tracks whether all CPUs have rings for records.
type cpus struct {
	events    cpuEvents // nil while Run does not run, or if the kernel sends none
	refreshed int64     // before rings were opened last, on the clock of records; noRings if there are none to open
	changes   int       // how often events said that a CPU came online or went offline, or may have been missed
	answered  int       // the number of changes after which rings were opened
	missed    int64     // when a CPU may last have been online without a ring, although no event had come
}

// noRings is the time at which rings were opened where records are refused: CPUs do not matter then.
const noRings = math.MaxInt64

// readEvents reads the events that have come, without waiting, and reports whether one may have been about a CPU.
func (c *cpus) readEvents() bool {
	if c.events == nil || !hasCPUEvent(c.events) {
		return false
	}
	c.changes++
	return true
}

// changed reports whether a CPU may have come online or gone offline since rings were opened last.
func (c *cpus) changed() bool { return c.changes > c.answered }

// limit returns the instant after which nothing is certain, because a CPU may have come online without a ring (see
// contract 5.2).
func (c *cpus) limit() int64 {
	if c.changed() || c.events == nil || c.mayMissOne() {
		return c.refreshed
	}
	return math.MaxInt64
}

// mayMissOne reports whether a CPU may have come online without a ring since rings were opened last, although no event
// has come.
func (c *cpus) mayMissOne() bool { return c.missed > c.refreshed }

// interval returns the time between two calls of RefreshCPUs without another reason.
func (c *cpus) interval() time.Duration {
	if c.events == nil || c.mayMissOne() {
		return maintainWithoutEvents
	}
	return maintainEvery
}

func (c *cpus) close() {
	if c.events != nil {
		_ = c.events.Close() // nothing was written
		c.events = nil
	}
}

// connectCPUs begins to receive events about CPUs, unless it has begun. late says that rings were in use without events before.
func (s *Source) connectCPUs(late bool) (conn cpuEvents, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.state.cpus
	if c.events == nil {
		if c.events, err = s.dialCPUs(); err != nil {
			return nil, err
		}
		if late {
			c.changes++ // a CPU may have come online
		}
	}
	s.state.readCPUEvents()
	return c.events, nil
}

// watchCPUs reads events as they come, until ctx is done. conn and err are what connectCPUs returned; with an error, it tries
// again, unless the kernel sends no events here. CPUs are looked for every second until then.
func (s *Source) watchCPUs(ctx context.Context, conn cpuEvents, err error) {
	for err != nil && !errors.Is(err, uevent.ErrUnreachable) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(maintainWithoutEvents):
		}
		conn, err = s.connectCPUs(true)
	}
	for conn != nil && conn.Wait(ctx, never) == nil {
		s.mu.Lock()
		s.state.readCPUEvents()
		s.mu.Unlock()
	}
}

// checkCPUs limits what is certain if a CPU may have run without a ring before the rings were emptied. Events are read
// last: see perfring.Reader.MissesCPU.
func (s *state) checkCPUs() {
	if s.cpus.events != nil && s.events.MissesCPU() {
		s.cpus.missed = s.now()
	}
	s.readCPUEvents()
}

// readCPUEvents reads the events about CPUs that have come. After one, Run opens rings at once.
func (s *state) readCPUEvents() {
	if s.cpus.readEvents() {
		s.wake()
	}
	s.follower.ledger.Limit(s.cpus.limit())
}

// hasCPUEvent reads events, and reports whether one may have been about a CPU.
func hasCPUEvent(conn cpuEvents) (some bool) {
	for {
		switch event, ok, err := conn.Poll(); {
		case ok:
			some = some || event.Subsystem == "cpu" && !event.Synthetic
		case err == nil:
			return some
		case errors.Is(err, uevent.ErrSyntax):
		case errors.Is(err, uevent.ErrLost):
			some = true
		default:
			return true
		}
	}
}
