// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWidenedStaysInTime(t *testing.T) {
	for _, tt := range []struct{ in, want Interval }{
		{Interval{10, 20}, Interval{5, 25}},
		{Always, Always},
		{Since(3), Interval{-2, Forever}},
		{Interval{math.MinInt64 + 4, 0}, Interval{math.MinInt64, 5}},
		{Interval{0, Forever - 4}, Interval{-5, Forever}},
		{Present, Interval{Forever - 5, Forever}},
	} {
		assert.Equal(t, tt.want, tt.in.Widened(5), "%v", tt.in)
	}
}

// TestAtTheEndsOfTime verifies the answers for intervals that begin or end with time itself.
func TestAtTheEndsOfTime(t *testing.T) {
	h := newHistory(remember, 1000)
	h.Load(bpf("gone", 0x1000, 64, math.MinInt64))
	h.Unload(h.At(0x1000), math.MinInt64)
	h.Load(bpf("live", 0x1000, 64, 500))
	h.Load(bpf("always", 0x2000, 64, math.MinInt64))
	for _, tt := range []struct {
		addr   uint64
		during Interval
		want   string
	}{
		{0x1000, Instant(math.MinInt64), "gone"},
		{0x1000, Interval{math.MinInt64, 600}, "ambiguous"},
		{0x1000, Interval{600, Forever}, "unobserved"},
		{0x1000, Always, "ambiguous"},
		{0x1000, Instant(Forever), "unobserved"},
		{0x1000, Instant(600), "live"},
		{0x1000, Present, "live"},
		{0x2000, Instant(math.MinInt64), "always"},
		{0x2000, Interval{math.MinInt64, 1000}, "always"},
		{0x2000, Always, "unobserved"},
		{0x3000, Interval{math.MinInt64, 1000}, "unresolved"},
		{0x3000, Always, "unobserved"},
	} {
		assert.Equal(t, tt.want, ask(h, tt.addr, tt.during), "%#x in %v", tt.addr, tt.during)
	}
	h.SetCertain(Forever)
	assert.Equal(t, "always", ask(h, 0x2000, Always))
	assert.Equal(t, "live", ask(h, 0x1000, Interval{600, Forever}))
}

func TestBlindTime(t *testing.T) {
	h := newHistory(remember, 100_000)
	blind := func(from, to int64) bool { return h.Table().IsBlind(Interval{from, to}) }
	h.AddBlind(Interval{From: math.MinInt64, To: 100})
	h.AddBlind(Interval{From: 200, To: 300})
	h.AddBlind(Interval{From: 250, To: 350})
	h.AddBlind(Interval{From: 350, To: 360})
	h.AddBlind(Interval{From: 500, To: 500})
	h.AddBlind(Interval{From: 600, To: 500})
	assert.Equal(t, time.Duration(160), h.Table().BlindTime(), "each instant counts once")
	for _, tt := range []struct {
		from, to int64
		want     bool
	}{
		{math.MinInt64, 0, true}, {99, 100, true}, {99, 101, true}, {100, 200, false}, {100, 201, true},
		{299, 300, true}, {355, 356, true}, {360, 100_000, false}, {360, 100_001, true}, {100_000, 100_001, true},
	} {
		assert.Equal(t, tt.want, blind(tt.from, tt.to), "%d-%d", tt.from, tt.to)
	}
	for i := range int64(maxBlind + 10) {
		h.AddBlind(Interval{From: 1000 + 10*i, To: 1005 + 10*i})
	}
	assert.Len(t, h.blind.intervals, maxBlind)
	assert.True(t, blind(100, 200), "the first of too many intervals are merged")
	assert.False(t, blind(1000+10*(maxBlind+9)+5, 20_000))
	assert.False(t, blind(1000+10*500+5, 1000+10*501))
	assert.Equal(t, time.Duration(160+5*(maxBlind+10)), h.Table().BlindTime())
	h.AddBlind(Interval{From: math.MinInt64, To: 50_000})
	assert.True(t, blind(49_999, 50_000))
	assert.False(t, blind(50_000, 50_001))
	assert.Empty(t, h.blind.intervals)
}
