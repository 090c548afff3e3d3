// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/tasks"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func waitOptions(t *testing.T) Options {
	t.Helper()
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	if err := procfs.CheckInitialPIDNamespace("/proc"); err != nil {
		t.Skipf("%v: waits are not tested", err)
	}
	o := options()
	o.OffCPU, o.States = true, true
	return o
}

// startThread runs a function on a thread of its own, which ends with it.
func startThread(work func()) (tid uint32) {
	started := make(chan int)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() { // the first thread never ends
			started <- int(startThread(work))
			runtime.UnlockOSThread()
			return
		}
		started <- unix.Gettid() // it never unlocks: the thread ends with the goroutine
		work()
	}()
	return uint32(<-started)
}

// parentEnv has the test binary call vfork, and print the number of the thread that does.
const parentEnv = "KERNELSYM_TEST_VFORK"

// vfork makes a child that ends when standard input does. Until then, the calling thread is in
// state D. The runtime does not know that the thread waits, so this process can do nothing else.
//
//go:norace
func vfork() {
	runtime.LockOSThread() // writing the number can take so long that another thread goes on with the goroutine
	fmt.Println(unix.Gettid())
	pid, _, _ := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_VFORK|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_READ, 0, 0, 1)
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// startParent starts a process that calls vfork. It returns the thread, and a function that lets it go on and end.
func startParent(t *testing.T) (tid uint32, release func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), parentEnv+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = fmt.Fscan(out, &tid)
	require.NoError(t, err)
	release = sync.OnceFunc(func() {
		assert.NoError(t, in.Close())
		assert.NoError(t, cmd.Wait())
	})
	t.Cleanup(release)
	return tid, release
}

// until waits until threads are in a state.
func until(t *testing.T, state byte, tid uint32) tasks.Task {
	t.Helper()
	var task tasks.Task
	require.Eventually(t, func() bool {
		r := tasks.Reader{Procfs: "/proc", States: string(state), Of: tasks.Selection{TIDs: []uint32{tid}}}
		read, err := r.Read()
		if err != nil {
			t.Skipf("%v: threads that hung before the start are not tested", err)
		}
		if len(read) > 0 {
			task = read[0]
		}
		return len(task.Stack) > 0
	}, time.Minute, time.Millisecond)
	return task
}

// TestHungBeforeTheStart has two threads that wait before sampling begins: for a pipe, and in state D for a child. All of their
// time until they go on is theirs, in the function that the kernel names.
func TestHungBeforeTheStart(t *testing.T) {
	o := waitOptions(t)
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	reader := startThread(func() { _, _ = syscall.Read(pipe[0], make([]byte, 1)) })
	parent, release := startParent(t)
	kernel := until(t, 'S', reader)
	until(t, 'D', parent)

	o.Tasks.TIDs = []uint32{reader, parent}
	o.Interval, o.First = 300*time.Millisecond, 0
	batches, released := 0, false
	run(t, o, func(b *Batch) bool {
		require.NoError(t, b.NoBefore)
		waited := make(map[uint32]time.Duration)
		functions := make(map[uint32]string)
		eachSample(b, func(n *rewrite.Named, s *rewrite.NamedSample) {
			tid, _ := s.Attribute("thread.id")
			if _, before := s.Attribute(kernelstack.KeyBefore); before {
				waited[uint32(tid.Number)] += time.Duration(s.Weight)
				code := n.Code(s.Frames[0].Code)
				assert.True(t, code.IsKernel)
				functions[uint32(tid.Number)] = code.Lines[0].Function + " of " + code.File
			}
		})
		batches++
		switch length := b.End.Sub(b.Start); {
		case released:
			assert.LessOrEqual(t, waited[reader], length+time.Millisecond)
			return len(waited) > 0 // it may have been reported while it was released
		case batches == 1: // sampling began before recording
			assert.Positive(t, waited[reader])
			assert.Positive(t, waited[parent])
		default:
			assert.InEpsilon(t, length.Seconds(), waited[reader].Seconds(), 0.2)
			assert.InEpsilon(t, length.Seconds(), waited[parent].Seconds(), 0.2)
			assert.Equal(t, kernel.Stack[0].Function+" of vmlinux", functions[reader])
			assert.Equal(t, []byte{'S', 'D'}, []byte{b.Threads[reader].State, b.Threads[parent].State})
		}
		if batches == 3 {
			released = true
			_, err := unix.Write(pipe[1], []byte{0})
			require.NoError(t, err)
			release()
		}
		return true
	})
}

// startIn starts a process in the PID namespace of another.
func startIn(t *testing.T, pid int, cmd *exec.Cmd) {
	t.Helper()
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	require.NoError(t, err)
	defer namespace.Close()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // it never unlocks: the thread ends with the goroutine
		err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWPID)
		started <- errors.Join(err, cmd.Start())
	}()
	require.NoError(t, <-started)
}

