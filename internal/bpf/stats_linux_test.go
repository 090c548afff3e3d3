// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// statsOf returns the kernel's counts for a program, and the user who loaded it.
func statsOf(t *testing.T, prog *ebpf.Program) (Stats, uint32) {
	t.Helper()
	info, err := prog.Info()
	require.NoError(t, err)
	id, ok := info.ID()
	require.True(t, ok)
	p, err := new(Reader).Program(uint32(id), 0)
	require.NoError(t, err)
	return p.Stats, p.Creator
}

// TestEnableStats: the kernel counts runs while the file is open, and no longer.
func TestEnableStats(t *testing.T) {
	kerneltest.NeedBPF(t)
	prog := kerneltest.LoadBPF(t, kerneltest.LoopProgram("stats_loop", 7, 0))
	counting, err := EnableStats()
	require.NoError(t, err)
	kerneltest.RunBPF(t, prog, 1000)
	stats, creator := statsOf(t, prog)
	want, err := prog.Stats()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, stats.Runs, uint64(1000), "more if a signal interrupted them")
	assert.Equal(t, Stats{Runs: want.RunCount, RunTime: uint64(want.Runtime)}, stats)
	assert.Equal(t, uint32(os.Getuid()), creator)

	require.NoError(t, counting.Close())
	if always, err := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled"); err != nil || strings.TrimSpace(string(always)) != "0" {
		t.Skipf("kernel.bpf_stats_enabled is %q (%v): that counting ends is not tested", always, err)
	}
	counts := func() bool {
		before, _ := statsOf(t, prog)
		kerneltest.RunBPF(t, prog, 1000)
		after, _ := statsOf(t, prog)
		return before != after
	}
	for deadline := time.Now().Add(5 * time.Minute); counts(); { // other tests may also make it count
		require.True(t, time.Now().Before(deadline), "the kernel still counts")
	}
}

// TestEnableStatsWithoutPrivilege: the error is about counting runs, not about listing programs.
func TestEnableStatsWithoutPrivilege(t *testing.T) {
	kerneltest.Unprivileged(t, func(t *testing.T) {
		_, err := EnableStats()
		if errors.Is(err, ErrStats) {
			t.Skipf("%v: permission is not tested", err)
		}
		require.ErrorIs(t, err, ErrStatsPermission)
		assert.NotContains(t, err.Error(), "list")
	})
}
