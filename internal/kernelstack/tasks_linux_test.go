// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// threadsOf lists the threads of a process, and has new ones recorded, too.
func threadsOf(pid string) func() ([]perfring.Task, error) {
	return func() (list []perfring.Task, err error) {
		dirs, err := filepath.Glob("/proc/" + pid + "/task/*")
		for _, dir := range dirs {
			tid, _ := strconv.Atoi(filepath.Base(dir))
			list = append(list, perfring.Task{TID: uint32(tid), New: true})
		}
		return list, err
	}
}

// TestWaitsOfAProcessAddUp is TestWaitsAddUp with events of the threads of this process. The thread begins and ends while they
// are recorded.
func TestWaitsOfAProcessAddUp(t *testing.T) {
	kerneltest.NeedThreadEvents(t)
	checkAddUp(t, Waiting{MaxSwitches: unlimited, Tasks: threadsOf("self")})
}

// TestBusyMachine records one thread that sleeps, in rings that hold the switches of others for some milliseconds only.
func TestBusyMachine(t *testing.T) {
	o := waitOptions()
	o.Buffer = 16 << 10
	naps := 0 // that were not interrupted
	sleeper, begin := make(chan int, 1), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		onThread(func() {
			sleeper <- unix.Gettid()
			<-begin
			for range 100 {
				pause := unix.NsecToTimespec(int64(5 * time.Millisecond))
				if unix.Nanosleep(&pause, nil) == nil {
					naps++
				}
			}
		})
	}()
	tid := <-sleeper
	var turns int
	threads := Waiting{MaxSwitches: unlimited, Tasks: func() ([]perfring.Task, error) { return []perfring.Task{{TID: uint32(tid)}}, nil }}
	o.Threads = threads
	sent := waitsWhile(t, o, func() {
		close(begin)
		_, turns = alternate(t, time.Second)
		<-ended
	})
	waits := 0
	for _, w := range realWaits(t, sent) {
		require.Equal(t, tid, w.tid, "only its thread is recorded: %+v", w)
		if w.how == voluntary {
			waits++
		}
	}
	for _, m := range sent {
		assert.Equal(t, []int{0, 0, 1}, []int{int(m.Lost), m.Unknown.All(), *m.Tasks})
	}
	assert.GreaterOrEqual(t, waits, naps/2, "a timer can end before the thread has left the CPU")
	assert.Positive(t, naps)

	threads.Tasks = nil
	o.Threads = threads
	lost := uint64(0)
	for _, m := range waitsWhile(t, o, func() { alternate(t, time.Second) }) {
		lost += m.Lost
		assert.Nil(t, m.Tasks)
	}
	t.Logf("%d turns of others; with events of the whole machine, %d records were lost", turns, lost)
	assert.Positive(t, lost, "the machine is not busy enough")
}

