// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// waitsFor returns a batch of one second with waits, each of the time in ms that is given for its stack.
func waitsFor(stacks map[*rewritetest.Frame]int64) *live.Batch {
	b := newBatch(0)
	message := rewritetest.NewMessage().Profile(nil, "")
	for f, ms := range stacks {
		message.Sample(*f, root)
		samples := message.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples()
		samples.At(samples.Len() - 1).Values().FromRaw([]int64{ms * 1e6})
	}
	b.Messages[0] = written(message)
	b.Kernel, b.User, b.OffCPU, b.Threshold, b.Event, b.Frequency = len(stacks), 0, true, time.Millisecond, "wait", 0
	return b
}

// TestWaitTime: waits are numbers of threads. More than one can wait at a time, and the bars then compare them with all.
func TestWaitTime(t *testing.T) {
	v := NewFunctions(WaitTime, 0, BySelf)
	b := waitsFor(map[*rewritetest.Frame]int64{&leaf: 3000, &middle: 1000})
	b.LostWaits, b.Lost, b.Paused = 2, 100, time.Second
	v.Add(b)
	assert.Equal(t, [][]string{{"3.00", "3.00", "leaf", "vmlinux"}, {"1.00", "1.00", "middle", "ext4"}, {"0.00", "4.00", "root", "vmlinux"}}, cells(v, BySelf))
	assert.InDelta(t, 0.75, v.Rows(BySelf)[0].Share, 1e-9)
	assert.Equal(t, []string{
		"off-CPU time on 2 CPUs, 1s: 2 samples of waits of at least 1ms",
		"Threads on average: 1.00 is one thread that waits all the time. In all: 4.00. Frames named: 100.0%",
		"2 waits not known, because records were lost: numbers are too small.",
		"Too many context switches to record them all: 50% of the time was sampled.",
	}, v.Header())
	callers := v.Detail(v.Rows(BySelf)[0].Key)
	assert.Equal(t, "It was on the stack of 3s of waits, 300.00% of the time of one thread.", callers.Header()[0])
	assert.Equal(t, [][]string{{"3s", "100.00%", "root", "vmlinux"}}, cells(callers, ByTotal))
	j := v.JSON(1).(JSON)
	assert.Equal(t, []any{"nanoseconds", "the time of one thread", int64(3e9), 300.0},
		[]any{j.Unit, j.PercentOf, j.Functions[0].Self, j.Functions[0].SelfPercent})
}

// TestGroupsThatWait: groups have one column of time, and their functions are in the same measure.
func TestGroupsThatWait(t *testing.T) {
	v := NewGroups(WaitTime, ByCPU, 0, procname.Names{})
	v.Add(waitsFor(map[*rewritetest.Frame]int64{&leaf: 1500}))
	assert.Equal(t, []string{ByTime}, v.Sorts())
	assert.Len(t, v.Columns(), 2)
	assert.Equal(t, [][]string{{"1.50", "CPU 0"}}, cells(v, ByTime))
	assert.InDelta(t, 1, v.Rows(ByTime)[0].Share, 1e-9)
	assert.Equal(t, []string{
		"off-CPU time on 2 CPUs, 1.0s: waits of at least 1ms, of 1 CPU", "Threads on average: 1.00 is one thread that waits all the time.",
	}, v.Header())
	functions := v.Detail(v.Rows(ByTime)[0].Key)
	assert.Equal(t, []string{"1.5s of waits.", "Threads on average: 1.00 is one thread that waits all the time."}, functions.Header())
	assert.Equal(t, "nanoseconds", v.JSON(0).(GroupsJSON).Unit)
}

