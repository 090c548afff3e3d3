// SPDX-License-Identifier: Apache-2.0

package main

import (
	"syscall"
	"time"
)

// thread returns the CPU time that this thread has used. The measurements stay on one thread, so that other programs and
// the threads of the garbage collector do not count; what the measured code must do for the collector does.
func thread() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		panic(err) // cannot fail with these arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
