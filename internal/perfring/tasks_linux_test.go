// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// switchesOf records the switches of threads that a function lists.
func switchesOf(list func() ([]Task, error)) Options {
	opts := switches()
	opts.Event = Switches{Tasks: list}
	return opts
}

// ownThreads lists the threads of this process, and has new ones recorded, too.
func ownThreads() (list []Task, err error) {
	dirs, err := filepath.Glob("/proc/self/task/*")
	for _, dir := range dirs {
		tid, _ := strconv.Atoi(filepath.Base(dir))
		list = append(list, Task{TID: uint32(tid), New: true})
	}
	return list, err
}

// idler returns the number of a thread that sleeps until the test ends.
func idler(t *testing.T) uint32 {
	t.Helper()
	tid, end := make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocks
		tid <- unix.Gettid()
		for {
			select {
			case <-end:
				close(tid)
				return
			default:
				pause := unix.NsecToTimespec(int64(time.Millisecond))
				_ = unix.Nanosleep(&pause, nil)
			}
		}
	}()
	t.Cleanup(func() { close(end); <-tid })
	return uint32(<-tid)
}

// assertTasks verifies the number of threads that are recorded.
func assertTasks(t *testing.T, want int, r *Reader) {
	t.Helper()
	if n := r.Tasks(); assert.NotNil(t, n) {
		assert.Equal(t, want, *n)
	}
}

// TestTasks verifies that nothing is recorded but what one thread does.
func TestTasks(t *testing.T) {
	recorded, other := idler(t), idler(t)
	r := open(t, switchesOf(func() ([]Task, error) { return []Task{{TID: recorded}}, nil }))
	assertTasks(t, 1, r)
	nap(t, 20)
	ins := 0
	for _, rec := range readUntil(t, r, func(rec Record) bool { return rec.Switch == SwitchIn }) {
		require.Equal(t, recorded, rec.TID, "%+v; %d is another thread", rec, other)
		require.Contains(t, []Type{TypeSample, TypeSwitch}, rec.Type)
		if rec.Switch == SwitchIn {
			ins++
		}
	}
	assert.Positive(t, ins)
	assert.Nil(t, open(t, switches()).Tasks(), "all threads are recorded")
}

// TestNewThreads verifies that threads which a recorded process makes are recorded from their beginning to their end, and that
// the processes which it makes are not.
func TestNewThreads(t *testing.T) {
	kerneltest.NeedThreadEvents(t)
	r := open(t, switchesOf(ownThreads))
	child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^$")
	require.NoError(t, child.Run())
	tid := nap(t, 20)
	types, forked := map[Type]int{}, map[uint32]bool{}
	readUntil(t, r, func(rec Record) bool {
		switch {
		case rec.Type == TypeFork && rec.PID != uint32(os.Getpid()):
			forked[rec.PID] = true // its maker is recorded
			return false
		case rec.PID != uint32(os.Getpid()):
			t.Fatalf("of another process: %+v", rec)
		case rec.TID == tid:
			types[rec.Type]++
		}
		return rec.TID == tid && rec.Type == TypeExit
	})
	assert.True(t, forked[uint32(child.Process.Pid)])
	assert.GreaterOrEqual(t, types[TypeSwitch], 20)
	assert.GreaterOrEqual(t, types[TypeSample], 10)
}

// TestThreadsBornWhileOpening has a list of threads grow between its readings. Each thread is recorded once.
func TestThreadsBornWhileOpening(t *testing.T) {
	kerneltest.NeedThreadEvents(t)
	first, second := idler(t), idler(t)
	calls := 0
	r := open(t, switchesOf(func() ([]Task, error) {
		calls++
		list := []Task{{TID: first, New: true}}
		if calls > 1 {
			list = append(list, Task{TID: second, New: true})
		}
		return list, nil
	}))
	opened := Monotonic.Now() // before that, they ran on CPUs without a ring, too
	assertTasks(t, 2, r)
	running := map[uint32]bool{}
	ins := map[uint32]int{}
	for _, rec := range readUntil(t, r, func(rec Record) bool {
		if rec.Switch == SwitchIn {
			ins[rec.TID]++
		}
		return ins[first] > 20 && ins[second] > 20
	}) {
		if rec.Type != TypeSwitch || rec.Time < opened {
			continue
		}
		in := rec.Switch == SwitchIn
		was, known := running[rec.TID]
		require.False(t, known && was == in, "twice the same: %+v", rec)
		running[rec.TID] = in
	}
}

// TestThreadsThatCannotBeOpened verifies the errors, and that no event is left open.
func TestThreadsThatCannotBeOpened(t *testing.T) {
	kerneltest.NeedPerf(t)
	files := kerneltest.OpenFiles(t)
	one := idler(t)
	const never = 1 << 30 // PID_MAX_LIMIT of include/linux/threads.h is less
	next := uint32(0)
	errList := errors.New("no list")
	_, err := Open(switchesOf(func() ([]Task, error) {
		next++
		return []Task{{TID: one}, {TID: never + next}}, nil
	}))
	require.ErrorIs(t, err, ErrTasks)
	require.ErrorContains(t, err, "begin and end")
	_, err = Open(switchesOf(func() ([]Task, error) { return nil, errList }))
	require.ErrorIs(t, err, errList)
	assert.Equal(t, files, kerneltest.OpenFiles(t))

	ended := nap(t, 1)
	require.Eventually(t, func() bool { return unix.Kill(int(ended), 0) == unix.ESRCH }, time.Minute, time.Millisecond)
	r := open(t, switchesOf(func() ([]Task, error) { return []Task{{TID: ended}}, nil }))
	assertTasks(t, 0, r)
	nap(t, 20)
	assert.Empty(t, r.Flush().Records)
}

// TestTooFewFilesForThreads: the error is not that of rings, which all threads have in common.
func TestTooFewFilesForThreads(t *testing.T) {
	kerneltest.NeedPerf(t)
	list := []Task{{TID: idler(t)}, {TID: idler(t)}, {TID: idler(t)}, {TID: idler(t)}}
	files := kerneltest.OpenFiles(t)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	low := limit
	low.Cur = uint64(files + 2*len(online(t)) + 8)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	_, err := Open(switchesOf(func() ([]Task, error) {
		all := list
		for range len(online(t)) * 8 {
			all = append(all, list...)
		}
		return all, nil
	}))
	require.ErrorIs(t, err, ErrTasks)
	require.ErrorIs(t, err, unix.EMFILE)
	require.NotErrorIs(t, err, ErrFiles)
	assert.Equal(t, files, kerneltest.OpenFiles(t))
}

// TestLostRecordsOfThreads fills the rings of threads, which nobody reads. All events of a ring count.
func TestLostRecordsOfThreads(t *testing.T) {
	one, other := idler(t), idler(t)
	opts := switchesOf(func() ([]Task, error) { return []Task{{TID: one}, {TID: other}}, nil })
	opts.BytesPerCPU = os.Getpagesize()
	r := open(t, opts)
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		var lost uint64
		for _, g := range r.state.main.rings {
			n, counts := g.lostInAll()
			lost += n
			if !counts {
				lost += 100 // before Linux 6.0, the number is not known
			}
		}
		return lost > 100
	}, time.Minute, 10*time.Millisecond)
	b := r.Flush()
	assert.Positive(t, b.Lost)
	require.NotEmpty(t, b.Blind)
	assert.True(t, b.Blind[0].Lost)
}
