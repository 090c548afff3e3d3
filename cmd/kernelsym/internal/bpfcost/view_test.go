// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

type nothingToClose struct{}

func (nothingToClose) Close() error { return nil }

// batchOf returns a batch that ends after a number of seconds, with at most 10 samples for each of
// 2 CPUs.
func batchOf(t *testing.T, seconds int64, stacks ...[]rewritetest.Frame) *live.Batch {
	t.Helper()
	return &live.Batch{
		Messages: []*rewrite.Named{named(t, stacks...)}, Kernel: len(stacks), Core: newKernel(t).Core(), CPUs: 2, Frequency: 10, Event: "cpu-clock",
		Start: time.Unix(seconds-1, 0), End: time.Unix(seconds, 0),
	}
}

type stack = []rewritetest.Frame

// viewOf returns a view of three programs after two batches. One program has been unloaded.
func viewOf(t *testing.T, length time.Duration) *View {
	t.Helper()
	kernel := programs{1: {Name: "main", Type: 6, Creator: 1000}, 7: {Name: "unseen", Type: 2}}
	r := newRegistry(t, t.TempDir(), kernel)
	r.counting = nothingToClose{}
	r.known[2] = Details{Name: "other", LoadedBy: &procname.Process{PID: 42, Name: "agent"}}
	v := NewView(r, length)
	v.sources.To.At = v.sources.To.At.Add(-time.Hour) // makes the clock's resolution irrelevant
	v.Add(batchOf(t, 101, stack{a, read}, stack{helper, a, read}, stack{timer, entry, a}))
	kernel[7] = bpf.Program{Name: "unseen", Type: 2, Stats: bpf.Stats{Runs: 3, RunTime: 600}}
	v.Add(batchOf(t, 102, stack{b, tramp, read}, stack{a, read}, stack{read}))
	return v
}

func TestView(t *testing.T) {
	v := viewOf(t, 0)
	assert.Equal(t, []string{
		"cpu-clock at 10 Hz on 2 CPUs, 2.0s: 4 samples in BPF, 20.00% of one CPU",
		"Percent of one CPU. TOTAL has what it calls, not the interrupts during it (INTR).",
		"KERNEL, RUNS/S, NS/RUN: the kernel's count, of all processes, with interrupts.",
	}, v.Header())
	rows := v.Rows(ByTotal)
	require.Len(t, rows, 3)
	for _, r := range rows {
		require.Len(t, r.Cells, len(v.Columns()))
	}
	assert.Equal(t, []string{
		"10.00%", "15.00%", "5.00%", "0.00%", "0.0", "-", "1", "main", "xdp", "prog.c:10", "1000", "-",
	}, rows[0].Cells)
	assert.InDelta(t, 0.15, rows[0].Share, 1e-9)
	assert.Equal(t, []string{
		"5.00%", "5.00%", "0.00%", "-", "-", "-", "2", "other (unloaded)", "xdp", "-", "-", "agent[42]",
	}, rows[1].Cells)
	assert.Equal(t, []string{"?", "?", "0.00%", "0.00%", "0.0", "200", "7", "unseen", "kprobe", "-", "0", "-"}, rows[2].Cells)
	assert.Equal(t, rows[2].Key, v.Rows(ByKernel)[0].Key)

	// A detail belongs to a row, and shows its source lines.
	d := v.Detail(rows[0].Key)
	require.NotNil(t, d)
	assert.Equal(t, []string{
		"xdp main, id 1, tag 00000000000000aa", "Percent of the samples in the program or in what the line calls.",
	}, d.Header())
	assert.Equal(t, []topview.Row{{Key: "prog.c:10", Cells: []string{"3", "100.00%", "prog.c:10"}, Share: 1}}, d.Rows(ByTotal))
	require.NotNil(t, v.Detail(rows[1].Key))
	assert.Contains(t, v.Detail(rows[1].Key).Header()[1], "No source lines")
	assert.Nil(t, v.Detail("nothing"))
}

// TestSharesOfLines verifies that the shares of lines are relative to all samples in the program,
// including samples without a line.
func TestSharesOfLines(t *testing.T) {
	v := NewView(newRegistry(t, t.TempDir(), programs{1: {}}), 0)
	v.Add(batchOf(t, 101, stack{a, read}, stack{noLine, read}, stack{helper, noLine, read}, stack{noLine, read}))
	d := v.Detail(v.Rows(ByTotal)[0].Key)
	assert.Equal(t, []topview.Row{{Key: "prog.c:10", Cells: []string{"1", "25.00%", "prog.c:10"}, Share: 0.25}}, d.Rows(ByTotal))
	assert.InDelta(t, 25, v.sources.Rows(ByTotal)[0].Hottest.Percent, 1e-9, "as the table of programs has it")
}

