// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestRingsAreHalved verifies which sizes are tried where there is memory for small rings only, and that other errors end it.
func TestRingsAreHalved(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	const room = 64 << 10
	for _, tt := range []struct {
		name          string
		bytes, least  int
		refusal, want error
		tried         []int
	}{
		{"enough", room, 16 << 10, ErrMemory, nil, []int{room}},
		{"halved twice", 4 * room, 16 << 10, ErrMemory, nil, []int{4 * room, 2 * room, room}},
		{"halved, out of memory", 2 * room, room, unix.ENOMEM, nil, []int{2 * room, room}},
		{"not enough", 8 * room, 2 * room, ErrMemory, ErrMemory, []int{8 * room, 4 * room, 2 * room}},
		{"without a least size", 2 * room, 0, ErrMemory, ErrMemory, []int{2 * room}},
		{"another error", 2 * room, room, ErrPermission, ErrPermission, []int{2 * room}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tried []int
			enough := errors.New("large enough")
			_, err := openLargest(Options{Event: Sampling{Frequency: 1}, BytesPerCPU: tt.bytes, LeastPerCPU: tt.least, SysFS: "/sys"},
				func(o *Options, _ cpu) (*ring, error) {
					tried = append(tried, o.BytesPerCPU)
					if o.BytesPerCPU > room || errors.Is(tt.refusal, ErrPermission) {
						return nil, tt.refusal
					}
					return nil, enough
				})
			assert.Equal(t, tt.tried, tried)
			if tt.want == nil {
				tt.want = enough
			}
			require.ErrorIs(t, err, tt.want)
		})
	}
}

// TestRingsSayWhyTheyAreHalved verifies the size of rings that were halved, and the error that says why.
func TestRingsSayWhyTheyAreHalved(t *testing.T) {
	kerneltest.NeedPerf(t)
	const room = 64 << 10
	for _, tt := range []struct {
		bytes  int
		halved error
	}{{room, nil}, {2 * room, ErrMemory}} {
		r, err := openLargest(Options{Event: Sampling{Frequency: 1}, BytesPerCPU: tt.bytes, LeastPerCPU: 4 << 10, SysFS: "/sys"},
			func(o *Options, on cpu) (*ring, error) {
				if o.BytesPerCPU > room {
					return nil, ErrMemory
				}
				return openRing(o, on)
			})
		require.NoError(t, err)
		size, halved := r.BytesPerCPU()
		require.NoError(t, r.Close())
		assert.Equal(t, room, size)
		require.ErrorIs(t, halved, tt.halved)
	}
}

// TestHalvedToTheLeast verifies that rings whose size was given as no power of two are halved to the least, too.
func TestHalvedToTheLeast(t *testing.T) {
	var tried []int
	_, err := openLargest(Options{Event: Sampling{Frequency: 1}, BytesPerCPU: 1_000_000, LeastPerCPU: 64 << 10, SysFS: "/sys"},
		func(o *Options, _ cpu) (*ring, error) {
			tried = append(tried, o.BytesPerCPU)
			return nil, ErrMemory
		})
	require.ErrorIs(t, err, ErrMemory)
	assert.Equal(t, []int{1 << 20, 512 << 10, 256 << 10, 128 << 10, 64 << 10}, slices.Compact(tried))
}

// TestPrioritize verifies that the thread of the goroutine has another nice value until undo, and no other thread.
func TestPrioritize(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	if os.Getuid() != 0 {
		t.Skip("only root can lower a nice value: it is not tested that a thread runs before others")
	}
	nice := func() int {
		n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		require.NoError(t, err)
		return 20 - n
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := nice()
	undo := Prioritize()
	assert.Equal(t, -10, nice())
	other := make(chan int)
	go func() { other <- nice() }()
	assert.Equal(t, before, <-other)
	undo()
	assert.Equal(t, before, nice())
}
