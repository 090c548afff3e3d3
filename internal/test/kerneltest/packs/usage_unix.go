// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
)

// cpu returns the CPU time that this process has used on all CPUs.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maxRSS returns the peak memory of a process that has ended, in bytes.
func maxRSS(state *os.ProcessState) (int64, error) {
	u, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errors.New("no usage of resources")
	}
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss), nil //nolint:unconvert // it has 32 bits on some machines
	}
	return int64(u.Maxrss) << 10, nil //nolint:unconvert // as above; getrusage(2)
}