// TestEqualRowsHaveOneOrder verifies that rows with equal names have a fixed order. Programs
// without an id can share a name.
func TestEqualRowsHaveOneOrder(t *testing.T) {
	first, second := at(same+0x10), at(same+0x1010)
	v := NewView(newRegistry(t, t.TempDir(), programs{}), 0)
	v.Add(batchOf(t, 101, stack{second, read}, stack{first, read}))
	for range 40 {
		rows := v.sources.Rows(ByTotal)
		require.Len(t, rows, 2)
		require.Equal(t, []string{"00000000000000cc", "00000000000000dd"}, []string{rows[0].Tag, rows[1].Tag})
	}
}

// TestViewOfAWhile verifies that batches before the window do not count.
func TestViewOfAWhile(t *testing.T) {
	v := viewOf(t, time.Second)
	rows := v.Rows(BySelf)
	require.Len(t, rows, 3)
	assert.Equal(t, "10.00%", rows[0].Cells[0])
	assert.Equal(t, "10.00%", rows[0].Cells[1])
	v.Add(batchOf(t, 103, stack{read}))
	for _, r := range v.Rows(ByTotal) {
		assert.Equal(t, "0.00%", r.Cells[1])
	}
	v = viewOf(t, 2*time.Second)
	assert.Equal(t, "15.00%", v.Rows(ByTotal)[0].Cells[1])
}

func TestViewBeforeTheFirstBatch(t *testing.T) {
	v := NewView(newRegistry(t, t.TempDir(), programs{1: {}}), 0)
	assert.Empty(t, NewView(newRegistry(t, t.TempDir(), programs{}), 0).Rows(ByTotal))
	assert.Equal(t, []string{"Waiting for the first samples."}, v.Header())
	require.Len(t, v.Rows(ByTotal), 1)
	assert.Equal(t, "0.00%", v.Rows(ByTotal)[0].Cells[0])
	encoded, err := json.Marshal(NewView(newRegistry(t, t.TempDir(), programs{}), 0).JSON(0))
	require.NoError(t, err)
	assert.JSONEq(t, `{"seconds": 0, "percent_of": "one CPU", "lost": 0, "throttled": 0, "bpf": {"samples": 0, "percent_of_cpu": 0}, "programs": []}`, string(encoded))
}

// TestUnmeasured verifies that a program without samples has no share of 0 % unless it certainly did not run.
func TestUnmeasured(t *testing.T) {
	for name, tt := range map[string]struct {
		event  string
		counts bool
		runs   uint64
		want   string
		sort   string
	}{
		"the timer":                     {kernelstack.EventClock, false, 0, "?", ByTotal},
		"the timer, runs":               {kernelstack.EventClock, true, 3, "?", ByKernel},
		"the timer, no runs":            {kernelstack.EventClock, true, 0, "0.00%", ByKernel},
		"the cycle counter":             {kernelstack.EventCycles, false, 0, "0.00%", ByTotal},
		"the cycle counter, very short": {kernelstack.EventCycles, true, 3, "0.00%", ByTotal},
	} {
		t.Run(name, func(t *testing.T) {
			kernel := programs{7: {Name: "unseen", Type: 2}}
			r := newRegistry(t, t.TempDir(), kernel)
			if tt.counts {
				r.counting = nothingToClose{}
			}
			v := NewView(r, 0)
			v.sources.To.At = v.sources.To.At.Add(-time.Hour)
			kernel[7] = bpf.Program{Name: "unseen", Type: 2, Stats: bpf.Stats{Runs: tt.runs, RunTime: 600}}
			b := batchOf(t, 101, stack{read})
			b.Event = tt.event
			v.Add(b)
			require.Len(t, v.Rows(ByTotal), 1)
			assert.Equal(t, []string{tt.want, tt.want}, v.Rows(ByTotal)[0].Cells[:2])
			assert.Equal(t, tt.sort, v.Sorts()[0])
			encoded, err := json.Marshal(v.JSON(0))
			require.NoError(t, err)
			for _, key := range []string{"self", "total"} {
				assert.Equal(t, tt.want != "?", bytes.Contains(encoded, []byte(`"`+key+`":{"samples":0,`)), "JSON leaves out what was not measured")
			}
		})
	}
}

// TestViewWithoutStatistics verifies that without statistics, there are no columns of the kernel's
// counts, and no sorting by them.
func TestViewWithoutStatistics(t *testing.T) {
	v := NewView(newRegistry(t, t.TempDir(), programs{1: {}}), 0)
	v.Add(batchOf(t, 101, stack{helper, a}))
	assert.Equal(t, []string{ByTotal, BySelf}, v.Sorts())
	assert.NotContains(t, v.Columns(), topview.Column{Name: "KERNEL", Right: true})
	require.Len(t, v.Rows(ByTotal), 1)
	assert.Equal(t, []string{"?", "10.00%"}, v.Rows(ByTotal)[0].Cells[:2])
}

