// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpu is the time that all CPUs together spent on this process, in it and in the
// kernel.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // not for these arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
