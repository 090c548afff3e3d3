// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestContract_3_2_BootIdleStack verifies the names at the root of the boot CPU's idle stack, where
// the functions are that run only while the kernel starts.
func TestContract_3_2_BootIdleStack(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	k := readKernel(t)
	file := filepath.Join(t.TempDir(), "profiles.json")
	c := startCollector(t, `
receivers: {kernelstack: {event: cpu-clock, idle: true, frequency: 49, interval: 500ms}}
processors: {kernelsym: {}}
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [file]}}}
`)
	waitUntilIdle(t)
	var stack []rewritetest.Frame
	seen := 0
	c.eventually("start_kernel is in the boot CPU's idle stack", func() error {
		all := c.exported(file)
		for _, pd := range all[seen:] {
			for _, s := range rewritetest.Samples(pd) {
				if slices.Contains(functionNames(s.Stack), "start_kernel") {
					stack = s.Stack
					return nil
				}
			}
		}
		seen = len(all)
		return errors.New("start_kernel is in no stack")
	})

	names := functionNames(stack)
	t.Log(names)
	start := slices.Index(names, "start_kernel")
	assert.Contains(t, names[:start], "cpu_startup_entry")
	if runtime.GOARCH == "amd64" {
		release, err := os.ReadFile("/proc/sys/kernel/osrelease")
		require.NoError(t, err)
		root := `^start_kernel x86_64_start_reservations x86_64_start_kernel \w*startup_64\w*$`
		if old := string(release); strings.HasPrefix(old, "5.") || strings.HasPrefix(old, "6.1.") {
			root = `^start_kernel \w*startup_64\w*$` // in these, the two jump to start_kernel
		}
		assert.Regexp(t, root, strings.Join(names[start:], " "))
	}
	for _, f := range stack[start:] {
		assert.Equal(t, "kernel", f.Type)
		assert.Equal(t, k.relative(), f.Mapping)
		below, _ := k.Below(k.base + f.Address)
		assert.Contains(t, below, f.Lines[0].System)
	}
}

func functionNames(stack []rewritetest.Frame) (names []string) {
	for _, f := range stack {
		names = append(names, "")
		if len(f.Lines) > 0 {
			names[len(names)-1] = f.Lines[0].Name
		}
	}
	return names
}

// waitUntilIdle waits until the boot CPU has been idle for a second. It skips the test if other
// processes keep the CPU busy.
func waitUntilIdle(t *testing.T) {
	t.Helper()
	idle, deadline := bootCPUIdle(t), time.Now().Add(20*time.Second)
	for bootCPUIdle(t)-idle < time.Second {
		if time.Now().After(deadline) && !kerneltest.InVM() { // in a virtual machine, nothing else runs
			t.Skip("the boot CPU is busy: its idle stack is not tested")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// bootCPUIdle returns for how long the boot CPU has been idle: the fourth number of cpu0 in
// /proc/stat, in ticks of 10 ms.
func bootCPUIdle(t *testing.T) time.Duration {
	t.Helper()
	content, err := os.ReadFile("/proc/stat")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(content), "\ncpu0 ")
	ticks, err := strconv.Atoi(strings.Fields(rest)[3])
	require.NoError(t, err)
	return time.Duration(ticks) * 10 * time.Millisecond
}
