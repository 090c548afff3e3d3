// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// read reads the tasks of a process, and skips the test where stacks cannot be read.
func read(t *testing.T, states string, pid int) []Task {
	t.Helper()
	r := Reader{Procfs: "/proc", States: states, Of: Selection{PIDs: []uint32{uint32(pid)}}}
	blocked, err := r.Read()
	if err != nil {
		t.Skipf("%v: stacks of the running kernel are not tested", err)
	}
	return blocked
}

func (t *Task) has(function string) bool {
	return slices.ContainsFunc(t.Stack, func(f Frame) bool { return strings.Contains(f.Function, function) })
}

// TestSleepingThread finds a thread of this process that sleeps.
func TestSleepingThread(t *testing.T) {
	read(t, "SD", os.Getpid()) // in this goroutine, which can skip the test
	started := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocks
		started <- unix.Gettid()
		_ = kerneltest.Sleep(time.Minute)
	}()
	tid := uint32(<-started)
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(read(t, "DS", os.Getpid()), func(task Task) bool {
			return task.TID == tid && task.State == 'S' && task.Name != "" && task.has("nanosleep")
		})
	}, time.Minute, 10*time.Millisecond)
}

// TestTaskThatWaitsForADisk finds a process in state D and the function that it waits in.
func TestTaskThatWaitsForADisk(t *testing.T) {
	read(t, "SD", os.Getpid()) // in this goroutine, which can skip the test
	dir := t.TempDir()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC || fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		t.Skip("files are in memory: state D is not tested")
	}
	dd := exec.CommandContext(t.Context(), "sh", "-c", "while :; do dd if=/dev/zero of="+filepath.Join(dir, "file")+" bs=1M count=16 conv=fsync 2>/dev/null; done")
	dd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, dd.Start())
	defer func() { _ = unix.Kill(-dd.Process.Pid, unix.SIGKILL); _ = dd.Wait() }()
	require.Eventually(t, func() bool {
		r := Reader{Procfs: "/proc", States: "D"}
		blocked, err := r.Read()
		if err != nil {
			t.Skipf("%v: stacks of the running kernel are not tested", err)
		}
		return slices.ContainsFunc(blocked, func(task Task) bool { return task.Name == "dd" && task.has("fsync") })
	}, time.Minute, time.Millisecond)
}

// TestTasksThatRun has a thread sleep again and again for a short time. The stack and the state are read
// consistently: a stack in state S always shows the wait.
func TestTasksThatRun(t *testing.T) {
	read(t, "SD", os.Getpid())
	started := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocks
		started <- unix.Gettid()
		for t.Context().Err() == nil {
			pause := unix.NsecToTimespec(int64(50 * time.Microsecond))
			_ = unix.Nanosleep(&pause, nil)
			_ = unix.Getppid()
		}
	}()
	tid := uint32(<-started)
	seen := 0
	for end := time.Now().Add(10 * time.Second); seen < 100 && time.Now().Before(end); {
		for _, task := range read(t, "S", os.Getpid()) {
			if task.TID == tid && len(task.Stack) > 0 { // it is empty where the kernel came too late to take it
				seen++
				require.True(t, task.has("nanosleep") || task.has("futex"), "%v", task.Stack) // the latter by the runtime
			}
		}
	}
	assert.Positive(t, seen)
}

// TestReadWithoutPrivilege: the error says what is needed.
func TestReadWithoutPrivilege(t *testing.T) {
	kerneltest.Unprivileged(t, func(t *testing.T) {
		r := Reader{Procfs: "/proc", States: "DSI"}
		_, err := r.Read()
		if err == nil || strings.Contains(err.Error(), "CONFIG_STACKTRACE") {
			t.Skipf("this kernel shows stacks to all users or to none (%v): the error is not tested", err)
		}
		require.ErrorIs(t, err, ErrPermission)
		assert.ErrorContains(t, err, "run as root")
	})
}