// TestFileOfWaits: what a file's values are decides how they are printed.
func TestFileOfWaits(t *testing.T) {
	waits := waitsFor(map[*rewritetest.Frame]int64{&leaf: 1500}).Messages[0]
	pd := waits.Message().Profiles
	d := pd.Dictionary()
	d.StringTable().Append("off_cpu", "nanoseconds")
	profile := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
	profile.SampleType().SetTypeStrindex(int32(d.StringTable().Len() - 2))
	profile.SampleType().SetUnitStrindex(int32(d.StringTable().Len() - 1))
	file := NewFile("", "off_cpu")
	file.Add(waits)
	var out strings.Builder
	require.NoError(t, file.Print(printable.New(&out, false), BySelf, 0))
	assert.Contains(t, out.String(), "1.5s of 1.5s of waits in the kernel")
	assert.Contains(t, out.String(), "1.5s  100.0%   1.5s  100.0%  leaf [vmlinux]")
	assert.Equal(t, "nanoseconds", file.JSON(BySelf, 0).(JSON).Unit)

	d.StringTable().SetAt(d.StringTable().Len()-2, "cpu")
	other := NewFile("", "")
	other.Add(waits)
	out.Reset()
	require.NoError(t, other.Print(printable.New(&out, false), BySelf, 0))
	assert.Contains(t, out.String(), "1.5s of 1.5s of cpu in the kernel; 100.0 % of the cpu of kernel frames have a name")
	assert.Contains(t, out.String(), "1.5s  100.0%   1.5s  100.0%  leaf [vmlinux]")
	assert.Equal(t, "nanoseconds", other.JSON(BySelf, 0).(JSON).Unit)
}

// TestFileOfWaitsInTheScheduler verifies that waits in a file are those of the first function that is not the scheduler's,
// that a stack of these alone stays, and that samples of a CPU which runs the scheduler stay as they are.
func TestFileOfWaitsInTheScheduler(t *testing.T) {
	schedule, lock := frame("schedule", "vmlinux"), frame("__mutex_lock.constprop.0", "vmlinux")
	for kind, want := range map[string][]Function{
		"off_cpu": {{Name: "__mutex_lock.constprop.0", Module: "vmlinux"}, {Name: "schedule", Module: "vmlinux"}},
		"cpu":     {{Name: "schedule", Module: "vmlinux"}},
	} {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(frame("__schedule", "vmlinux"), schedule, lock, root).Sample(schedule)
		if kind == "cpu" {
			m = rewritetest.NewMessage().Profile(nil, "").Sample(schedule, lock, root)
		}
		d := m.Profiles.Dictionary()
		d.StringTable().Append(kind, "nanoseconds")
		m.LastProfile().SampleType().SetTypeStrindex(int32(d.StringTable().Len() - 2))
		m.LastProfile().SampleType().SetUnitStrindex(int32(d.StringTable().Len() - 1))
		f := NewFile("", kind)
		f.Add(written(m))
		var self []Function
		for _, fn := range f.counts.sorted(BySelf, 0) {
			if f.counts.functions[fn].self > 0 {
				self = append(self, fn)
			}
		}
		assert.Equal(t, want, self, kind)
	}
}

// TestPreempted verifies that the waits of threads that could have gone on are a row of their own, called by where they were
// preempted.
func TestPreempted(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "").Sample(leaf, root)
	m.LastSample().AttributeIndices().Append(m.Attribute("process.context_switch.type", "involuntary"))
	m.Sample(leaf, root)
	m.LastSample().AttributeIndices().Append(m.Attribute("process.context_switch.type", "voluntary"))
	b := newBatch(0)
	b.Messages[0], b.OffCPU, b.User = written(m), true, 0
	v := NewFunctions(WaitTime, 0, BySelf)
	v.Add(b)
	assert.Equal(t, int64(1), v.window.Sum.counts.functions[Function{Name: "leaf", Module: "vmlinux"}].self)
	assert.Equal(t, int64(2), v.window.Sum.counts.functions[Function{Name: "leaf", Module: "vmlinux"}].total)
	preempted := v.window.Sum.counts.functions[Function{Name: Preempted}]
	assert.Equal(t, []int64{1, 1}, []int64{preempted.self, preempted.total})
	assert.Equal(t, map[Function]int64{{Name: "leaf", Module: "vmlinux"}: 1}, preempted.callers)
	assert.Equal(t, int64(4), v.window.Sum.counts.Frames, "it is no frame")
}
