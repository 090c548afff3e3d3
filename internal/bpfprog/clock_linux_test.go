package bpfprog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestTimesAreThoseOfTheWallClock loads and unloads programs at known times.
func TestTimesAreThoseOfTheWallClock(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.NeedAddresses(t)
	kerneltest.NeedPerf(t)
	tracker := realtime.NewTracker(time.Hour, func() (int64, int64) {
		offset := perfring.Boottime.UnixOffset()
		return perfring.Boottime.Now(), offset
	})
	latest := run(t, NewSource(everything))
	const tries = 100
	var widest, early, late time.Duration
	for i := range tries {
		before := time.Now()
		prog := kerneltest.LoadBPF(t, kerneltest.SmallProgram("clock", int32(i), 0))
		loaded := time.Now()
		start := kerneltest.CodeOf(t, prog)[0].Start
		var f *symtab.Function
		eventually(t, latest, "it is known", func(table *symtab.Table) bool {
			sym, ok := table.Lookup(start, symtab.Now)
			f = sym.Function
			return ok && sym.Start == start
		})
		_, clock := tracker.Now()
		at := time.Unix(0, clock.Unix(f.Valid.From))
		early, late = max(early, before.Sub(at)), max(late, at.Sub(loaded))
		widest = max(widest, loaded.Sub(before))
		require.NoError(t, prog.Close())
	}
	t.Logf("of %d loads that took up to %v, the furthest outside was %v early and %v late", tries, widest, early, late)
	assert.Less(t, early, time.Millisecond, "the error that realtime.Clock documents")
	assert.Less(t, late, time.Millisecond)
}
