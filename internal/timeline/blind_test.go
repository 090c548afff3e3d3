// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestBlindTimeCountsOnce verifies that an interval which is recorded again does not count again, even if everything up
// to its end became blind in between because an image was evicted.
func TestBlindTimeCountsOnce(t *testing.T) {
	h := timeline.NewHistory(timeline.Limits{TTL: time.Hour, MaxEntries: 0})
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
