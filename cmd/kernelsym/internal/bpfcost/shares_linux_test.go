// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

var sampleFor = flag.Duration("sample-for", 5*time.Second, "for how long TestSharesAreThoseOfTheKernel runs programs")

// helperLoop describes a program of n rounds that calls a helper in each.
func helperLoop(name string, n int32) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R6, 0),
			asm.FnKtimeGetNs.Call().WithSymbol("round"),
			asm.Add.Imm(asm.R6, 1),
			asm.JLT.Imm(asm.R6, n, "round"),
			asm.Return(),
		},
	}
}

// knownPrograms loads twenty programs. They run with preemption disabled and interrupts enabled
// (bpf_test_run in net/bpf/test_run.c), for some microseconds each time.
func knownPrograms(t *testing.T) (programs []*ebpf.Program) {
	t.Helper()
	types := []ebpf.ProgramType{ebpf.SocketFilter, ebpf.XDP, ebpf.SchedCLS, ebpf.SchedACT, ebpf.CGroupSKB}
	for i := range 20 {
		name := fmt.Sprintf("known_%02d", i)
		spec := kerneltest.LoopProgram(name, int32(i), i)
		if i%2 == 1 {
			spec = helperLoop(name, int32(200+20*i))
		}
		spec.Type = types[i%len(types)]
		last := len(spec.Instructions) - 1
		spec.Instructions = append(spec.Instructions[:last], asm.Mov.Imm(asm.R0, 0), asm.Return()) // all may return 0
		programs = append(programs, kerneltest.LoadBPF(t, spec))
	}
	return programs
}

// TestSharesAreThoseOfTheKernel compares the samples of twenty programs with the kernel's counts.
// The samples have a statistical error. The kernel also counts interrupts that arrive in a program,
// and time that a hypervisor takes from it.
func TestSharesAreThoseOfTheKernel(t *testing.T) {
	kerneltest.NeedBPF(t)
	if kerneltest.InVM() {
		t.Skip("an emulated machine takes far fewer samples than it was asked for: shares are not tested")
	}
	programs := knownPrograms(t)
	const tries, mostStolen, mostUnnamed = 4, 50 * time.Millisecond, 0.01
	for try := 1; ; try++ {
		before := stolen(t)
		s, gaps := sampleKnown(t, programs)
		took := stolen(t) - before
		wrong := compareKnown(t, programs, s, gaps.lost)
		if len(wrong) == 0 {
			return
		}
		if rate := maxSampleRate(t); rate < frequency {
			t.Skipf("the kernel lowered kernel.perf_event_max_sample_rate to %d during the test: shares are not tested", rate)
		}
		busy := fmt.Sprintf("a hypervisor took %s, and %.1f %% of frames had no name in time", took, 100*gaps.unnamed)
		require.True(t, took > mostStolen || gaps.unnamed > mostUnnamed, "%s: %v", busy, wrong)
		if try == tries {
			t.Skipf("the machine is too busy (%s): shares are not tested", busy)
		}
		t.Logf("sampling again: %s: %v", busy, wrong)
	}
}

// maxSampleRate returns the frequency, in hertz, above which the kernel pauses sampling even on CPUs that are busy, such as
// those that run the programs.
func maxSampleRate(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/kernel/perf_event_max_sample_rate")
	require.NoError(t, err)
	rate, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return rate
}

// stolen returns how long the hypervisor kept this machine's CPUs from running their work.
func stolen(t *testing.T) time.Duration {
	t.Helper()
	const field, tick = 8, 10 * time.Millisecond // proc(5); USER_HZ is 100
	text, err := os.ReadFile("/proc/stat")
	require.NoError(t, err)
	ticks, err := strconv.Atoi(string(bytes.Fields(text)[field]))
	require.NoError(t, err)
	return time.Duration(ticks) * tick
}