// TestHungAsItEnds selects the first process of a PID namespace, which hangs as it ends: another process there has ended, and its
// parent does not wait for it. The kernel opens no events of a thread that ends, so no record would say when it is over.
func TestHungAsItEnds(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	o := waitOptions(t)
	if os.Getuid() != 0 {
		t.Skip("only root can make PID namespaces: not tested")
	}
	first, second := exec.CommandContext(t.Context(), "sleep", "1000"), exec.CommandContext(t.Context(), "sleep", "1000")
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	require.NoError(t, first.Start())
	startIn(t, first.Process.Pid, second)
	require.NoError(t, first.Process.Kill())
	pid := uint32(first.Process.Pid)
	require.Eventually(t, func() bool { return until(t, 'S', pid).Exits }, time.Minute, time.Millisecond)

	o.Tasks.PIDs, o.Interval, o.First = []uint32{pid}, 200*time.Millisecond, 0
	batches := 0
	run(t, o, func(b *Batch) bool {
		require.NoError(t, b.NoBefore)
		assert.Equal(t, 0, *b.Recorded)
		eachSample(b, func(*rewrite.Named, *rewrite.NamedSample) { t.Error("its wait is a sample") })
		batches++
		return batches < 2
	})
	require.Error(t, second.Wait(), "it was killed")
	require.Error(t, first.Wait(), "it was killed")
}

// TestAllThreadsHaveNoBefore verifies that nothing is read of threads that hung before the start if all threads are sampled.
func TestAllThreadsHaveNoBefore(t *testing.T) {
	threads := threads{procfs: "/proc", states: true, most: maxThreads}
	assert.Empty(t, threads.begin())
	assert.Contains(t, threads.last, uint32(os.Getpid()))
	b := new(Batch)
	threads.addTo(b)
	require.NoError(t, b.NoThreads)
	require.NotNil(t, b.Delays)
	assert.Contains(t, b.Threads, uint32(os.Getpid()))
}

