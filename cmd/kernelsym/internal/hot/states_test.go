// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/tasks"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// wait is a wait of a thread of process 10, of 500 ms.
type wait struct {
	tid       int64
	before    bool
	preempted bool
	stack     []rewritetest.Frame
}

// batchOf returns the waits of the second with this number.
func batchOf(second int, waits ...wait) *live.Batch {
	m := rewritetest.NewMessage().Profile(nil, "")
	for _, w := range waits {
		m.Sample(w.stack...)
		m.LastSample().TimestampsUnixNano().FromRaw(nil)
		m.LastSample().Values().FromRaw([]int64{5e8})
		indices := m.LastSample().AttributeIndices()
		indices.Append(m.Attribute("process.pid", int64(10)), m.Attribute("thread.id", w.tid), m.Attribute("thread.name", "t"+strconv.FormatInt(w.tid, 10)))
		if w.before {
			indices.Append(m.Attribute(kernelstack.KeyBefore, int64(1)))
		}
		if w.preempted {
			indices.Append(m.Attribute("process.context_switch.type", "involuntary"))
		}
	}
	b := newBatch(second)
	b.Messages = []*rewrite.Named{written(m)}
	b.Kernel, b.User, b.OffCPU, b.Threshold, b.Event, b.Frequency = len(waits), 0, true, time.Millisecond, "wait", 0
	return b
}

// TestSinceBefore verifies that waits which began before the start have rows of their own, and groups a mark.
func TestSinceBefore(t *testing.T) {
	b := batchOf(0, wait{tid: 10, before: true, stack: stack(leaf, root)}, wait{tid: 11, stack: stack(leaf, root)}, wait{tid: 12, before: true, stack: stack(leaf)})
	v := NewFunctions(WaitTime, 0, BySelf)
	v.Add(b)
	assert.Equal(t, [][]string{
		{"1.00", "1.00", "leaf (since before)", "vmlinux"}, {"0.50", "0.50", "leaf", "vmlinux"}, {"0.00", "1.00", "root", "vmlinux"},
	}, cells(v, BySelf))
	marked := v.Detail(v.Rows(BySelf)[0].Key)
	assert.Equal(t, "callers of leaf (since before) [vmlinux]", marked.Title())
	assert.Equal(t, [][]string{{"500ms", "50.00%", "[entry]", ""}, {"500ms", "50.00%", "root", "vmlinux"}}, cells(marked, ByTotal))
	j := v.JSON(0).(JSON)
	assert.Equal(t, []bool{true, false, false}, []bool{j.Functions[0].Before, j.Functions[1].Before, j.Functions[2].Before})

	for by, want := range map[Grouping][]string{
		ByThread: {"t10 (since before)", "t11", "t12 (since before)"}, ByProcess: {"t10 (2 threads since before)"}, ByContainer: {"[host] (2 threads since before)"},
	} {
		g := NewGroups(WaitTime, by, time.Minute, procname.Names{})
		for second := range 2 {
			b.Start, b.End = epoch.Add(time.Duration(second)*time.Second), epoch.Add(time.Duration(second+1)*time.Second)
			g.Add(b)
		}
		var names []string
		for _, r := range g.Rows(ByTime) {
			for i, c := range g.Columns() {
				if c.Name == strings.ToUpper(string(by)) {
					names = append(names, r.Cells[i])
				}
			}
		}
		assert.Equal(t, want, names)
	}
}

// TestNotKnownBefore verifies that the header says why threads can be missing.
func TestNotKnownBefore(t *testing.T) {
	b := batchOf(0, wait{tid: 10, stack: stack(leaf)})
	b.NoBefore = tasks.ErrPermission
	for _, v := range []interface {
		Add(*live.Batch)
		Header() []string
	}{NewFunctions(WaitTime, 0, BySelf), NewGroups(WaitTime, ByThread, 0, procname.Names{})} {
		v.Add(b)
		assert.Contains(t, v.Header(), "Threads that hung before the start can be missing: "+tasks.ErrPermission.Error())
	}
}

// reading returns threads of process 10 with their states, and the delays of each in milliseconds; nil if there are none.
func reading(states map[uint32]byte, delays map[uint32]int) (now tasks.Reading, since *tasks.Delays) {
	now = make(tasks.Reading)
	for tid, state := range states {
		now[tid] = tasks.Thread{PID: 10, State: state}
	}
	if delays == nil {
		return now, nil
	}
	since = &tasks.Delays{Threads: make(map[uint32]time.Duration), Processes: make(map[uint32]time.Duration)}
	for tid, ms := range delays {
		since.Threads[tid] = time.Duration(ms) * time.Millisecond
		since.Processes[10] += time.Duration(ms) * time.Millisecond
	}
	return now, since
}

