// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"
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

// watchCPUs reads events as they come, until ctx is done. Without a connection it does nothing.
func (s *Source) watchCPUs(ctx context.Context, conn cpuEvents) {
	for conn != nil && conn.Wait(ctx, never) == nil {
		s.mu.Lock()
		s.readCPUs()
		s.mu.Unlock()
	}
}

// readCPUs reads the events that have come, without waiting. If one may have been about a CPU that
// came online or went offline, it ends the wait, and until the CPUs are looked for, nothing is certain
// after the last look (see contract 5.2).
func (s *state) readCPUs() {
	if s.cpus != nil && pollCPUs(s.cpus) {
		s.hotplug = true
		s.wake()
	}
	s.limit = farFuture
	if s.hotplug || s.cpus == nil {
		s.limit = s.looked
	}
	s.advance(s.history.Certain())
}

// pollCPUs reads events, and reports whether one may have been about a CPU.
func pollCPUs(conn cpuEvents) (some bool) {
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
