// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// needWaits skips the test unless waits can be sampled with names.
func needWaits(t *testing.T) {
	t.Helper()
	needTop(t)
	if err := procfs.CheckInitialPIDNamespace("/proc"); err != nil {
		t.Skipf("%v: waits are not tested", err)
	}
}

// TestTopOffCPU verifies that a thread which sleeps all the time is one thread that waits, in the function of its system call.
func TestTopOffCPU(t *testing.T) {
	needWaits(t)
	go func() {
		for t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond) // keeps the runtime's threads going
		}
	}()
	j := topJSON(t, "--off-cpu", "--threshold", "0s", "--duration", "3s", "-p", strconv.Itoa(os.Getpid()))
	assert.Equal(t, "wait", j.Event)
	assert.Equal(t, "nanoseconds", j.Unit)
	assert.Zero(t, j.Frequency)
	assert.Positive(t, j.Samples.Kernel)
	found := false
	for _, f := range j.Functions {
		found = found || strings.Contains(f.Function, "futex") || strings.Contains(f.Function, "epoll") || strings.Contains(f.Function, "nanosleep")
		assert.NotEqual(t, "schedule", f.Function, "a function of the scheduler waits for nothing")
	}
	assert.True(t, found, "%+v", j.Functions)
}

// TestTopOffCPUOnATerminal verifies that the keys lead to functions, callers and processes.
func TestTopOffCPUOnATerminal(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needWaits(t)
	term := kerneltest.StartOnTerminal(t, tool(t.Context(), "top", "--off-cpu", "-d", "0.2"))
	term.WaitFor("functions", func(output string) bool { return strings.Contains(output, "vmlinux") })
	term.Type("\r")
	term.WaitFor("callers", func(output string) bool { return strings.Contains(output, "callers of") })
	term.Type("b")
	term.WaitFor("processes", func(output string) bool { return strings.Contains(output, "PROCESS") })
	term.Type("q")
	_, restored, err := term.Ended()
	require.NoError(t, err)
	assert.True(t, restored)
}
