// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/bpfcost"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestTopFlagsThatExcludeEachOther(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	for args, want := range map[string]string{
		"top --off-cpu --bpf":          "--bpf is about what runs: it cannot be used with --off-cpu",
		"top --off-cpu -F 10":          "--freq is about what runs: it cannot be used with --off-cpu",
		"top --off-cpu -C 0":           "--cpu is about what runs: it cannot be used with --off-cpu",
		"top --idle":                   "--idle is about waits: it needs --off-cpu",
		"top --idle a":                 "--idle is about sampling this machine",
		"top --threshold 1ms":          "--threshold is about waits: it needs --off-cpu",
		"top --off-cpu --threshold=-1": "invalid argument",
		"top --off-cpu a":              "--off-cpu is about sampling this machine",
		"top --stats":                  "--stats is about BPF programs: it needs --bpf",
		"top a --bpf":                  "--bpf is about sampling this machine",
		"top a --stats":                "--stats is about BPF programs: it needs --bpf",
	} {
		_, errs, err := execute(t, "", strings.Fields(args)...)
		require.Error(t, err, args)
		assert.Contains(t, errs, want, args)
	}
}

// keepRunning runs a BPF program until the test ends.
func keepRunning(t *testing.T) *ebpf.Program {
	t.Helper()
	prog := kerneltest.LoadBPF(t, kerneltest.HotProgram(t))
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				kerneltest.RunBPF(t, prog, 1000)
			}
		}
	})
	t.Cleanup(func() { close(stop); running.Wait() })
	return prog
}

func programID(t *testing.T, prog *ebpf.Program) uint32 {
	t.Helper()
	info, err := prog.Info()
	require.NoError(t, err)
	id, ok := info.ID()
	require.True(t, ok)
	return uint32(id)
}

// topProgram samples this machine until a sample of a program has a source line, however long the
// machine stalls, and returns the program's row.
func topProgram(t *testing.T, id uint32) (bpfcost.JSON, bpfcost.Row) {
	t.Helper()
	duration := fmt.Sprintf("%ds", kerneltest.Sized(3, 1))
	for end := time.Now().Add(5 * time.Minute); ; {
		out, errs, err := execute(t, "", "top", "--bpf", "--stats", "--duration", duration, "-F", strconv.Itoa(kerneltest.Hertz(997)), "-o", "json", "-n", "0")
		require.NoError(t, err, errs)
		var j bpfcost.JSON
		decoder := json.NewDecoder(strings.NewReader(out))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&j))
		i := slices.IndexFunc(j.Programs, func(r bpfcost.Row) bool {
			return r.ID == id && r.Self != nil && r.Self.Samples > 0 && r.Total != nil && r.Hottest != nil
		})
		if i >= 0 {
			return j, j.Programs[i]
		}
		require.True(t, time.Now().Before(end), out)
		t.Logf("sampling again: program %d has no sample: %s", id, out)
	}
}

func TestTopBPF(t *testing.T) {
	needTop(t)
	kerneltest.NeedBPF(t)
	j, row := topProgram(t, programID(t, keepRunning(t)))
	assert.Equal(t, runtime.NumCPU(), j.CPUs)
	for _, problem := range j.Problems { // a busy machine loses samples
		assert.NotContains(t, problem, "Who loads programs")
		assert.NotContains(t, problem, "describe programs")
	}
	for _, any := range j.Programs {
		if any.Total != nil {
			assert.LessOrEqual(t, any.Total.Samples, j.All.Samples)
		}
	}
	assert.Equal(t, "kernelsym_test_hot_program", row.Name)
	assert.Equal(t, "socket_filter", row.Type)
	assert.Positive(t, row.Self.Percent)
	require.NotNil(t, row.Counted)
	assert.Positive(t, row.Counted.RunsPerSecond)
	assert.Equal(t, uint32(os.Getuid()), *row.UID)
}

// TestTopBPFPrintsOnce verifies that a table is printed if the output is not a terminal. With
// problems, it has more lines above it. If the machine stalls, it has no program.
func TestTopBPFPrintsOnce(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needTop(t)
	kerneltest.NeedBPF(t)
	keepRunning(t)
	out, errs, err := execute(t, "", "top", "--bpf", "-d", "1", "-n", "1")
	require.NoError(t, err, errs)
	assert.Regexp(t, `\n *SELF +TOTAL +INTR +(KERNEL +RUNS/S +NS/RUN +)?ID +NAME +TYPE +LINE +UID +LOADED BY\n([^\n]+\n)?$`, out)
}

// TestTopBPFOnATerminal verifies that the key b switches between functions and BPF programs.
func TestTopBPFOnATerminal(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needTop(t)
	kerneltest.NeedBPF(t)
	keepRunning(t)
	cmd := tool(t.Context(), "top", "-d", "0.2")
	term := kerneltest.StartOnTerminal(t, cmd)
	term.WaitFor("functions", func(output string) bool { return strings.Contains(output, "vmlinux") })
	term.Type("b")
	term.WaitFor("programs", func(output string) bool { return strings.Contains(output, "socket_filter") })
	term.Type("\r")
	term.WaitFor("source lines", func(output string) bool { return strings.Contains(output, "source lines of") })
	term.Type("q")
	_, restored, err := term.Ended()
	require.NoError(t, err)
	assert.True(t, restored)
}

// TestTopBPFThatIsKilled verifies that the kernel stops counting.
func TestTopBPFThatIsKilled(t *testing.T) {
	needTop(t)
	kerneltest.NeedBPF(t)
	if always, err := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled"); err != nil || strings.TrimSpace(string(always)) != "0" {
		t.Skipf("kernel.bpf_stats_enabled is %q (%v): that counting ends is not tested", always, err)
	}
	prog := kerneltest.LoadBPF(t, kerneltest.LoopProgram("kernelsym_count", 5, 3))
	id := programID(t, prog)
	counted := func() uint64 {
		before, err := new(bpf.Reader).Program(id, 0)
		require.NoError(t, err)
		runs := before.Stats.Runs
		kerneltest.RunBPF(t, prog, 10)
		after, err := new(bpf.Reader).Program(id, 0)
		require.NoError(t, err)
		return after.Stats.Runs - runs
	}
	ends := func() bool { return counted() == 0 } // other tests also make the kernel count for some seconds
	require.Eventually(t, ends, 5*time.Minute, 10*time.Millisecond)
	cmd := tool(t.Context(), "top", "--bpf", "--stats", "--duration", "1h")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return counted() == 10 }, 5*time.Minute, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // the error is that it was killed
	require.Eventually(t, ends, 5*time.Minute, 10*time.Millisecond)
}
