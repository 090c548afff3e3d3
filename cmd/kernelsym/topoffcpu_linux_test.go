// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
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
	if j.Recorded == nil { // of the whole machine
		assert.Contains(t, strings.Join(j.Problems, "\n"), "Linux 5.13")
	}
	found := false
	for _, f := range j.Functions {
		found = found || strings.Contains(f.Function, "futex") || strings.Contains(f.Function, "epoll") || strings.Contains(f.Function, "nanosleep")
		if f.Function == "schedule" {
			assert.Zero(t, f.Self, "a function of the scheduler waits for nothing; but it can be preempted at its beginning")
		}
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

// TestTopOfAHungThread verifies that a thread which waits since before the start has its time, its state and the mark in the
// tables of threads and of functions.
func TestTopOfAHungThread(t *testing.T) {
	needWaits(t)
	if _, err := os.ReadFile("/proc/thread-self/stack"); err != nil {
		t.Skipf("%v: threads that hung before the start are not tested", err)
	}
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer write.Close()
	tid := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocks
		tid <- unix.Gettid()
		_, _ = unix.Read(int(read.Fd()), make([]byte, 1))
	}()
	hung := strconv.Itoa(<-tid)
	require.Eventually(t, func() bool {
		stack, err := os.ReadFile(filepath.Join("/proc/self/task", hung, "stack"))
		return err == nil && strings.Contains(string(stack), "pipe_read")
	}, time.Minute, time.Millisecond)

	out, errs, err := execute(t, "", "top", "--off-cpu", "--duration", "1s", "-t", hung, "--by", "thread", "-o", "json")
	require.NoError(t, err, errs)
	var j hot.GroupsJSON
	require.NoError(t, json.Unmarshal([]byte(out), &j))
	require.Len(t, j.Groups, 1, "%s", out)
	row := j.Groups[0]
	assert.Equal(t, []any{hung, 1, map[string]int{"S": 1}}, []any{strconv.FormatInt(row.TID, 10), row.Before, row.States})
	assert.Positive(t, row.Samples)
	assert.LessOrEqual(t, row.Percent, 100.1)

	f := topJSON(t, "--off-cpu", "--duration", "1s", "-t", hung)
	require.NotEmpty(t, f.Functions)
	assert.True(t, f.Functions[0].Before)
	assert.Contains(t, f.Functions[0].Function, "pipe_read")
	assert.Equal(t, "vmlinux", f.Functions[0].Module)
	assert.Equal(t, f.Frames.All, f.Frames.Named)
}
