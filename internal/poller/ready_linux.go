// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of golang.org/x/sys for what stands here are not raw.

// IsReady reports whether a file may have something to read, or an error. What was there
// before the call is found.
func IsReady(fd int) bool {
	file := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	var atOnce unix.Timespec
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL,
		uintptr(unsafe.Pointer(&file)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0)
	return n != 0 || errno != 0 // which a signal can cause
}

// forget takes back what the inner epoll instance has to say. A perf event says once that it
// has become readable, to whoever asks first (perf_poll in kernel/events/core.c).
func (p *Poller) forget() {
	var events [64]unix.EpollEvent
	for n := uintptr(len(events)); n == uintptr(len(events)); {
		n, _, _ = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT,
			uintptr(p.inner), uintptr(unsafe.Pointer(&events)), uintptr(len(events)), 0, 0, 0)
	}
}
