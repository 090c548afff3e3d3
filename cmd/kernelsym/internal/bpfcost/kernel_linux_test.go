// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
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
	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

var sampleFor = flag.Duration("sample-for", 5*time.Second, "for how long TestSharesAreThoseOfTheKernel runs programs")

const frequency = 4999

// sample samples until ctx is done or enough says so, and returns the sources of rows, and the
// share of samples that were lost.
func sample(ctx context.Context, t *testing.T, r *Registry, enough func(*live.Batch, []Row) bool) (s Sources, share float64) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lost, all float64
	throttled := 0
	v := NewView(r, 0)
	require.NoError(t, live.Run(ctx, live.Options{
		Procfs: "/proc", Sysfs: "/sys", Event: "cpu-clock", Frequency: kerneltest.Hertz(frequency), Interval: 500 * time.Millisecond,
	}, func(b *live.Batch) {
		throttled += b.Throttled
		lost += float64(b.Lost)
		all += float64(b.Lost) + float64(b.Kernel+b.User)
		assert.NoError(t, v.Add(b))
		if enough(b, v.sources.Rows(ByTotal)) {
			cancel()
		}
	}))
	if throttled > 0 {
		t.Skip("the kernel takes fewer samples than it was asked for (kernel.perf_cpu_time_max_percent): shares are not tested")
	}
	assert.Empty(t, v.problems)
	return v.sources, lost / max(all, 1)
}

// helperLoop describes a program of n rounds in each of which it calls a helper.
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

// knownPrograms loads twenty programs. They run with preemption disabled and interrupts
// enabled (bpf_test_run in net/bpf/test_run.c), some microseconds a run.
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

func idOf(t *testing.T, prog *ebpf.Program) uint32 {
	t.Helper()
	info, err := prog.Info()
	require.NoError(t, err)
	id, ok := info.ID()
	require.True(t, ok)
	return uint32(id)
}

// runAll runs programs in turn until ctx is done.
func runAll(ctx context.Context, t *testing.T, programs []*ebpf.Program) {
	for ctx.Err() == nil {
		for _, p := range programs {
			if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 100}); err != nil {
				t.Error(err)
				return
			}
		}
	}
}

// TestSharesAreThoseOfTheKernel compares what is sampled of twenty programs with what the
// kernel counts. Samples have a statistical error; on top of that comes what the kernel
// counts of the interrupts that arrive in a program, and what a hypervisor took from it.
func TestSharesAreThoseOfTheKernel(t *testing.T) {
	kerneltest.NeedBPF(t)
	if kerneltest.InVM() {
		t.Skip("an emulated machine takes far fewer samples than it was asked for: shares are not tested")
	}
	programs := knownPrograms(t)
	r, err := Open(t.Context(), "/proc", "/sys", true)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	// All runs are within the time that is sampled and within that of the kernel's count, however
	// late a batch comes.
	ctx, cancel := context.WithTimeout(t.Context(), *sampleFor+5*time.Minute)
	defer cancel()
	var load sync.WaitGroup
	defer load.Wait()
	var ended atomic.Pointer[time.Time]
	begun := false
	s, lost := sample(ctx, t, r, func(b *live.Batch, _ []Row) bool {
		if b.Core != nil && !begun {
			begun = true
			load.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, *sampleFor)
				defer cancel()
				runAll(ctx, t, programs)
				now := time.Now()
				ended.Store(&now)
			})
		}
		at := ended.Load()
		return at != nil && b.Start.After(*at)
	})
	require.NoError(t, ctx.Err())

	rows := make(map[uint32]Row)
	for _, row := range s.Rows(ByTotal) {
		rows[row.ID] = row
	}
	compared := 0
	for i, p := range programs {
		row, ok := rows[idOf(t, p)]
		require.True(t, ok, "program %d was not sampled", i)
		assert.Equal(t, fmt.Sprintf("known_%02d", i), row.Name)
		require.NotNil(t, row.Counted)
		sampled := float64(row.Total.Samples+row.Interrupted.Samples) / frequency
		counted := float64(row.Counted.Runs) * row.Counted.NanosPerRun / 1e9
		kerneltest.Figure("BPF program %s %-13s %5d samples, %5d self, %d interrupted; %5.0f ns/run; sampled %6.3f s, kernel %6.3f s: %+5.1f %%",
			row.Name, row.Type, row.Total.Samples, row.Self.Samples, row.Interrupted.Samples, row.Counted.NanosPerRun,
			sampled, counted, 100*(sampled/counted-1))
		if limit, ok := allowedError(&row, lost); ok {
			compared++
			assert.InEpsilon(t, counted, sampled, limit, row.Name)
		}
		if i%2 == 0 {
			assert.Less(t, 0.98*float64(row.Total.Samples), float64(row.Self.Samples)+1, "it calls nothing but thunks")
		} else {
			assert.Less(t, row.Self.Samples, row.Total.Samples, "it calls a helper")
		}
		assert.Equal(t, uint32(os.Getuid()), *row.UID)
	}
	assert.GreaterOrEqual(t, compared, len(programs)/2, "programs that have enough samples")
}