// TestStatesAndDelays verifies the columns STATE and RUNQ. A delay is known only if it is known all the time.
func TestStatesAndDelays(t *testing.T) {
	v := NewGroups(WaitTime, ByThread, time.Minute, procname.Names{})
	for second, c := range []struct {
		states map[uint32]byte
		delays map[uint32]int
	}{
		{map[uint32]byte{10: 'S', 11: 'S', 12: 'R'}, map[uint32]int{10: 300, 11: 100, 12: 0}},
		{map[uint32]byte{10: 'D', 11: 'R', 12: 'S', 14: 'S'}, map[uint32]int{10: 150, 12: 0, 13: 50}},
	} {
		b := batchOf(second, wait{tid: 10, stack: stack(leaf)}, wait{tid: 11, stack: stack(leaf)}, wait{tid: 12, stack: stack(leaf)}, wait{tid: 13, stack: stack(leaf)})
		b.Threads, b.Delays = reading(c.states, c.delays)
		v.Add(b)
	}
	assert.Equal(t, []string{"TOTAL", "RUNQ", "PID", "TID", "THREAD", "STATE"}, columnNames(v))
	assert.Equal(t, [][]string{
		{"0.50", "0.23", "10", "10", "t10", "D"}, {"0.50", "-", "10", "11", "t11", "-"}, {"0.50", "0.00", "10", "12", "t12", "S"},
		{"0.50", "-", "10", "13", "t13", "-"},
	}, cells(v, ByTime))
	text, err := json.Marshal(v.JSON(2).(GroupsJSON).Groups)
	require.NoError(t, err)
	assert.JSONEq(t, `[
		{"pid": 10, "tid": 10, "name": "t10", "samples": 1000000000, "kernel": 1000000000, "user": 0, "percent": 50, "run_queue": 450000000, "states": {"D": 1}},
		{"pid": 10, "tid": 11, "name": "t11", "samples": 1000000000, "kernel": 1000000000, "user": 0, "percent": 50}
	]`, string(text))
	assert.Contains(t, v.Header(), "RUNQ: the time in the run queue, also of shorter waits. STATE: now.")

	for range 3 { // containers and CPUs have neither
		v.NextGrouping()
		if v.grouping != ByProcess {
			assert.Equal(t, []string{"TOTAL", strings.ToUpper(string(v.grouping))}, columnNames(v))
			assert.NotContains(t, strings.Join(v.Header(), "\n"), "RUNQ")
		}
	}
	assert.Equal(t, [][]string{{"2.00", "0.30", "10", "t10", "1D 2S"}}, cells(v, ByTime))
}

func columnNames(v *Groups) (names []string) {
	for _, c := range v.Columns() {
		names = append(names, c.Name)
	}
	return names
}

// TestStatesAreNotRead verifies that the header of the tables that have states says why there are none.
func TestStatesAreNotRead(t *testing.T) {
	v := NewGroups(WaitTime, ByThread, 0, procname.Names{})
	b := batchOf(0, wait{tid: 10, stack: stack(leaf)})
	b.NoThreads = errors.New("too many")
	v.Add(b)
	assert.Contains(t, v.Header(), "RUNQ and STATE are not known: too many")
	assert.Equal(t, [][]string{{"0.50", "-", "10", "10", "t10", "-"}}, cells(v, ByTime))
	v.grouping = ByCPU
	assert.NotContains(t, v.Header(), "RUNQ and STATE are not known: too many")
}

