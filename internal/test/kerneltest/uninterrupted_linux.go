// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Uninterrupted makes a system call until it ends by something else than a signal: Go's runtime sends some to its threads,
// and most calls that wait are not restarted after them (signal(7)).
func Uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Sleep sleeps on this thread, in nanosleep(2).
func Sleep(d time.Duration) error {
	left := unix.NsecToTimespec(d.Nanoseconds())
	return Uninterrupted(func() error { return unix.Nanosleep(&left, &left) })
}
