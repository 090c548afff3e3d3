// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestSamplingAttributes: a timer samples at a frequency, the cycle counter after a fixed
// number of cycles. The cycle counter includes user code, because guests have some.
func TestSamplingAttributes(t *testing.T) {
	timer, err := attrOf(Sampling{Frequency: 97}, 0, 8192)
	require.NoError(t, err)
	assert.Equal(t, uint64(97), timer.Sample)
	assert.NotZero(t, timer.Bits&unix.PerfBitFreq)
	assert.NotZero(t, timer.Bits&unix.PerfBitExcludeUser)
	all, err := attrOf(Sampling{Frequency: 97, User: true}, 0, 8192)
	require.NoError(t, err)
	assert.Zero(t, all.Bits&unix.PerfBitExcludeUser)

	cycles := timer
	cycles.Bits &^= unix.PerfBitFreq | unix.PerfBitExcludeUser
	Sampling{Frequency: 97, Cycles: true}.completeCycles(&cycles, 2_600_000_000)
	assert.Equal(t, uint32(unix.PERF_TYPE_HARDWARE), cycles.Type)
	assert.Equal(t, uint64(unix.PERF_COUNT_HW_REF_CPU_CYCLES), cycles.Config)
	assert.Equal(t, uint64(2_600_000_000/97), cycles.Sample)
	Sampling{Frequency: 100}.completeCycles(&cycles, 1)
	assert.Equal(t, uint64(1), cycles.Sample)
}

func TestPeriod(t *testing.T) {
	assert.Equal(t, 10*time.Millisecond, Sampling{Frequency: 100}.Period())
	assert.Equal(t, 10309278*time.Nanosecond, Sampling{Frequency: 97, Cycles: true}.Period())
}

// TestRateOf verifies the rate of a TSC of 2.6 GHz.
func TestRateOf(t *testing.T) {
	assert.InDelta(t, 2.6e9, rateOf(825955249, 31), 10)
	assert.InDelta(t, 2.6e9, rateOf(1651910498, 32), 10)
}

// TestRateOfTheRunningKernel counts the cycles of the TSC.
func TestRateOfTheRunningKernel(t *testing.T) {
	kerneltest.NeedPerf(t)
	rate, err := tscRate(0)
	if err != nil {
		require.ErrorIs(t, err, ErrUnsupported)
		t.Skipf("%v: whether it is right is not tested", err)
	}
	text, err := os.ReadFile("/sys/bus/event_source/devices/msr/type")
	require.NoError(t, err)
	typ, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	require.NoError(t, err)
	attr := unix.PerfEventAttr{Type: uint32(typ), Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))} // msr/tsc/
	fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()

	type reading struct {
		before, after int64
		cycles        uint64
	}
	read := func() (r reading) {
		var count [8]byte
		r.before = Monotonic.Now()
		_, err := unix.Read(fd, count[:])
		require.NoError(t, err)
		r.after = Monotonic.Now()
		r.cycles = binary.NativeEndian.Uint64(count[:])
		return r
	}
	first := read()
	time.Sleep(200 * time.Millisecond)
	last := read()
	cycles := float64(last.cycles-first.cycles) * 1e9
	assert.GreaterOrEqual(t, float64(rate), 0.98*cycles/float64(last.after-first.before))
	assert.LessOrEqual(t, float64(rate), 1.02*cycles/float64(last.before-first.after))
}
