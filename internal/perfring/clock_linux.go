// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"io"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Now returns a reading of the clock, in nanoseconds since the machine started. Its system call
// is raw: the runtime would wake a thread for an ordinary one.
func (c Clock) Now() int64 {
	var ts unix.Timespec
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(c), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic(errno) // every Linux has these clocks
	}
	return ts.Nano()
}

// checkClocks returns ErrClocks in a time namespace whose clocks are offset from the kernel's.
// If the file does not exist, there are no time namespaces (before Linux 5.6, or CONFIG_TIME_NS
// is not set).
func checkClocks() error {
	f, err := os.Open("/proc/self/timens_offsets")
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil || isSetApart(string(text)) {
		return ErrClocks
	}
	return nil
}

// isSetApart reports whether the offsets of a time namespace are not all 0. Each is a line
// "CLOCK SECONDS NANOSECONDS" (proc_timens_show_offsets in kernel/time/namespace.c).
func isSetApart(offsets string) bool {
	for line := range strings.Lines(offsets) {
		if fields := strings.Fields(line); len(fields) != 3 || fields[1] != "0" || fields[2] != "0" {
			return true
		}
	}
	return false
}
