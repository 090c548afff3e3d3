// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Uninterrupted repeats a system call that a signal interrupts, and returns its other errors. Go's runtime sends signals to its
// threads, and the kernel does not restart calls such as nanosleep and poll after them (signal(7)).
func Uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Sleep sleeps in nanosleep(2), for all of the time. The goroutine should be locked to its thread if others watch the sleep.
func Sleep(d time.Duration) error {
	left := unix.NsecToTimespec(d.Nanoseconds())
	return Uninterrupted(func() error { return unix.Nanosleep(&left, &left) })
}
