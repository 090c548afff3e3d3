// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The equivalent functions of golang.org/x/sys do not make raw calls.

// IsReady reports whether a file may have data to read, or an error. It finds everything that
// arrived before the call.
func IsReady(fd int) bool {
	file := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	var atOnce unix.Timespec
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL,
		uintptr(unsafe.Pointer(&file)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0)
	return n != 0 || errno != 0 // a signal can cause an error
}

// forget discards the events that the inner epoll instance has to report. A perf event reports
// only once that it has become readable, to the first that asks (perf_poll in
// kernel/events/core.c).
func (p *Poller) forget() {
	var events [64]unix.EpollEvent
	for n := uintptr(len(events)); n == uintptr(len(events)); {
		n, _, _ = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT,
			uintptr(p.inner), uintptr(unsafe.Pointer(&events)), uintptr(len(events)), 0, 0, 0)
	}
}
