// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// runFull samples until no ring has room, and then stops sampling.
func runFull(t *testing.T, opts Options) *Reader {
	t.Helper()
	kerneltest.NeedPerf(t)
	opts.BytesPerCPU, opts.Event = 1, Sampling{Frequency: 5000, Idle: true}
	r := open(t, opts)
	kerneltest.Busy(t)
	for _, g := range r.state.main.rings {
		require.Eventually(t, func() bool { return g.wasCrowded(*g.tail) }, time.Minute, time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	for _, g := range r.state.main.rings {
		require.NoError(t, unix.IoctlSetInt(g.fd, unix.PERF_EVENT_IOC_DISABLE, 0))
	}
	return r
}

// TestLossThatIsNeverAnnounced: records lost before the rings are read for the last time are
// counted all the same. The number is exact if the kernel counts lost records.
func TestLossThatIsNeverAnnounced(t *testing.T) {
	r := runFull(t, options())
	b := r.Flush()
	assert.Positive(t, b.Lost)
	all := uint64(0)
	for _, g := range r.state.main.rings {
		n, ok := g.lostInAll()
		if !ok {
			require.True(t, kerneltest.OlderThan(t, 6, 0), "since Linux 6.0, the kernel counts lost records")
			t.Skip("kernels before Linux 6.0 do not count lost records: that all are counted is not tested")
		}
		all += n
	}
	assert.Equal(t, all, b.Lost)
	assert.Zero(t, r.Flush().Lost, "each once")
}

// TestLossOnACPUThatWentOffline: the kernel announces nothing in a ring that is closed.
func TestLossOnACPUThatWentOffline(t *testing.T) {
	first, second := twoCPUs(t)
	opts := options()
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first)
	r := runFull(t, opts)
	setOnline(t, opts.SysFS, second)
	require.NoError(t, r.RefreshCPUs(false))
	assert.Positive(t, r.Poll().Lost)
}

// TestLossThatIsNotCounted: if the kernel does not say how many records were lost, a possible
// loss counts as 1 when the ring is read for the last time, unless the record after it proves
// that nothing was lost.
func TestLossThatIsNotCounted(t *testing.T) {
	r := memoryRing(4096, 0, 0)
	reader := memoryReader(r)
	fill := func() {
		for r.hasRoom(len(at(12))) {
			r.put(at(12))
		}
	}
	fill()
	assert.Zero(t, reader.Poll().Lost, "the kernel may still announce it")
	assert.Equal(t, uint64(1), reader.Flush().Lost)
	assert.Zero(t, reader.Flush().Lost, "once")
	r.put(lostAt(20, 5))
	assert.Equal(t, uint64(4), reader.Flush().Lost, "one of the five was counted")

	fill()
	assert.Zero(t, reader.Poll().Lost)
	r.put(at(30))
	assert.Zero(t, reader.Flush().Lost, "a record without a LOST record before it")
}

// TestLossAfterTheRestWasRead: a record that was in the ring before the loss does not prove
// that nothing was lost.
func TestLossAfterTheRestWasRead(t *testing.T) {
	r := memoryRing(4096, 0, 0)
	reader := memoryReader(r)
	r.put(at(12))
	from := *r.tail
	require.NoError(t, r.drain(func([]byte) {
		for !r.wasCrowded(from) {
			r.put(at(13))
		}
	}))
	r.noteCrowded()
	require.False(t, r.wasCrowded(*r.tail), "only that record was in the way")
	assert.Equal(t, uint64(1), reader.Flush().Lost)
}
