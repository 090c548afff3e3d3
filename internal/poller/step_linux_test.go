// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func clock(t *testing.T, id int32) int64 {
	t.Helper()
	var at unix.Timespec
	require.NoError(t, unix.ClockGettime(id, &at))
	return at.Nano()
}

// TestEachStep sets the wall clock, and sets it back.
func TestEachStep(t *testing.T) {
	kerneltest.NeedVM(t)
	var calls atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { EveryOrStep(ctx, time.Hour, func() { calls.Add(1) }) })
	defer following.Wait()
	defer cancel()
	offset := clock(t, unix.CLOCK_REALTIME) - clock(t, unix.CLOCK_BOOTTIME)
	set := func(by time.Duration) {
		wall := unix.NsecToTimespec(clock(t, unix.CLOCK_BOOTTIME) + offset + int64(by))
		require.NoError(t, unix.ClockSettime(unix.CLOCK_REALTIME, &wall))
	}
	defer set(0)
	for by := time.Second; calls.Load() == 0; by += time.Second { // until EveryOrStep watches the clock
		set(by)
		time.Sleep(10 * time.Millisecond)
	}
	for _, by := range []time.Duration{3 * time.Second, 0, time.Second, 0} {
		time.Sleep(10 * time.Millisecond) // for the calls of the previous step
		before := calls.Load()
		set(by)
		require.Eventually(t, func() bool { return calls.Load() > before }, time.Minute, time.Millisecond)
	}
}

// TestEveryOrStepEnds without leaving a file open.
func TestEveryOrStepEnds(t *testing.T) {
	before := kerneltest.OpenFiles(t)
	for range 3 {
		calls := 0
		ctx, cancel := context.WithCancel(t.Context())
		EveryOrStep(ctx, time.Millisecond, func() {
			if calls++; calls == 3 {
				cancel()
			}
		})
		require.GreaterOrEqual(t, calls, 3)
	}
	require.Equal(t, before, kerneltest.OpenFiles(t))
}
