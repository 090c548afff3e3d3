// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func switches() Options {
	return Options{Event: Switches{}, BytesPerCPU: 1 << 20, Window: 20 * time.Millisecond, SysFS: "/sys"}
}

// nap has a thread of its own sleep some times, and returns its id.
func nap(t *testing.T, times int) (tid uint32) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() { // the first thread never ends
			tid = nap(t, times)
			runtime.UnlockOSThread()
			return
		}
		tid = uint32(unix.Gettid()) // it never unlocks: the thread ends with the goroutine
		for range times {
			pause := unix.NsecToTimespec(int64(time.Millisecond))
			_ = unix.Nanosleep(&pause, nil) // an interrupted one is a switch, too
		}
	}()
	<-done
	return tid
}

// TestSwitchesOfAThread verifies what the order of records is that a thread which sleeps leaves behind: a sample with its
// stack, a switch from it on the same CPU, and one to it, which can be on another CPU.
func TestSwitchesOfAThread(t *testing.T) {
	t.Run("of all threads", func(t *testing.T) { checkSwitches(t, switches()) })
	t.Run("of a process", func(t *testing.T) {
		kerneltest.NeedThreadEvents(t)
		checkSwitches(t, switchesOf(ownThreads))
	})
}

func checkSwitches(t *testing.T, opts Options) {
	t.Helper()
	r := open(t, opts)
	opened := Monotonic.Now() // before that, the thread may have run on a CPU without a ring
	const naps = 20
	tid := nap(t, naps)
	ended := Monotonic.Now() // after that, it may run on a CPU whose ring was emptied
	var own []Record
	for _, rec := range r.Flush().Records {
		if opened <= rec.Time && rec.Time < ended && rec.TID == tid && (rec.Type == TypeSample || rec.Type == TypeSwitch) {
			own = append(own, rec)
		}
	}
	blocked, running := 0, true
	for i, rec := range own {
		require.Equal(t, uint32(os.Getpid()), rec.PID)
		if rec.Type == TypeSample {
			require.NotEmpty(t, rec.Stack)
			continue
		}
		switch rec.Switch {
		case SwitchIn:
			require.False(t, running && i > 0, "record %d: it was not off the CPU", i)
			running = true
		default:
			require.True(t, running, "record %d: it was not on a CPU", i)
			running = false
			if i > 0 {
				before := own[i-1]
				require.Equal(t, []any{TypeSample, rec.CPU}, []any{before.Type, before.CPU}, "record %d", i)
			}
			if rec.Switch == SwitchBlocked {
				blocked++
			}
		}
	}
	assert.GreaterOrEqual(t, blocked, naps/2, "a sleep can be over before the thread leaves the CPU")
}

// TestPreemptedThreads has two threads share a CPU: each is preempted by the other.
func TestPreemptedThreads(t *testing.T) {
	r := open(t, switches())
	tids, first := make(chan uint32, 2), online(t)[0]
	var stop atomic.Bool
	defer stop.Store(true)
	for range 2 {
		go func() {
			runtime.LockOSThread()
			var one unix.CPUSet
			one.Set(first)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Errorf("pinning a thread: %v", err)
			}
			tids <- uint32(unix.Gettid())
			for !stop.Load() {
				continue
			}
		}()
	}
	spinning := map[uint32]bool{<-tids: true, <-tids: true}
	preempted := map[uint32]int{}
	readUntil(t, r, func(rec Record) bool {
		if rec.Type == TypeSwitch && rec.Switch == SwitchRunnable && spinning[rec.TID] {
			preempted[rec.TID]++
		}
		return len(preempted) == 2
	})
}

// TestPause verifies that nothing is recorded between Pause and Resume, and that this time is blind.
func TestPause(t *testing.T) {
	t.Run("of all threads", func(t *testing.T) { checkPause(t, switches()) })
	t.Run("of a process", func(t *testing.T) {
		kerneltest.NeedThreadEvents(t)
		checkPause(t, switchesOf(ownThreads))
	})
}

func checkPause(t *testing.T, opts Options) {
	t.Helper()
	r := open(t, opts)
	require.NoError(t, r.Pause())
	from := Monotonic.Now()
	nap(t, 20)
	to := Monotonic.Now()
	require.NoError(t, r.Resume())
	tid := nap(t, 20)
	covers := false
	seen := false
	for deadline := time.Now().Add(time.Minute); !seen && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		b := r.Poll()
		for _, blind := range b.Blind {
			covers = covers || blind.From <= from && to < blind.To
		}
		for _, rec := range b.Records {
			require.False(t, from <= rec.Time && rec.Time < to, "%+v", rec)
			seen = seen || rec.TID == tid
		}
	}
	assert.True(t, seen, "records after the pause")
	assert.True(t, covers, "the pause is blind")
}