// TestPauseOfTasks has one thread switch too often. A pause can hide that the kernel ends its events, so a new session follows.
func TestPauseOfTasks(t *testing.T) {
	kerneltest.NeedPerf(t)
	if err := procfs.CheckInitialPIDNamespace("/proc"); err != nil {
		t.Skipf("%v: off-CPU time is not tested", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sleeper, ended := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(ended)
		onThread(func() {
			sleeper <- unix.Gettid()
			for ctx.Err() == nil {
				pause := unix.NsecToTimespec(int64(time.Millisecond))
				_ = unix.Nanosleep(&pause, nil)
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	tid := uint32(<-sleeper)
	o := waitOptions()
	o.Interval = 100 * time.Millisecond
	o.Threads = Waiting{MaxSwitches: 10, Tasks: func() ([]perfring.Task, error) { return []perfring.Task{{TID: tid}}, nil }}
	sessions, paused := 0, time.Duration(0)
	sampler := Sampler{Options: o, Started: func(string, Missing) { sessions++ }}
	sampler.Send = func(_ context.Context, m *Message) {
		if paused += m.Paused; sessions > 1 {
			cancel()
		}
	}
	require.ErrorIs(t, sampler.Run(ctx), context.Canceled)
	assert.Positive(t, paused)
}

// TestAllThreads verifies that all threads are recorded, for a reason, if single threads cannot be.
func TestAllThreads(t *testing.T) {
	kerneltest.NeedPerf(t)
	if err := procfs.CheckInitialPIDNamespace("/proc"); err != nil {
		t.Skipf("%v: off-CPU time is not tested", err)
	}
	o := waitOptions()
	refused := fmt.Errorf("%w: by the test", perfring.ErrTasks)
	o.Threads = Waiting{MaxSwitches: unlimited, Tasks: func() ([]perfring.Task, error) { return nil, refused }}
	ctx, cancel := context.WithCancel(t.Context())
	var missing Missing
	var sent []*Message
	sampler := Sampler{Options: o, Started: func(_ string, m Missing) { missing = m; time.AfterFunc(200*time.Millisecond, cancel) }}
	sampler.Send = func(_ context.Context, m *Message) { sent = append(sent, m) }
	require.ErrorIs(t, sampler.Run(ctx), context.Canceled)
	require.ErrorIs(t, missing.Tasks, refused)
	assert.NotEmpty(t, realWaits(t, sent))

	other := errors.New("another error")
	o.Threads = Waiting{MaxSwitches: unlimited, Tasks: func() ([]perfring.Task, error) { return nil, other }}
	require.ErrorIs(t, (&Sampler{Options: o}).Run(t.Context()), other)
}

// TestFewTasks verifies how many events of threads there may be.
func TestFewTasks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"self/limits":               "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\n",
		"devices/system/cpu/online": "0-7\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	threads := func(n int) Waiting {
		return Waiting{Tasks: func() ([]perfring.Task, error) { return make([]perfring.Task, n), nil }}
	}
	o := &Options{Procfs: dir, Sysfs: dir}
	list, err := threads(64).fewTasks(o)
	require.NoError(t, err)
	assert.Len(t, list, 64)
	_, err = threads(65).fewTasks(o)
	require.ErrorIs(t, err, perfring.ErrTasks)
	require.ErrorContains(t, err, "65 threads and 8 CPUs, and at most 512 events")
	o.Procfs = t.TempDir()
	_, err = threads(512).fewTasks(o)
	require.NoError(t, err)
	_, err = threads(513).fewTasks(o)
	require.ErrorIs(t, err, perfring.ErrTasks)
}

// TestProgramThatMayNotBeRead has a process run a program that its user may not read. Then the kernel ends the events of the
// process, and the sampler opens them again.
func TestProgramThatMayNotBeRead(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedThreadEvents(t)
	child, in := startUnreadable(t, nil, "while read line; do :; done")
	pid := child.Process.Pid

	ctx, cancel := context.WithCancel(t.Context())
	started := 0
	o := waitOptions()
	o.Interval = 100 * time.Millisecond
	o.Threads = Waiting{MaxSwitches: unlimited, Tasks: threadsOf(strconv.Itoa(pid))}
	sampler := Sampler{Options: o}
	sampler.Started = func(_ string, missing Missing) {
		require.NoError(t, missing.Tasks)
		started++
		if started == 1 {
			_, err := io.WriteString(in, "go\n")
			require.NoError(t, err)
		}
	}
	again := 0
	sampler.Send = func(_ context.Context, m *Message) {
		if started < 2 {
			return
		}
		_, err := io.WriteString(in, "line\n") // which ends a wait
		require.NoError(t, err)
		for _, w := range realWaits(t, []*Message{m}) {
			assert.Equal(t, pid, w.tid)
			again++
		}
		if again > 1 {
			cancel()
		}
	}
	require.ErrorIs(t, sampler.Run(ctx), context.Canceled)
	assert.Equal(t, 2, started)
	require.NoError(t, in.Close())
	require.NoError(t, child.Wait())
}
