// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Prioritize has the calling goroutine run before others, so that it reads rings in time on a busy machine: on a thread of its
// own, with the nice value -10. Where this needs a right that the process does not have, CAP_SYS_NICE, nothing changes. The
// goroutine must call undo.
func Prioritize() (undo func()) {
	const nice, thisThread = -10, 0
	runtime.LockOSThread()
	before, err := unix.Getpriority(unix.PRIO_PROCESS, thisThread) // 20 less the nice value; see getpriority(2)
	if err != nil || unix.Setpriority(unix.PRIO_PROCESS, thisThread, nice) != nil {
		runtime.UnlockOSThread()
		return func() {}
	}
	return func() {
		if unix.Setpriority(unix.PRIO_PROCESS, thisThread, 20-before) == nil {
			runtime.UnlockOSThread() // else the thread ends with the goroutine
		}
	}
}
