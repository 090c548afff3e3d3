// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"context"
	"errors"
	"math"
	"os"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

const frequency = 4999

// gaps are the parts that are missing from a table on a busy machine.
type gaps struct{ lost, unnamed float64 } // shares of samples and of frames

// sample samples until ctx is done or enough returns true, and returns the sources of rows.
func sample(ctx context.Context, t *testing.T, r *Registry, enough func(*live.Batch, []Row) bool) (Sources, gaps) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lost, all float64
	v, counts := NewView(r, 0), hot.NewCounts()
	require.NoError(t, live.Run(ctx, live.Options{
		Procfs: "/proc", Sysfs: "/sys", Event: "cpu-clock", Frequency: kerneltest.Hertz(frequency), Interval: 500 * time.Millisecond,
	}, func(b *live.Batch) {
		if b.Core == nil { // the machine stalled, and nothing could be named in time
			return
		}
		lost += float64(b.Lost)
		all += float64(b.Lost) + float64(b.Kernel+b.User)
		v.Add(b)
		for _, n := range b.Messages {
			counts.Add(n)
		}
		if enough(b, v.sources.Rows(ByTotal)) {
			cancel()
		}
	}))
	assert.Empty(t, v.problems)
	return v.sources, gaps{lost / max(all, 1), 1 - float64(counts.Named)/max(float64(counts.Frames), 1)}
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
	for ctx.Err() == nil && !t.Failed() {
		runEach(ctx, t, programs)
	}
}

// runEach runs each of the programs, unless ctx is done.
func runEach(ctx context.Context, t *testing.T, programs []*ebpf.Program) {
	for _, p := range programs {
		if ctx.Err() != nil {
			return
		}
		_, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 100})
		assert.NoError(t, err)
	}
}

// TestProgramsThatComeAndGo verifies that a program which was unloaded before the table was made is
// in it, with the process that loaded it, and with source lines if it has them.
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
	// The loader of a program is unknown if a record was lost. A sample that hit an interrupt has
	// no line.
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

// TestTrampolines verifies that trampolines have rows of their own.
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
