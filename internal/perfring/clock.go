// SPDX-License-Identifier: Apache-2.0

package perfring

import "time"

// A Clock is one of the kernel's (include/uapi/linux/time.h), that the times of
// records are of. Its methods are safe for concurrent use.
type Clock int32

// The clocks of records. Neither goes back, nor is one ever set.
const (
	Monotonic Clock = 1 // of samples; it stands still while the machine is suspended
	Boottime  Clock = 7 // of symbols; it goes on
)

// UnixOffset returns a reading of the clock, and what is to be added to it to get
// nanoseconds since the Unix epoch, for readings of about now: the wall clock can be set,
// and of Monotonic, the time that the machine is suspended is missing.
//
// The error of both is at most uncertain: half the time between two readings of a clock,
// some hundred nanoseconds, unless each of several tries is interrupted.
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
