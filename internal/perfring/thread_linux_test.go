// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// openThread records a thread until the test ends, and returns a function that runs others there.
func openThread(t *testing.T) (thread *Thread, run func(func())) {
	t.Helper()
	calls, returned := make(chan func()), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
			returned <- struct{}{}
		}
		close(returned)
	}()
	run = func(call func()) { calls <- call; <-returned }
	t.Cleanup(func() { close(calls); <-returned })
	var err error
	run(func() { thread, err = OpenThread() })
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, thread.Close()) })
	return thread, run
}

func sleep() {
	t := unix.NsecToTimespec(1_000_000)
	_ = unix.Nanosleep(&t, nil)
}

// TestThreadRecordsItsWaits verifies that a thread leaves its CPU with a stack and gets one again, and that there are no
// records of other threads.
func TestThreadRecordsItsWaits(t *testing.T) {
	kerneltest.NeedPerf(t)
	thread, run := openThread(t)
	tid := 0
	run(func() { tid = unix.Gettid(); sleep() })
	records, err := thread.Records()
	require.NoError(t, err)
	blocked := 0
	for i, r := range records {
		assert.Equal(t, uint32(tid), r.TID)
		switch r.Switch {
		case SwitchBlocked, SwitchRunnable:
			require.NotZero(t, i)
			assert.Equal(t, TypeSample, records[i-1].Type)
			assert.NotEmpty(t, records[i-1].Stack)
			if r.Switch == SwitchBlocked {
				blocked++
			}
		case SwitchIn:
			assert.Equal(t, TypeSwitch, records[i-1].Type)
		default:
			assert.Equal(t, TypeSample, r.Type)
		}
	}
	assert.NotZero(t, blocked)
	again, err := thread.Records()
	require.NoError(t, err)
	assert.Equal(t, records, again[:len(records)], "what was read is kept")
}

// TestThreadThatLosesRecordsSaysSo fills the ring.
func TestThreadThatLosesRecordsSaysSo(t *testing.T) {
	kerneltest.NeedPerf(t)
	thread, run := openThread(t)
	run(func() {
		for range 500 {
			sleep()
		}
	})
	_, err := thread.Records()
	require.ErrorIs(t, err, ErrLost)
	run(sleep)
	_, err = thread.Records()
	require.ErrorIs(t, err, ErrLost, "and goes on to say so")
}
