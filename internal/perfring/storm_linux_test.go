// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// pin binds the goroutine to a CPU, and to a thread that ends with the goroutine.
func pin(cpu int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// roomy returns options for symbols, with rings that can hold the records of other tests while
// this one is stalled.
func roomy() Options {
	opts := SymbolOptions("/sys")
	opts.BytesPerCPU = 8 << 20
	return opts
}

// TestOrderAcrossCPUs loads programs on one CPU and closes them on another, so that loads and
// unloads are recorded in different rings and addresses are reused. No program may seem to be
// loaded at the address of one that is still loaded, even if no records are held back.
func TestOrderAcrossCPUs(t *testing.T) {
	kerneltest.NeedBPF(t)
	opts := roomy() // lost records could not be distinguished from late ones
	t.Run("window", func(t *testing.T) { testOrderAcrossCPUs(t, opts) })
	opts.Window = 0
	t.Run("no window", func(t *testing.T) { testOrderAcrossCPUs(t, opts) })
}

func testOrderAcrossCPUs(t *testing.T, opts Options) {
	n := kerneltest.Sized(3000, 300)
	r := open(t, opts)
	name := fmt.Sprintf("o%d", os.Getpid()) // another process may do the same
	live := map[uint64]bool{}
	used := map[uint64]int{}
	cpus := map[bool]map[uint32]bool{false: {}, true: {}}
	var seen, reads, reused int
	read := func(rec Record) {
		seen++
		addr, unload := rec.Symbol.Addr, rec.Symbol.Unregister
		require.Equal(t, unload, live[addr], "record %d: %+v %+v", seen, rec, rec.Symbol)
		live[addr] = !unload
		cpus[unload][rec.CPU] = true
		if !unload {
			if used[addr]++; used[addr] == 2 {
				reused++
			}
		}
	}
	deadline := time.Now().Add(5 * time.Minute)
	// On a busy machine, it can take seconds until the memory of a program is reused.
	for want := 2 * n; reused == 0 && time.Now().Before(deadline); want += 2 * n {
		closed := loadAndClose(t, name, n)
		for seen < want && time.Now().Before(deadline) && !t.Failed() {
			require.NoError(t, r.Wait(t.Context(), time.Now().Add(100*time.Millisecond)))
			b := r.Poll()
			require.Empty(t, b.Blind)
			reads++
			for _, rec := range b.Records {
				if rec.Type == TypeKsymbol && strings.HasSuffix(rec.Symbol.Name, "_"+name) {
					read(rec)
				}
			}
		}
		closed()
		require.Equal(t, want, seen)
	}
	assert.Positive(t, reused, "addresses that are used again")
	t.Logf("%d loads and unloads at %d addresses, %d of them used again, in %d reads; loaded on CPUs %v, closed on %v",
		seen/2, len(used), reused, reads, cpus[false], cpus[true])
}

// loadAndClose loads n programs of a name on one CPU and closes them on another. The returned
// function waits until they are closed.
func loadAndClose(t *testing.T, name string, n int) (wait func()) {
	t.Helper()
	first, second := twoCPUs(t)
	loaded := make(chan *ebpf.Program)
	var work sync.WaitGroup
	work.Go(func() {
		defer close(loaded)
		if err := pin(first); err != nil {
			t.Error(err)
			return
		}
		for i := range n {
			prog, err := newProgram(name, int32(i))
			if !assert.NoError(t, err) {
				return
			}
			loaded <- prog
		}
	})
	work.Go(func() {
		if err := pin(second); err != nil {
			t.Error(err)
		}
		for prog := range loaded {
			assert.NoError(t, prog.Close())
		}
	})
	t.Cleanup(work.Wait)
	return work.Wait
}

// TestSymbolsWakeTheReader waits for programs, again and again. No deadline ends the wait.
func TestSymbolsWakeTheReader(t *testing.T) {
	kerneltest.NeedBPF(t)
	r := open(t, roomy())
	for i := range kerneltest.Sized(30, 10) {
		prog := load(t, "delay", int32(i))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for seen := false; !seen; {
			require.NoError(t, r.Wait(ctx, time.Now().Add(time.Hour)))
			seen = slices.ContainsFunc(r.Poll().Records, isDelayed)
		}
		cancel()
		require.NoError(t, prog.Close())
	}
}

// TestLostSymbols causes more records on a CPU than its ring holds, and then no more. The loss
// is known before the kernel announces it and, since Linux 6.0, so is the number of lost
// records.
func TestLostSymbols(t *testing.T) {
	kerneltest.NeedBPF(t)
	cpu := online(t)[0]
	require.NoError(t, pin(cpu)) // the kernel announces a loss with that CPU's next record
	opts := SymbolOptions("/sys")
	opts.BytesPerCPU = 1
	r := open(t, opts)
	var lost, announced uint64
	for range 3 {
		before := Boottime.Now()
		lost += r.Poll().Lost
		for i := range 100 {
			require.NoError(t, load(t, "lost", int32(i)).Close())
		}
		after := Boottime.Now()
		b := r.Flush()
		assert.Positive(t, b.Lost)
		lost += b.Lost
		from := int64(0)
		for _, rec := range b.Records {
			if rec.CPU == uint32(cpu) {
				from = rec.Time
			}
		}
		assert.Less(t, before, from)
		assert.Less(t, from, after, "a record of blind time")
		assert.True(t, slices.ContainsFunc(b.Blind, func(blind Interval) bool {
			return blind.From == from && after < blind.To
		}), "from %d to after %d is not in %v", from, after, b.Blind)
	}
	require.NoError(t, load(t, "after", 1).Close())
	lost += r.Flush().Lost
	for _, g := range r.state.main.rings {
		announced += g.losses.announced
	}
	assert.Equal(t, announced, lost, "each once")
	t.Logf("%d records lost", lost)
}

// BenchmarkDelay measures the time from the return of a load to the return of the Poll that
// has its record.
func BenchmarkDelay(b *testing.B) {
	kerneltest.NeedBPF(b)
	r, err := Open(SymbolOptions("/sys"))
	require.NoError(b, err)
	defer func() { require.NoError(b, r.Close(), "twice") }()
	read := make(chan int64)
	ctx := b.Context()
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			if err := r.Wait(ctx, time.Now().Add(time.Hour)); err != nil {
				close(read)
				return
			}
			if slices.ContainsFunc(r.Poll().Records, isDelayed) {
				read <- Boottime.Now()
			}
		}
	})
	defer reader.Wait()
	defer func() { require.NoError(b, r.Close()) }()

	var delays []float64
	for i := 0; b.Loop(); i++ {
		prog, err := newProgram("delay", int32(i))
		loaded := Boottime.Now()
		require.NoError(b, err)
		delays = append(delays, float64(<-read-loaded)/1e6)
		require.NoError(b, prog.Close())
	}
	slices.Sort(delays)
	b.ReportMetric(delays[len(delays)/2], "ms-median")
	b.ReportMetric(delays[len(delays)*99/100], "ms-p99")
	b.ReportMetric(delays[len(delays)-1], "ms-max")
}

func isDelayed(rec Record) bool {
	return rec.Type == TypeKsymbol && !rec.Symbol.Unregister && strings.HasSuffix(rec.Symbol.Name, "_delay")
}
