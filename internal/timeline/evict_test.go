// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestEvict verifies that an evicted image leaves nothing but blind time.
func TestEvict(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Limits
		left   int
	}{
		"what is too old": {Limits{TTL: 20 * time.Millisecond, MaxEntries: 100}, 2},
		"the first":       {Limits{TTL: time.Hour, MaxEntries: 3}, 3},
		"everything":      {Limits{TTL: time.Hour}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(tt.limits, 200*ms)
			h.Load(bpf("stays", 0x4000, 0x100, -10*ms))
			for i := range int64(10) {
				f := bpf(fmt.Sprint("f", i), 0x1000+0x40*uint64(i), 0x100, i*10*ms)
				h.Load(f)
				h.Unload(f, i*10*ms+5*ms)
			}
			h.Evict(101 * ms)
			assert.Equal(t, tt.left, h.Table().Unloaded())
			past := h.past.share()
			assert.Equal(t, tt.left, listed(&past))
			assert.Equal(t, "unobserved", ask(h, 0x1000, Instant(2*ms)))
			assert.Equal(t, "unresolved", ask(h, 0x1000, Instant(100*ms)))
			assert.Equal(t, "stays", ask(h, 0x4000, Instant(2*ms)))
			if tt.left > 0 {
				assert.Equal(t, "f9", ask(h, 0x1240+0x80, Instant(90*ms)))
			}
		})
	}
}

// TestMaxEntriesHoldsAtAnyTime verifies that the history never exceeds its limit, even between two
// calls of Evict, and even if images are unloaded because others take their place.
func TestMaxEntriesHoldsAtAnyTime(t *testing.T) {
	h := newHistory(Limits{TTL: time.Hour, MaxEntries: 3}, 0)
	for i := range int64(20) {
		h.Load(bpf(fmt.Sprint("f", i), 0x1000, 0x100, i*10*ms))
		assert.LessOrEqual(t, h.Table().Unloaded(), 3)
		if i%2 == 0 {
			h.Unload(h.At(0x1000), i*10*ms+5*ms)
			assert.LessOrEqual(t, h.Table().Unloaded(), 3)
		}
	}
	h.SetCertain(200 * ms)
	assert.Equal(t, "unobserved", ask(h, 0x1000, Instant(101*ms)))
	assert.Equal(t, "f18", ask(h, 0x1000, Instant(182*ms)))
}

// TestLinesAreLimited verifies that the history also evicts images if the lines of all of them take too much memory.
func TestLinesAreLimited(t *testing.T) {
	h := newHistory(Limits{TTL: time.Hour, MaxEntries: 100}, 300*ms)
	var b symtab.LinesBuilder
	for i := range uint32(1000) { // they take some 12 KiB
		b.Add(i, i<<10, unique.Make("f.c"))
	}
	lines := b.Build()
	for i := range int64(20) {
		f := bpf(fmt.Sprint("f", i), 0x1000, 0x100, i*10*ms).WithProgram(nil, lines)
		h.Load(f)
		h.Unload(f, i*10*ms+5*ms)
	}
	h.Load(bpf("short", 0x1000, 0x100, 200*ms))
	h.Unload(h.At(0x1000), 205*ms)
	assert.EqualValues(t, 100<<10/lines.Retained()+1, h.Table().Unloaded())
	assert.Equal(t, "unobserved", ask(h, 0x1000, Instant(2*ms)))
	assert.Equal(t, "short", ask(h, 0x1000, Instant(202*ms)))
	h.Evict(1e15)
	assert.Zero(t, h.lines)
}

// TestLinesOfTruncatedLifetimes verifies that the lines which an image loses with the end of its lifetime are not counted any
// more: those of another program that had its address.
func TestLinesOfTruncatedLifetimes(t *testing.T) {
	h := newHistory(Limits{TTL: time.Hour, MaxEntries: 100}, 0)
	var b symtab.LinesBuilder
	b.Add(0, 1<<10, unique.Make("f.c"))
	h.Load(bpf("f", 0x1000, 0x100, 0).WithProgram(&Program{Since: 1 * ms}, b.Build()))
	h.Unload(h.At(0x1000), 5*ms)
	assert.NotZero(t, h.lines)
	h.TruncateLifetimes(Interval{From: 0, To: 20 * ms})
	assert.Zero(t, h.lines)
	h.Evict(1e15)
	assert.Zero(t, h.lines)
}

// TestEvictedImagesAreFreed verifies that evicted images are freed, even while another image is at
// their address.
func TestEvictedImagesAreFreed(t *testing.T) {
	h := newHistory(Limits{TTL: time.Second, MaxEntries: 1 << 16}, 0)
	const n = 2000
	freed := make(chan int, n)
	for i := range int64(n) {
		var b symtab.LinesBuilder
		b.Add(0, 1<<10, unique.Make("f.c"))
		lines := b.Build()
		runtime.AddCleanup(lines, func(int) { freed <- 1 }, 0)
		h.Load(bpf("p", 0x1000, 0x100, i*ms).WithProgram(nil, lines))
		h.Unload(h.At(0x1000), i*ms+ms/2)
	}
	h.Load(bpf("live", 0x1000, 0x100, n*ms))
	h.Evict(1e15)
	table := h.Table()
	assert.Eventually(t, func() bool {
		runtime.GC()
		return len(freed) >= n-2 // the last may still be on the stack
	}, time.Minute, 10*time.Millisecond)
	runtime.KeepAlive(table)
	runtime.KeepAlive(h)
}
