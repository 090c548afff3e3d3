// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestTimesAreThoseOfTheWallClock loads and unloads programs at known times.
func TestTimesAreThoseOfTheWallClock(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.NeedAddresses(t)
	kerneltest.NeedPerf(t)
	tracker := realtime.NewTracker(time.Hour, func() realtime.Reading {
		boot, offset, uncertain := perfring.Boottime.UnixOffset()
		return realtime.Reading{Boot: boot, Offset: offset, Error: uncertain}
	})
	latest := run(t, newSource(everything))
	measured := 0
	for i := range kerneltest.Sized(100, 20) {
		before := time.Now()
		prog := kerneltest.LoadBPF(t, kerneltest.SmallProgram("clock", int32(i), 0))
		loaded := time.Now()
		info, err := prog.Info()
		require.NoError(t, err)
		id, _ := info.ID()
		start := kerneltest.CodeOf(t, prog)[0].Start
		var f *timeline.Image
		table := eventually(t, latest, "it is known", func(table *timeline.Table) bool {
			hit, ok := at(table, start, timeline.Present)
			f = hit.Image
			return ok && f.Program != nil && f.Program.ID == uint32(id) // not the program before, at the same address
		})
		_, clock := tracker.Now()
		during := clock.Convert(timeline.Interval{From: before.UnixNano(), To: loaded.UnixNano() + 1})
		assert.GreaterOrEqual(t, f.Lifetime.From, during.From, "it begins once it is loaded")
		if known := (timeline.Interval{From: during.From, To: f.Lifetime.From}); known.From < known.To && !table.IsBlind(known) {
			measured++
			assert.Less(t, f.Lifetime.From, during.To, "no record was lost, so its own tells")
		}
		require.NoError(t, prog.Close())
	}
	require.Positive(t, measured)
}
