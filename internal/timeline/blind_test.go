// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestBlindTimeIsWhole verifies that the lack of an answer in blind time holds for all of that time, so that it is looked
// up once, and that an interval which goes beyond blind time says nothing of others.
func TestBlindTimeIsWhole(t *testing.T) {
	h := timeline.NewBuilder(timeline.Limits{})
	h.AddBlind(timeline.Interval{From: math.MinInt64, To: 10})
	h.AddBlind(timeline.Interval{From: 20, To: 30})
	h.SetCertain(40)
	s := timeline.NewSnapshot(h.Table())
	for _, tt := range []struct {
		during, same timeline.Interval
		reason       timeline.Reason
	}{
		{timeline.Interval{From: 2, To: 10}, timeline.Interval{From: math.MinInt64, To: 10}, timeline.ReasonUnobserved},
		{timeline.Interval{From: 2, To: 12}, timeline.Interval{}, timeline.ReasonUnobserved},
		{timeline.Interval{From: 10, To: 12}, timeline.Interval{From: 10, To: 20}, timeline.ReasonUnresolved},
		{timeline.Interval{From: 15, To: 25}, timeline.Interval{}, timeline.ReasonUnobserved},
		{timeline.Interval{From: 22, To: 24}, timeline.Interval{From: 20, To: 30}, timeline.ReasonUnobserved},
		{timeline.Interval{From: 25, To: 35}, timeline.Interval{}, timeline.ReasonUnobserved},
		{timeline.Interval{From: 31, To: 33}, timeline.Interval{From: 30, To: 40}, timeline.ReasonUnresolved},
		{timeline.Interval{From: 31, To: 43}, timeline.Interval{}, timeline.ReasonUnobserved},
		{timeline.Interval{From: 41, To: 43}, timeline.Since(40), timeline.ReasonUnobserved},
	} {
		hit, same := s.At(0x1000, tt.during)
		assert.Equal(t, tt.reason.String(), hit.Reason.String(), "%v", tt.during)
		assert.Equal(t, tt.same, same, "%v", tt.during)
	}
}

// TestBlindTimeCountsOnce verifies that an interval which is recorded again does not count again, even if everything up
// to its end became blind in between because an image was evicted.
func TestBlindTimeCountsOnce(t *testing.T) {
	h := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: 0})
	h.AddBlind(timeline.Interval{From: math.MinInt64, To: 10})
	h.AddBlind(timeline.Interval{From: 20, To: 30})
	m := timeline.NewFunction(timeline.OriginBPF, "f", 0x1000, 0x40, 15)
	h.Load(m)
	h.Unload(m, 40) // evicted at once: all time before 40 is blind now
	h.AddBlind(timeline.Interval{From: 20, To: 30})
	assert.Equal(t, time.Duration(10), h.Table().BlindTime())
	h.AddBlind(timeline.Interval{From: 35, To: 45})
	assert.Equal(t, time.Duration(15), h.Table().BlindTime())
}
