// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestToggleCounting: the kernel begins and ends to count, and the table has its columns meanwhile. What was sampled before
// is dropped, since the kernel did not count then.
func TestToggleCounting(t *testing.T) {
	kerneltest.NeedBPF(t)
	registry, err := Open(t.Context(), "/proc", "/sys", false)
	require.NoError(t, err)
	defer func() { require.NoError(t, registry.Close()) }()
	v := NewView(registry, time.Minute)
	prog := kerneltest.LoadBPF(t, kerneltest.SmallProgram("counted", 1, 5))
	run := func() Row {
		start := time.Now()
		kerneltest.RunBPF(t, prog, 1000)
		v.Add(&live.Batch{Core: newKernel(t).Core(), CPUs: 1, Frequency: 1, Start: start, End: time.Now(), Event: kernelstack.EventClock})
		for _, r := range v.sources.Rows(ByTotal) {
			if r.Name == "counted" {
				return r
			}
		}
		t.Fatal("a loaded program is not in the table")
		return Row{}
	}
	assert.Nil(t, run().Counted)
	assert.Len(t, v.Sorts(), 2)
	assert.Contains(t, v.Header(), "?: not measured. Runs with interrupts off are not sampled; --stats or key c counts them.")
	v.ToggleCounting()
	assert.GreaterOrEqual(t, run().Counted.Runs, uint64(1000))
	assert.Len(t, v.Sorts(), 3)
	v.ToggleCounting()
	assert.Nil(t, run().Counted)
	assert.Empty(t, v.allProblems())
}
