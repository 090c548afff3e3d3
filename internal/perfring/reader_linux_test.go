// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

func options() Options {
	return Options{
		Event:       Sampling{Frequency: uint64(kerneltest.Hertz(997)), Idle: true},
		BytesPerCPU: 64 << 10,
		Window:      20 * time.Millisecond, // longer than an interrupt takes on a busy machine
		SysFS:       "/sys",
	}
}

// quiet returns options with rings that do not fill up while a test is stalled.
func quiet() Options {
	return Options{Event: Sampling{Frequency: 1}, BytesPerCPU: 256 << 10, SysFS: "/sys"}
}

func open(t *testing.T, opts Options) *Reader {
	t.Helper()
	kerneltest.NeedPerf(t)
	files := kerneltest.OpenFiles(t)
	r, err := Open(opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, r.Close(), "twice")
		assert.Equal(t, files, kerneltest.OpenFiles(t), "files are left open")
	})
	return r
}

// online returns the CPUs that are online. This process need not be allowed to
// run on them.
func online(t *testing.T) []int {
	t.Helper()
	cpus, err := OnlineCPUs("/sys")
	require.NoError(t, err)
	return cpus
}

// readFor returns the records of the given time.
func readFor(t *testing.T, r *Reader, d time.Duration) (all []Record) {
	t.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); {
		require.NoError(t, r.Wait(t.Context(), deadline))
		all = append(all, r.Poll().Records...)
	}
	return all
}

// readUntil reads until it finds a wanted record, and returns all records. It fails the test if
// none comes.
func readUntil(t *testing.T, r *Reader, wanted func(Record) bool) (all []Record) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		records := readFor(t, r, 50*time.Millisecond)
		all = append(all, records...)
		if slices.ContainsFunc(records, wanted) {
			return all
		}
	}
	t.Fatalf("none of %d records is as wanted", len(all))
	return nil
}

func isSample(r Record) bool { return r.Type == TypeSample }

func TestSamplesOfTheRunningKernel(t *testing.T) {
	start := Monotonic.Now()
	r := open(t, options())
	kerneltest.Busy(t)
	self, all := uint32(os.Getpid()), len(online(t))
	samples, own, cpus := 0, false, map[uint32]bool{}
	records := readUntil(t, r, func(rec Record) bool { // samples of each CPU, and some of this process
		if rec.Type == TypeSample {
			samples++
			own = own || rec.PID == self
			cpus[rec.CPU] = true
		}
		return samples > 20 && own && len(cpus) == all
	})
	end := Monotonic.Now()
	for i, rec := range records {
		require.True(t, start < rec.Time && rec.Time < end, "time of record %d", i)
		if rec.Type != TypeSample {
			continue
		}
		require.NotEmpty(t, rec.Stack)
		for _, addr := range rec.Stack {
			require.NotZero(t, addr>>63, "%#x is not an address of the kernel", addr)
		}
	}
}

// TestLost lets a small ring fill up.
func TestLost(t *testing.T) {
	opts := options()
	opts.BytesPerCPU = 1
	opts.Event = Sampling{Frequency: 5000, Idle: true}
	r := open(t, opts)
	kerneltest.Busy(t)
	var lost uint64
	for i := 0; i < 100 && lost == 0; i++ {
		time.Sleep(300 * time.Millisecond)
		// Reading makes room; the kernel announces the loss with the next record.
		r.Poll()
		time.Sleep(10 * time.Millisecond)
		lost += r.Poll().Lost
	}
	assert.Positive(t, lost)
}

func TestFlushHoldsNothingBack(t *testing.T) {
	opts := options()
	opts.Window = 24 * 365 * time.Hour // longer than the machine has been up
	opts.BytesPerCPU = 1
	r := open(t, opts)
	kerneltest.Busy(t)
	for !r.isReady() { // then there are records
		require.NoError(t, r.Wait(t.Context(), time.Now().Add(time.Hour)))
	}
	assert.Empty(t, r.Poll().Records)
	records := r.Flush().Records
	assert.NotEmpty(t, records)
	assert.IsNonDecreasing(t, times(records))
}

func times(records []Record) (all []int64) {
	for _, r := range records {
		all = append(all, r.Time)
	}
	return all
}

// TestHalfFullRingWakes waits again and again until a ring is half full. No deadline ends the
// wait.
func TestHalfFullRingWakes(t *testing.T) {
	opts := options()
	opts.BytesPerCPU = 1
	r := open(t, opts)
	kerneltest.Busy(t)
	for range kerneltest.Sized(30, 10) {
		r.Poll()
		time.Sleep(time.Millisecond) // what happens now must not be missed either
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.NoError(t, r.Wait(ctx, time.Now().Add(time.Hour)))
		cancel()
	}
}

func TestUnixOffset(t *testing.T) {
	for _, clock := range []Clock{Monotonic, Boottime} {
		before := time.Now().UnixNano()
		now, offset, uncertain := clock.UnixOffset()
		now += offset
		after := time.Now().UnixNano()
		assert.GreaterOrEqual(t, now, before-uncertain)
		assert.LessOrEqual(t, now, after+uncertain)
	}
}

func TestRingSize(t *testing.T) {
	page := os.Getpagesize()
	for bytes, want := range map[int]int{0: page, 1: page, page: page, page + 1: 2 * page, 3 * page: 4 * page, 5 * page: 8 * page} {
		assert.Equal(t, want, RingSize(bytes), "%d bytes", bytes)
	}
}
