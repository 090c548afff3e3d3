// SPDX-License-Identifier: Apache-2.0

package perfring

import "time"

// A Clock is one of the kernel's clocks (include/uapi/linux/time.h). Records have their times
// from it. Its methods are safe for concurrent use.
type Clock int32

// The clocks of records. Neither of them ever goes back or is set.
const (
	Monotonic Clock = 1 // for samples; it stops while the machine is suspended
	Boottime  Clock = 7 // for symbols; it does not stop
)

// UnixOffset returns a reading of the clock, and the offset to add to it to get nanoseconds
// since the Unix epoch. The offset is valid for readings at about this time: the wall clock can
// be set, and Monotonic does not count the time during which the machine is suspended.
//
// The error of both is at most uncertain: half the time between two readings of a clock. This
// is a few hundred nanoseconds, unless each of several attempts is interrupted.
func (c Clock) UnixOffset() (now, offset, uncertain int64) {
	const tries = 5
	uncertain = 1<<63 - 1
	for range tries {
		before := c.Now()
		wall := time.Now().UnixNano()
		after := c.Now()
		if half := (after - before + 1) / 2; half < uncertain {
			now, uncertain = before+half, half
			offset = wall - now
		}
	}
	return now, offset, uncertain
}
