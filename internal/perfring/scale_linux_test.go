// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// manyCPUs is how many CPUs a large node has.
const manyCPUs = 256

// TestManyCPUs has as many rings as a large node, on the CPUs of this machine. Files, memory
// and system calls are real; only sysfs pretends that there are so many CPUs. It prints the
// costs.
//
// The rings record one sample per second instead of kernel symbols: with a hundred rings for
// symbols on one CPU, the kernel would make every such record of the whole machine a hundred
// times as long (see fields.name).
func TestManyCPUs(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedPerf(t)
	sysfs, cpus := manyInSysfs(t), online(t)
	sampling := Options{Event: Sampling{Frequency: 1}, BytesPerCPU: SymbolOptions(sysfs).BytesPerCPU}
	files := kerneltest.OpenFiles(t)
	began := time.Now()
	r, err := openWith(SymbolOptions(sysfs), func(_ *Options, on cpu) (*ring, error) {
		g, err := openRing(&sampling, cpu{number: cpus[on.number%len(cpus)]})
		if err == nil {
			g.cpu = on
		}
		return g, err
	})
	require.NoError(t, err)
	kerneltest.Figure("node256_start_ms %.3f", milliseconds(time.Since(began)))
	defer func() {
		require.NoError(t, r.Close())
		assert.Equal(t, files, kerneltest.OpenFiles(t), "files are left open")
	}()
	opened := kerneltest.OpenFiles(t) - files
	assert.Equal(t, manyCPUs+3, opened)
	kerneltest.Figure("node256_open_files %d", opened)
	mapped := mappedRings(t)
	assert.Equal(t, uint64(manyCPUs*(64<<10+os.Getpagesize())), mapped)
	kerneltest.Figure("node256_ring_bytes %d", mapped)

	// The work for every message, and the work that is done every ten seconds.
	kerneltest.Figure("node256_drain_us %.3f", microseconds(best(func() { r.Poll() })))
	kerneltest.Figure("node256_refresh_us %.3f", microseconds(best(func() { require.NoError(t, r.RefreshCPUs(false)) })))
	kerneltest.Figure("node256_wakeups_idle %.3f", idleWakeups(t, r))
	assert.Len(t, r.state.main.rings, manyCPUs)
	assert.Equal(t, opened, kerneltest.OpenFiles(t)-files, "none was opened again")
}

// manyInSysfs returns a sysfs that lists many CPUs.
func manyInSysfs(t *testing.T) string {
	sysfs := t.TempDir()
	dir := filepath.Join(sysfs, "devices", "system", "cpu")
	for i := range manyCPUs {
		for _, name := range []string{"topology", "cache"} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, fmt.Sprintf("cpu%d", i), name), 0o755))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "online"), fmt.Appendf(nil, "0-%d\n", manyCPUs-1), 0o644))
	return sysfs
}

// mappedRings returns the size of the rings that this process has mapped.
func mappedRings(t *testing.T) (sum uint64) {
	f, err := os.Open("/proc/self/maps")
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasSuffix(lines.Text(), "anon_inode:[perf_event]") {
			var start, end uint64
			_, err := fmt.Sscanf(lines.Text(), "%x-%x ", &start, &end)
			require.NoError(t, err)
			sum += end - start
		}
	}
	require.NoError(t, lines.Err())
	return sum
}

// idleWakeups returns how often per second the threads of this process go to sleep while it
// does what the source does: wait for rings without records, and compare them with the CPUs
// every ten seconds.
func idleWakeups(t *testing.T, r *Reader) float64 {
	for _, g := range r.state.main.rings {
		require.NoError(t, unix.IoctlSetInt(g.fd, unix.PERF_EVENT_IOC_DISABLE, 0))
	}
	r.Flush()
	const seconds = 10
	end, before := time.Now().Add(seconds*time.Second), sleeps(t)
	for time.Now().Before(end) {
		require.NoError(t, r.Wait(t.Context(), end))
		assert.Empty(t, r.Poll().Records)
	}
	require.NoError(t, r.RefreshCPUs(false))
	return float64(sleeps(t)-before) / seconds
}

// sleeps returns how often the threads of this process have gone to sleep.
func sleeps(t *testing.T) int64 {
	var usage unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return usage.Nvcsw
}

// best returns the shortest time that f takes, without interference from other work.
func best(f func()) time.Duration {
	best := time.Hour
	for range 50 {
		began := time.Now()
		f()
		best = min(best, time.Since(began))
	}
	return best
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
