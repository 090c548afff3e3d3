package kerneltest

import (
	"fmt"
	"os/exec"
	"runtime"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"
)

// StartWith starts a command, whose process has those capabilities and no others.
// It needs root.
func StartWith(cmd *exec.Cmd, caps ...capability.Cap) error {
	keep := make(map[capability.Cap]bool)
	for _, c := range caps {
		keep[c] = true
	}
	all, err := capability.ListSupported()
	if err != nil {
		return fmt.Errorf("listing capabilities: %w", err)
	}
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is limited, and ends with the goroutine
		var err error
		for _, c := range all {
			if !keep[c] && err == nil {
				err = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
			}
		}
		if err == nil {
			err = cmd.Start() // from this thread, whose limits go with it
		}
		ended <- err
	}()
	return <-ended
}