// allowedError returns by how much samples may differ from the kernel's count, and whether they
// are compared. Those of a minute are compared with the goal, if they are enough for it.
func allowedError(row *Row, lost float64) (limit float64, ok bool) {
	if *sampleFor >= time.Minute {
		return 0.10, row.Total.Samples >= 1000 && row.Counted.NanosPerRun >= 2000
	}
	const otherErrors = 0.07
	return otherErrors + 5/math.Sqrt(float64(row.Total.Samples)) + lost, true
}

// TestProgramsThatComeAndGo: what was unloaded before the table was made is in it, with who
// loaded it. So are the source lines of programs that have them.
func TestProgramsThatComeAndGo(t *testing.T) {
	kerneltest.NeedBPF(t)
	r, err := Open(t.Context(), "/proc", "/sys", false)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var load sync.WaitGroup
	defer load.Wait()
	load.Go(func() {
		for n := int32(0); ctx.Err() == nil; n++ {
			prog, err := kerneltest.NewBPF(kerneltest.LoopProgram("kernelsym_short", n, 0))
			if err != nil {
				t.Error(err)
				return
			}
			_, err = prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: uint32(kerneltest.Sized(20000, 1000))})
			assert.NoError(t, errors.Join(err, prog.Close()))
		}
	})
	hot := kerneltest.LoadBPF(t, kerneltest.HotProgram(t))
	load.Go(func() { runAll(ctx, t, []*ebpf.Program{hot}) })
	// Who has loaded a program is not known where a record was lost; a sample that met an interrupt has no line.
	isShort := func(row Row) bool {
		return row.Name == "kernelsym_short" && row.Gone && row.LoadedBy != nil && row.LoadedBy.PID == uint32(os.Getpid())
	}
	isHot := func(row Row) bool { return row.ID == idOf(t, hot) && row.Total != nil && row.Hottest != nil }
	s, _ := sample(ctx, t, r, func(_ *live.Batch, rows []Row) bool {
		return slices.ContainsFunc(rows, isShort) && slices.ContainsFunc(rows, isHot)
	})
	require.NoError(t, ctx.Err(), "they never were in the table")
	cancel()

	for _, row := range s.Rows(ByTotal) {
		switch {
		case isShort(row):
			assert.NotEmpty(t, row.LoadedBy.Name)
		case isHot(row):
			assert.Equal(t, "kernelsym_test_hot_program", row.Name, "with BTF, the whole name")
			assert.Contains(t, []string{"hot.c", "hot.h"}, path.Base(row.Hottest.File))
			called := float64(row.Total.Samples - row.Self.Samples)
			assert.LessOrEqual(t, called, 0.1*float64(row.Total.Samples)+2*math.Sqrt(float64(row.Total.Samples)), "its functions are its own")
		}
	}
}

// TestTrampolines: they have rows of their own.
func TestTrampolines(t *testing.T) {
	kerneltest.NeedBPF(t)
	r, err := Open(t.Context(), "/proc", "/sys", false)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	kerneltest.AttachFentry(t, "kernelsym_fentry", kerneltest.SyscallFunction(t, "getpgid"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var load sync.WaitGroup
	defer load.Wait()
	load.Go(func() {
		for ctx.Err() == nil {
			for range 10000 {
				_, _ = unix.Getpgid(0)
			}
		}
	})
	sample(ctx, t, r, func(_ *live.Batch, rows []Row) bool {
		return slices.ContainsFunc(rows, func(row Row) bool { return row.Type == "trampoline" && row.Total.Samples > 0 })
	})
	require.NoError(t, ctx.Err(), "none was in the table")
	cancel()
}