// TestBlockedBehindNamelessCode verifies that a stack from before the start has the frames with names only.
func TestBlockedBehindNamelessCode(t *testing.T) {
	procfs := t.TempDir()
	dir := filepath.Join(procfs, "10/task/10")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, text := range map[string]string{
		"status": "Name:\tdd\nState:\tD (disk sleep)\nTgid:\t10\nPid:\t10\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n",
		"stack":  "[<0>] ext4_sync_file+0x13/0x40 [ext4]\n[<0>] 0xffffffffc0001234\n[<0>] vfs_fsync+0x1/0x2\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	threads := threads{procfs: procfs, of: tasks.Selection{PIDs: []uint32{10}}}
	assert.Equal(t, []kernelstack.Blocked{{PID: 10, TID: 10, Stack: []kernelstack.Function{
		{Name: "ext4_sync_file", File: "ext4"}, {Name: "vfs_fsync", File: "vmlinux"},
	}}}, threads.begin())
}

// TestWaitForCPU has two threads that run on one CPU all the time. Each has a delay, as the kernel counts it.
func TestWaitForCPU(t *testing.T) {
	o := waitOptions(t)
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	if err != nil || strings.HasPrefix(string(text), "0 0 0") {
		t.Skipf("the kernel does not count the time in the run queue (%q, %v)", text, err)
	}
	var allowed, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	first := 0
	for !allowed.IsSet(first) {
		first++
	}
	one.Set(first)
	spin := func() {
		_ = unix.SchedSetaffinity(0, &one)
		for t.Context().Err() == nil {
			_ = unix.Getpid()
		}
	}
	tids := []uint32{startThread(spin), startThread(spin)}
	o.Tasks.TIDs = tids
	run(t, o, func(b *Batch) bool {
		require.NoError(t, b.NoThreads)
		require.NotNil(t, b.Delays)
		for _, tid := range tids {
			delay, ok := b.Delays.Threads[tid]
			require.True(t, ok)
			if delay == 0 {
				return true
			}
		}
		return false
	})
}

// TestHungWithoutPrivilege verifies that threads whose stacks cannot be read are missing for a reason.
func TestHungWithoutPrivilege(t *testing.T) {
	kerneltest.Unprivileged(t, func(t *testing.T) {
		threads := threads{procfs: "/proc", of: tasks.Selection{PIDs: []uint32{1}}, states: true, most: maxThreads}
		if blocked := threads.begin(); len(blocked) > 0 || errors.Is(threads.noBefore, tasks.ErrNoStacks) {
			t.Skipf("this kernel shows stacks to all users or to none (%v): the error is not tested", threads.noBefore)
		}
		b := new(Batch)
		threads.addTo(b)
		require.ErrorIs(t, b.NoBefore, tasks.ErrPermission)
		require.NoError(t, b.NoThreads)
		assert.Contains(t, b.Threads, uint32(1), "all users may read states")
	})
}

// TestProcessThatStartsThreads has this process start a thread while its threads are recorded, with events of their own.
func TestProcessThatStartsThreads(t *testing.T) {
	kerneltest.NeedThreadEvents(t)
	o := waitOptions(t)
	o.Tasks.PIDs = []uint32{uint32(os.Getpid())}
	tid := uint32(0)
	run(t, o, func(b *Batch) bool {
		require.NoError(t, b.Others)
		require.Positive(t, *b.Recorded)
		if tid == 0 {
			tid = startThread(func() {
				for range 10 {
					pause := unix.NsecToTimespec(int64(10 * time.Millisecond))
					_ = unix.Nanosleep(&pause, nil)
				}
			})
		}
		found := false
		eachSample(b, func(_ *rewrite.Named, s *rewrite.NamedSample) {
			id, _ := s.Attribute("thread.id")
			pid, _ := s.Attribute("process.pid")
			assert.Equal(t, int64(os.Getpid()), pid.Number)
			found = found || uint32(id.Number) == tid
		})
		return !found
	})
}

// TestThreadThatEnds selects a thread that ends while it is recorded, and then a process that has ended.
func TestThreadThatEnds(t *testing.T) {
	o := waitOptions(t)
	end := make(chan struct{})
	tid := startThread(func() {
		for {
			select {
			case <-end:
				return
			default:
				pause := unix.NsecToTimespec(int64(10 * time.Millisecond))
				_ = unix.Nanosleep(&pause, nil)
			}
		}
	})
	o.Tasks.TIDs, o.Interval = []uint32{tid}, 200*time.Millisecond
	ended, empty := false, 0
	run(t, o, func(b *Batch) bool {
		require.NoError(t, b.Others)
		assert.Equal(t, 1, *b.Recorded)
		assert.Zero(t, b.LostWaits)
		samples := 0
		eachSample(b, func(*rewrite.Named, *rewrite.NamedSample) { samples++ })
		switch {
		case samples > 0 && !ended:
			ended = true
			close(end)
		case samples == 0 && ended:
			empty++
		}
		return empty < 2
	})
	run(t, o, func(b *Batch) bool {
		assert.Zero(t, *b.Recorded, "it has ended")
		return false
	})
}

// TestNewThreadsAllTheTime has this process start and end threads all the time. A thread that sleeps has its waits, from the
// events of the threads or, if these never stay the same for long enough, from those of the whole machine.
func TestNewThreadsAllTheTime(t *testing.T) {
	o := waitOptions(t)
	incomplete := threads{procfs: t.TempDir(), of: tasks.Selection{PIDs: []uint32{7}}}
	require.NoError(t, os.MkdirAll(filepath.Join(incomplete.procfs, "7", "task", "7"), 0o700))
	_, err := incomplete.recorded()
	require.ErrorIs(t, err, perfring.ErrTasks)

	var ended sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer ended.Wait()
	defer cancel()
	ended.Go(func() {
		for ctx.Err() == nil {
			startThread(func() {})
		}
	})
	tid := startThread(func() {
		for ctx.Err() == nil {
			pause := unix.NsecToTimespec(int64(10 * time.Millisecond))
			_ = unix.Nanosleep(&pause, nil)
		}
	})
	o.Tasks.PIDs = []uint32{uint32(os.Getpid())}
	run(t, o, func(b *Batch) bool {
		require.NotEqual(t, b.Recorded != nil, b.Others != nil)
		if b.Others != nil {
			require.ErrorIs(t, b.Others, perfring.ErrTasks)
		}
		found := false
		eachSample(b, func(_ *rewrite.Named, s *rewrite.NamedSample) {
			id, _ := s.Attribute("thread.id")
			found = found || uint32(id.Number) == tid
		})
		t.Log(b.Recorded, b.Others)
		return !found
	})
}

// TestTooManyThreads verifies that nothing is read of too many threads, and that delays begin again after that.
func TestTooManyThreads(t *testing.T) {
	threads := threads{procfs: t.TempDir(), states: true, most: 2}
	dir := filepath.Join(threads.procfs, "1", "task")
	for tid := range threads.most + 1 {
		thread := filepath.Join(dir, strconv.Itoa(tid+1))
		require.NoError(t, os.MkdirAll(thread, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(thread, "stat"), []byte("1 (x) S"+strings.Repeat(" 7", 40)), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(thread, "schedstat"), []byte("1 2 3"), 0o600))
	}
	threads.begin()
	b := new(Batch)
	threads.addTo(b)
	require.ErrorIs(t, b.NoThreads, ErrManyThreads)
	assert.Empty(t, b.Threads)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "1")))
	for _, known := range []int{0, threads.most} {
		threads.addTo(b)
		require.NoError(t, b.NoThreads)
		assert.Len(t, b.Threads, threads.most)
		assert.Len(t, b.Delays.Threads, known)
	}
}
