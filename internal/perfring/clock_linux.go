package perfring

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time of CLOCK_MONOTONIC in nanoseconds, that of records.
func monotonic() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every Linux has this clock
	}
	return uint64(ts.Nano())
}

// UnixOffset returns what is to be added to the time of a record to get
// nanoseconds since the Unix epoch, for records of about now: the wall clock can
// be set, and CLOCK_MONOTONIC stands still while the machine is suspended.
//
// The error is below half the time between two readings of a clock, some hundred
// nanoseconds, unless each of several tries is interrupted.
func UnixOffset() int64 {
	const tries = 5
	var offset int64
	best := uint64(1<<64 - 1)
	for range tries {
		before := monotonic()
		wall := time.Now().UnixNano()
		after := monotonic()
		if after-before < best {
			best = after - before
			offset = wall - int64(before+(after-before)/2)
		}
	}
	return offset
}
