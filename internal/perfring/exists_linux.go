// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Exists reports whether a thread of this PID namespace has a number. A thread that has ended can still have one. Unlike /proc,
// kill(2) hides nothing: for threads of other users, it fails with EPERM.
func Exists(tid uint32) bool { return !errors.Is(unix.Kill(int(tid), 0), unix.ESRCH) }
