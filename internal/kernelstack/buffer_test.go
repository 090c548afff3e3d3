// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBuffer verifies how large rings are on machines with few and with many CPUs.
func TestBuffer(t *testing.T) {
	for _, c := range []struct {
		name                           string
		cpus, buffer, least, all, want int
	}{
		{"no limit", 256, 4 << 20, 64 << 10, 0, 4 << 20},
		{"few CPUs", 4, 4 << 20, 64 << 10, 16 << 20, 4 << 20},
		{"one more", 5, 4 << 20, 64 << 10, 16 << 20, 2 << 20},
		{"many", 64, 4 << 20, 64 << 10, 16 << 20, 256 << 10},
		{"no smaller", 4096, 4 << 20, 64 << 10, 16 << 20, 256 << 10},
		{"no power of two", 40, 1_000_000, 64 << 10, 16 << 20, 256 << 10},
		{"smaller from the start", 8192, 16 << 10, 16 << 10, 64 << 20, 16 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Buffer: c.buffer, Least: c.least, Buffers: c.all, Sysfs: t.TempDir()}
			dir := filepath.Join(o.Sysfs, "devices", "system", "cpu")
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "online"), fmt.Appendf(nil, "0-%d\n", c.cpus-1), 0o600))
			assert.Equal(t, c.want, o.buffer())
		})
	}
	o := Options{Buffer: 4 << 20, Least: 64 << 10, Buffers: 1, Sysfs: t.TempDir()}
	assert.Equal(t, 256<<10, o.buffer(), "without sysfs")
}

// TestLockLimits verifies what is said where limits cannot be read.
func TestLockLimits(t *testing.T) {
	proc := t.TempDir()
	assert.Equal(t, "kernel.perf_event_mlock_kb is unknown, RLIMIT_MEMLOCK is unknown", lockLimits(proc))
	for name, text := range map[string]string{
		"sys/kernel/perf_event_mlock_kb": "516\n",
		"self/limits":                    "Max processes  100  200  processes\nMax locked memory         8388608   unlimited     bytes\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600))
	}
	assert.Equal(t, "kernel.perf_event_mlock_kb is 516, RLIMIT_MEMLOCK is 8388608", lockLimits(proc))
}
