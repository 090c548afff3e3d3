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

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// manyCPUs is how many CPUs a large node has.
const manyCPUs = 256

// TestManyCPUs has as many rings as a large node, on the CPUs that there are: files, memory and
// system calls are real, that they are of as many CPUs only sysfs says. It prints what they
// cost.
//
// The rings take samples, one a second, where those of Symbols take kernel symbols: with a
// hundred of those on one CPU, the kernel would write every such record of the whole machine
// a hundred times as long (see fields.name).
func TestManyCPUs(t *testing.T) {
	kerneltest.NeedPerf(t)
	sysfs, cpus := manyInSysfs(t), online(t)
	sampling := Options{Event: Sampling{Frequency: 1}, BytesPerCPU: SymbolOptions(sysfs).BytesPerCPU}
	files := openFiles(t)
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
		assert.Equal(t, files, openFiles(t), "files are left open")
	}()
	opened := openFiles(t) - files
	assert.Equal(t, manyCPUs+3, opened)
	kerneltest.Figure("node256_open_files %d", opened)
	mapped := mappedRings(t)
	assert.Equal(t, uint64(manyCPUs*(64<<10+os.Getpagesize())), mapped)
	kerneltest.Figure("node256_ring_bytes %d", mapped)

	// What every message does, and what is done every ten seconds.
	kerneltest.Figure("node256_drain_us %.3f", microseconds(best(func() { r.Drain() })))
	kerneltest.Figure("node256_refresh_us %.3f", microseconds(best(func() { require.NoError(t, r.RefreshCPUs(false)) })))
	assert.Len(t, r.rings, manyCPUs)
	assert.Equal(t, opened, openFiles(t)-files, "none was opened again")
}

// manyInSysfs returns a sysfs with many CPUs.
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

// best returns how long f takes if nothing else is done meanwhile.
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