// runLong runs programs in turn for the time given by the flag, and until they have been on a CPU
// for a while.
func runLong(ctx context.Context, t *testing.T, programs []*ebpf.Program) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	onCPU := func() time.Duration {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
			t.Error(err)
		}
		return time.Duration(now.Nano())
	}
	for began, before := time.Now(), onCPU(); time.Since(began) < *sampleFor || onCPU()-before < time.Second; {
		runEach(ctx, t, programs)
		if ctx.Err() != nil || t.Failed() {
			return
		}
	}
}

// sampleKnown runs programs while they are sampled.
func sampleKnown(t *testing.T, programs []*ebpf.Program) (s Sources, g gaps) {
	t.Helper()
	r, err := Open(t.Context(), "/proc", "/sys", true)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	// All runs are within the sampled time and within the time of the kernel's count, however late
	// a batch arrives.
	ctx, cancel := context.WithTimeout(t.Context(), *sampleFor+5*time.Minute)
	defer cancel()
	var load sync.WaitGroup
	defer load.Wait()
	var ended atomic.Pointer[time.Time]
	begun := false
	s, g = sample(ctx, t, r, func(b *live.Batch, _ []Row) bool {
		if b.Core != nil && !begun {
			begun = true
			load.Go(func() {
				runLong(ctx, t, programs)
				if now := time.Now(); ctx.Err() == nil {
					ended.Store(&now)
				}
			})
		}
		at := ended.Load()
		return at != nil && b.Start.After(*at)
	})
	if begun && ended.Load() == nil {
		t.Skip("the machine is too busy: programs did not get enough time, and shares are not tested")
	}
	require.NoError(t, ctx.Err())
	return s, g
}

// compareKnown returns the programs that have too few or too many samples.
func compareKnown(t *testing.T, programs []*ebpf.Program, s Sources, lost float64) (wrong []string) {
	t.Helper()
	rows := make(map[uint32]Row)
	for _, row := range s.Rows(ByTotal) {
		rows[row.ID] = row
	}
	compared := 0
	for i, p := range programs {
		const enough = 30
		row := rows[idOf(t, p)]
		if row.Total == nil || row.Total.Samples < enough {
			wrong = append(wrong, fmt.Sprintf("program %d has too few samples: %+v", i, row))
			continue
		}
		assert.Equal(t, fmt.Sprintf("known_%02d", i), row.Name)
		require.NotNil(t, row.Counted)
		sampled := float64(row.Total.Samples+row.Interrupted.Samples) / frequency
		counted := float64(row.Counted.Runs) * row.Counted.NanosPerRun / 1e9
		kerneltest.Figure("BPF program %s %-13s %5d samples, %5d self, %d interrupted; %5.0f ns/run; sampled %6.3f s, kernel %6.3f s: %+5.1f %%",
			row.Name, row.Type, row.Total.Samples, row.Self.Samples, row.Interrupted.Samples, row.Counted.NanosPerRun,
			sampled, counted, 100*(sampled/counted-1))
		if limit, ok := allowedError(&row, lost); ok {
			compared++
			if math.Abs(sampled-counted) > limit*counted {
				wrong = append(wrong, fmt.Sprintf("%s: sampled %.3f s, the kernel counted %.3f s", row.Name, sampled, counted))
			}
		}
		if i%2 == 0 {
			assert.Less(t, 0.98*float64(row.Total.Samples), float64(row.Self.Samples)+1, "it calls nothing but thunks")
		} else {
			assert.Less(t, row.Self.Samples, row.Total.Samples, "it calls a helper")
		}
		assert.Equal(t, uint32(os.Getuid()), *row.UID)
	}
	if compared < len(programs)/2 {
		wrong = append(wrong, fmt.Sprintf("%d programs have enough samples", compared))
	}
	return wrong
}

// allowedError returns by how much samples may differ from the kernel's count, and whether they are
// compared. The samples of a minute are compared with the goal, if there are enough of them.
func allowedError(row *Row, lost float64) (limit float64, ok bool) {
	if *sampleFor >= time.Minute {
		return 0.10, row.Total.Samples >= 1000 && row.Counted.NanosPerRun >= 2000
	}
	const otherErrors = 0.07
	return otherErrors + 5/math.Sqrt(float64(row.Total.Samples)) + lost, true
}
