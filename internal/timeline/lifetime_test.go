// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestContract_5_1_LoadedImage verifies the answers for an image that is still loaded. Its lifetime
// ends, for now, with the last time at which the source was certain; only the present is later.
//
//	image      10 s ╞════════════ 20 s certain
//	samples     5 s      15 s         25 s        the present
func TestContract_5_1_LoadedImage(t *testing.T) {
	const addr, second = 0xffffffffc0100000, int64(time.Second)
	h := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: 10})
	h.Load(timeline.NewFunction(timeline.OriginBPF, "bpf_prog_1", addr, 0x40, 10*second))
	h.SetCertain(20 * second)
	s := timeline.NewSnapshot(h.Table())
	for _, tt := range []struct {
		during timeline.Interval
		want   timeline.Reason
	}{
		{timeline.Instant(5 * second), timeline.ReasonUnresolved},
		{timeline.Instant(15 * second), timeline.ReasonNone},
		{timeline.Instant(25 * second), timeline.ReasonUnobserved},
		{timeline.Interval{From: 15 * second, To: 25 * second}, timeline.ReasonUnobserved},
		{timeline.Present, timeline.ReasonNone},
	} {
		hit, _ := s.At(addr, tt.during)
		assert.Equal(t, tt.want, hit.Reason, "%+v", tt.during)
		assert.Equal(t, tt.want == timeline.ReasonNone, hit.Symbol.Exists(), "%+v", tt.during)
	}
}

// TestContract_5_2_BlindTime verifies the reason for an address that no image is known to have had.
func TestContract_5_2_BlindTime(t *testing.T) {
	const addr, second = 0xffffffffc0100000, int64(time.Second)
	h := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: 10})
	h.SetCertain(timeline.Forever)
	h.AddBlind(timeline.Interval{From: 12 * second, To: 13 * second})
	s := timeline.NewSnapshot(h.Table())
	for _, tt := range []struct {
		from, to int64
		want     timeline.Reason
	}{
		{10, 11, timeline.ReasonUnresolved},
		{11, 14, timeline.ReasonUnobserved},
		{14, 15, timeline.ReasonUnresolved},
	} {
		hit, _ := s.At(addr, timeline.Interval{From: tt.from * second, To: tt.to * second})
		assert.Equal(t, tt.want, hit.Reason, "%d to %d s", tt.from, tt.to)
	}
}
