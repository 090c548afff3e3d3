// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"fmt"
	"os/exec"
	"runtime"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"
)

// StartWith starts a command whose process has the given capabilities and no others. It needs root.
func StartWith(cmd *exec.Cmd, caps ...capability.Cap) error {
	return StartWithin(cmd, func() error { return nil }, caps...)
}

// StartWithin is StartWith within a further limit, which is set for the calling thread and must
// allow what StartWith does.
func StartWithin(cmd *exec.Cmd, limit func() error, caps ...capability.Cap) error {
	keep := make(map[capability.Cap]bool)
	for _, c := range caps {
		keep[c] = true
	}
	all, err := capability.ListSupported()
	if err != nil {
		return fmt.Errorf("listing capabilities: %w", err)
	}
	return startLimited(cmd, func() error {
		if err := limit(); err != nil {
			return err
		}
		for _, c := range all {
			if keep[c] {
				continue
			}
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// StartRefused starts a command in whose process the given system calls fail with EPERM, as with
// the filters of containers. It needs root.
func StartRefused(cmd *exec.Cmd, calls ...uint32) error {
	return startLimited(cmd, func() error { return refuse(calls) })
}

// startLimited starts a command within the limits that limit sets for the calling thread.
func startLimited(cmd *exec.Cmd, limit func() error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is limited, and ends with the goroutine
		err := limit()
		if err == nil {
			err = cmd.Start() // from this thread, whose limits the process inherits
		}
		ended <- err
	}()
	return <-ended
}
