// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"

	"github.com/kernelsym/kernelsym/internal/uevent"
)

// watchCPUs calls changed when the kernel says that a CPU came online or went offline,
// or when it may have said so, until ctx is done. Without a connection it does nothing.
func watchCPUs(ctx context.Context, conn *uevent.Conn, changed func()) {
	for conn != nil && conn.Wait(ctx, never) == nil {
		if cpuEvents(conn) {
			changed()
		}
	}
}

// cpuEvents reads the events that have come, and reports whether one may have been about a
// CPU.
func cpuEvents(conn *uevent.Conn) (some bool) {
	for conn != nil {
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
	return some
}
