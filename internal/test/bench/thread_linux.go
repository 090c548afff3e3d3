// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// thread returns the CPU time that this thread has used. The measurements stay on one thread, so that other programs and
// the threads of the garbage collector do not count; what the measured code must do for the collector does. getrusage
// would lag behind by up to a tick.
func thread() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // cannot fail with these arguments
	}
	return time.Duration(t.Nano())
}