func TestJSON(t *testing.T) {
	encoded, err := json.Marshal(viewOf(t, 0).JSON(2))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"event": "cpu-clock", "frequency": 10, "cpus": 2, "seconds": 2, "percent_of": "one CPU",
		"lost": 0, "throttled": 0, "bpf": {"samples": 4, "percent_of_cpu": 20},
		"programs": [{
			"program_id": 1, "type": "xdp", "name": "main", "tag": "00000000000000aa", "uid": 1000,
			"self": {"samples": 2, "percent_of_cpu": 10},
			"total": {"samples": 3, "percent_of_cpu": 15},
			"interrupted": {"samples": 1, "percent_of_cpu": 5},
			"hottest_line": {"file": "prog.c", "line": 10, "percent_of_total": 100},
			"kernel_count": {"runs": 0, "runs_per_second": 0, "percent_of_cpu": 0}
		}, {
			"program_id": 2, "type": "xdp", "name": "other", "tag": "00000000000000aa", "unloaded": true,
			"loaded_by": {"pid": 42, "name": "agent"},
			"self": {"samples": 1, "percent_of_cpu": 5},
			"total": {"samples": 1, "percent_of_cpu": 5},
			"interrupted": {"samples": 0, "percent_of_cpu": 0}
		}]
	}`, string(encoded))
}

// TestViewBeforeTheSymbols verifies that samples taken before the kernel's symbols are known do not
// count, nor does their time.
func TestViewBeforeTheSymbols(t *testing.T) {
	v := NewView(newRegistry(t, t.TempDir(), programs{1: {}}), 0)
	early := batchOf(t, 101, stack{helper, a})
	early.Core = nil
	v.Add(early)
	assert.Contains(t, v.Header()[3], "symbols are not known")
	require.Len(t, v.Rows(ByTotal), 1)
	assert.Equal(t, "?", v.Rows(ByTotal)[0].Cells[1])
	v.Add(batchOf(t, 102, stack{helper, a}))
	assert.Len(t, v.Header(), 3)
	rows := v.Rows(ByTotal)
	require.Len(t, rows, 1)
	assert.Equal(t, "10.00%", rows[0].Cells[1])
}

// TestProblems verifies the messages about lost samples, throttling and unavailable names. They
// remain as long as their batch counts.
func TestProblems(t *testing.T) {
	v := NewView(newRegistry(t, t.TempDir(), programs{1: {}}), 2*time.Second)
	for second := int64(101); second <= 102; second++ {
		b := batchOf(t, second, stack{helper, a})
		b.Lost, b.Throttled, b.Missing = 7, 1, errors.New("kallsyms: hidden\ngrant CAP_SYSLOG")
		v.Add(b)
	}
	want := []string{
		"The kernel had no room for 14 samples: shares can be too small. Lower -F.",
		"The kernel paused sampling 2 times: shares are too small. Lower -F.",
		"Names are missing: kallsyms: hidden; grant CAP_SYSLOG",
	}
	assert.Equal(t, want, v.Header()[3:])
	j, ok := v.JSON(0).(JSON)
	require.True(t, ok)
	assert.Equal(t, want, j.Problems)
	assert.Equal(t, Gaps{14, 2}, j.Gaps)
	v.Add(batchOf(t, 104, stack{helper, a}))
	assert.Len(t, v.Header(), 3)
}

// TestSkip verifies that the table leaves out both the kernel's count and the time of skipped
// batches.
func TestSkip(t *testing.T) {
	for _, length := range []time.Duration{0, time.Minute} {
		v := viewOf(t, length)
		kernel, ok := v.registry.programs.(programs)
		require.True(t, ok)
		over := func() time.Duration { return v.sources.To.At.Sub(v.sources.From.At) }
		before, rows := over(), v.Rows(ByTotal)
		kernel[7] = bpf.Program{Name: "unseen", Stats: bpf.Stats{Runs: 1000, RunTime: 1e6}}
		kernel[8] = bpf.Program{Name: "new", Stats: bpf.Stats{Runs: 50, RunTime: 50}}
		v.Skip()
		v.Skip()
		assert.Equal(t, rows, v.Rows(ByTotal), "the table stays the same")
		v.skipped.At = v.skipped.At.Add(time.Hour) // a long pause
		kernel[7] = bpf.Program{Name: "unseen", Stats: bpf.Stats{Runs: 1002, RunTime: 1e6 + 400}}
		v.Add(batchOf(t, 103, stack{read}))
		v.sources.To.At = v.sources.To.At.Add(time.Hour) // there was no real pause
		assert.Less(t, over(), before+time.Minute)
		assert.Equal(t, uint64(3+2), v.sources.counted(7).Runs)
		assert.InDelta(t, 200, v.sources.counted(7).NanosPerRun, 1e-9)
		assert.Zero(t, v.sources.counted(8).Runs)
	}
}