// TestIdleKernelThreads verifies which waits are left out until a key shows them.
func TestIdleKernelThreads(t *testing.T) {
	main, kthreadFrame, schedule := frame("worker_thread", "vmlinux"), frame("kthread", "vmlinux"), frame("schedule", "vmlinux")
	fork, mutex := frame("ret_from_fork", "vmlinux"), frame("__mutex_lock", "vmlinux")
	b := batchOf(0,
		wait{tid: 1, stack: stack(main, kthreadFrame, fork)},
		wait{tid: 1, stack: stack(main, kthreadFrame)},
		wait{tid: 2, stack: stack(schedule, main, kthreadFrame, fork)},
		wait{tid: 2, stack: stack(mutex, main, kthreadFrame, fork)}, // a lock between
		wait{tid: 3, stack: stack(main, kthreadFrame, fork), preempted: true},
		wait{tid: 4, stack: stack(main, kthreadFrame, fork), before: true},
		wait{tid: 5, stack: stack(kthreadFrame, fork)},
		wait{tid: 6, stack: stack(main, frame("kthread", "other"))},
		wait{tid: 7, stack: stack(main)},
	)
	const shown, all = 6, 9
	for length, line := range map[time.Duration]string{
		0: "2 kernel threads waiting in their main function: --idle shows them.", time.Minute: "2 kernel threads waiting in their main function: i shows them.",
	} {
		v := NewFunctions(WaitTime, length, BySelf)
		v.Add(b)
		assert.Contains(t, v.Header()[0], "6 samples of waits")
		assert.Contains(t, v.Header()[1], "In all: 3.00")
		assert.Equal(t, line, v.Header()[2])
		assert.Equal(t, 2, v.JSON(0).(JSON).Idle)
		assert.Equal(t, int64(shown*5e8), v.window.Sum.counts.Kernel)
	}
	v, g := NewFunctions(WaitTime, time.Minute, BySelf), NewGroups(WaitTime, ByThread, time.Minute, procname.Names{})
	v.Add(b)
	g.Add(b)
	assert.Equal(t, []any{int64(shown * 5e8), 2}, []any{g.window.Sum.sum(), g.JSON(0).(GroupsJSON).Idle})
	assert.Contains(t, g.Header(), "2 kernel threads waiting in their main function: i shows them.")
	v.ToggleIdle()
	g.ToggleIdle()
	assert.Equal(t, []int64{all * 5e8, all * 5e8}, []int64{v.window.Sum.counts.Kernel, g.window.Sum.sum()})
	assert.NotContains(t, strings.Join(append(v.Header(), g.Header()...), "\n"), "main function")
	assert.Equal(t, "worker_thread", v.Rows(BySelf)[0].Cells[2])
	v.ToggleIdle()
	assert.Equal(t, int64(shown*5e8), v.window.Sum.counts.Kernel)

	b.OffCPU = false // samples of what runs
	v.Add(b)
	assert.Equal(t, int64((shown+all)*5e8), v.window.Sum.counts.Kernel)
}

// TestTies verifies that rows whose shares look the same stay in the order of their names, whatever the exact values are.
func TestTies(t *testing.T) {
	for _, middleIsMore := range []int64{-1, 0, 1} {
		v := NewFunctions(WaitTime, 0, BySelf)
		v.Add(waitsFor(map[*rewritetest.Frame]int64{&leaf: 1000, &middle: 1000 + middleIsMore}))
		assert.Equal(t, []string{"leaf", "middle"}, []string{v.Rows(BySelf)[0].Cells[2], v.Rows(BySelf)[1].Cells[2]})
		assert.Equal(t, v.Rows(BySelf)[0].Cells[0], v.Rows(BySelf)[1].Cells[0])
	}
	v := NewFunctions(WaitTime, 0, BySelf)
	v.Add(waitsFor(map[*rewritetest.Frame]int64{&leaf: 1000, &middle: 1010}))
	assert.Equal(t, "middle", v.Rows(BySelf)[0].Cells[2])

	exact := v.window.Sum.counts.sorted(BySelf, 0)
	assert.Equal(t, "middle", exact[0].Name)
	g := NewGroups(WaitTime, ByThread, 0, procname.Names{})
	b := batchOf(0, wait{tid: 10, stack: stack(leaf)}, wait{tid: 11, stack: stack(leaf)})
	g.Add(b)
	g.Add(batchOf(1, wait{tid: 11, stack: stack(leaf)}))
	assert.Equal(t, "t11", g.Rows(ByTime)[0].Cells[4])
	assert.Positive(t, rank(0).compare(2, 1))
	assert.Zero(t, CPUTime.rank(1e6).compare(1000, 1049), "0.10%")
	assert.Negative(t, CPUTime.rank(1e6).compare(1000, 1051), "0.11%")
}

// TestRecordedThreads verifies that it is said whose switches were recorded.
func TestRecordedThreads(t *testing.T) {
	b := batchOf(0, wait{tid: 10, stack: stack(leaf, root)})
	const line, whole = "Recording the switches of 12 threads only.", "Events of the whole machine were recorded: too many"
	number := 12
	for _, c := range []struct {
		recorded *int
		others   error
		want     []string
	}{
		{nil, nil, nil}, {&number, nil, []string{line}}, {nil, errors.New("too many"), []string{whole}},
	} {
		b.Recorded, b.Others = c.recorded, c.others
		functions, groups := NewFunctions(WaitTime, 0, BySelf), NewGroups(WaitTime, ByThread, 0, procname.Names{})
		functions.Add(b)
		groups.Add(b)
		for _, header := range [][]string{functions.Header(), groups.Header()} {
			var found []string
			for _, l := range header {
				if l == line || l == whole {
					found = append(found, l)
				}
			}
			assert.Equal(t, c.want, found)
		}
		f, g := functions.JSON(0).(JSON), groups.JSON(0).(GroupsJSON)
		assert.Equal(t, []*int{c.recorded, c.recorded}, []*int{f.Recorded, g.Recorded})
		if c.others != nil {
			assert.Equal(t, [][]string{{whole}, {whole}}, [][]string{f.Problems, g.Problems})
		}
	}
}
