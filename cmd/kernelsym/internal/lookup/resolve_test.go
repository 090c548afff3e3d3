// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/running"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestReplaced verifies that an address gets no name if other code had it since following began, because
// the text may refer to that code.
func TestReplaced(t *testing.T) {
	const start = 0xffffffffc0200000
	h := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: 100})
	h.AddBlind(timeline.Interval{From: timeline.Always.From, To: 10})
	first := timeline.NewFunction(timeline.OriginBPF, "bpf_prog_1", start, 0x40, 20)
	h.Load(first)
	h.Load(timeline.NewFunction(timeline.OriginBPF, "bpf_prog_alone", start+0x40, 0x40, 3e9))
	h.Unload(first, 1e9)
	h.Load(timeline.NewFunction(timeline.OriginBPF, "bpf_prog_2", start, 0x40, 2e9))
	h.SetCertain(9e9)
	s := timeline.NewSnapshot(h.Table())
	nameAt := func(since int64, addr uint64) string {
		var k running.Kernel
		k.Follow(func() *timeline.Snapshot { return s }, since)
		a, err := (&Resolver{Kernel: &k}).At(t.Context(), addr)
		require.NoError(t, err)
		return a.Function + a.Reason
	}
	assert.Equal(t, "ambiguous", nameAt(100, start))
	assert.Equal(t, "ambiguous", nameAt(0, start))
	assert.Equal(t, "bpf_prog_2", nameAt(2e9+100, start))
	assert.Equal(t, "bpf_prog_alone", nameAt(100, start+0x40))
	h.AddBlind(timeline.Interval{From: 2.5e9, To: 2.6e9})
	s = timeline.NewSnapshot(h.Table())
	assert.Equal(t, "ambiguous", nameAt(100, start+0x40), "it may have had other code in blind time")
}
