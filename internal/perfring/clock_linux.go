// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Now returns a reading of the clock, in nanoseconds since the machine started. Its system
// call is raw: the runtime would wake a thread for one that it knew of.
func (c Clock) Now() int64 {
	var ts unix.Timespec
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(c), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic(errno) // every Linux has these clocks
	}
	return ts.Nano()
}
