// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

const (
	leaf   = 0xffffffff81000010
	caller = 0xffffffff81000020
)

// checkSent checks the rules for every message that is sent. All of its content was made here.
func checkSent(t *testing.T, pd pprofile.Profiles) {
	t.Helper()
	require.NoError(t, rewritetest.CheckSent(pd))
	require.NoError(t, rewritetest.CheckTidy(pd))
}

// finish returns a message that has one part.
func finish(t *testing.T, m *message, start, end int64) pprofile.Profiles {
	t.Helper()
	parts := m.finish(start, end)
	require.Len(t, parts, 1)
	return parts[0]
}

var (
	testKind = kindOfSamples(perfring.Sampling{Frequency: 100})
	testForm = form{scopeName: "scope", version: "1.2.3", containerID: OnResource}
)

// addRecord adds the sample of a record, with a thread's name and a container.
func addRecord(m *message, r *perfring.Record, unixNano uint64, name, container string) {
	m.add(&sample{stack: addressesOf(r), pid: r.PID, tid: r.TID, cpu: r.CPU, name: name, owner: owner{true, container}}, unixNano)
}

func TestMessage(t *testing.T) {
	m := newMessage(testKind, testForm)
	r := perfring.Record{Type: perfring.TypeSample, PID: 10, TID: 11, CPU: 1, Stack: []uint64{leaf, caller}}
	addRecord(m, &r, 1000, "worker", "")
	addRecord(m, &r, 2000, "worker", "")
	other := r
	other.CPU = 0
	addRecord(m, &other, 3000, "worker", "")
	r.Stack = []uint64{caller}
	addRecord(m, &r, 4000, "", "")
	pd := finish(t, m, 500, 5000)

	checkSent(t, pd)
	frame := func(addr uint64) rewritetest.Frame { return rewritetest.Frame{Address: addr, Type: "kernel"} }
	assert.Equal(t, []rewritetest.Sample{
		{Stack: []rewritetest.Frame{frame(leaf), frame(caller)}, Timestamps: []uint64{1000, 2000}},
		{Stack: []rewritetest.Frame{frame(leaf), frame(caller)}, Timestamps: []uint64{3000}},
		{Stack: []rewritetest.Frame{frame(caller)}, Timestamps: []uint64{4000}},
	}, rewritetest.Samples(pd))
	assert.Equal(t, 3, pd.Dictionary().LocationTable().Len(), "the zero value and two addresses")
	assert.Equal(t, 3, pd.Dictionary().StackTable().Len())

	scope := pd.ResourceProfiles().At(0).ScopeProfiles().At(0)
	assert.Equal(t, "1.2.3", scope.Scope().Version())
	profile := scope.Profiles().At(0)
	assert.Equal(t, uint64(500), uint64(profile.Time()))
	assert.Equal(t, uint64(4500), profile.DurationNano())
	assert.Equal(t, int64(10_000_000), profile.Period())
	str := func(i int32) string { return pd.Dictionary().StringTable().At(int(i)) }
	assert.Equal(t, "samples count cpu nanoseconds", fmt.Sprint(
		str(profile.SampleType().TypeStrindex()), " ", str(profile.SampleType().UnitStrindex()), " ",
		str(profile.PeriodType().TypeStrindex()), " ", str(profile.PeriodType().UnitStrindex())))
}

// TestResources verifies that each container has a resource, and that a message of many is sent in parts.
func TestResources(t *testing.T) {
	m := newMessage(testKind, testForm)
	r := perfring.Record{Type: perfring.TypeSample, PID: 10, TID: 11, CPU: 1, Stack: []uint64{leaf, caller}}
	const containers = 2*maxResources + 10
	id := func(n int) string { return fmt.Sprintf("%064x", n) }
	for round := range 3 {
		for n := range containers {
			addRecord(m, &r, uint64(1000*round+n), "worker", id(n))
		}
	}
	addRecord(m, &r, 9000, "worker", "")

	parts := m.finish(0, 10_000)
	require.Len(t, parts, 3)
	seen, ofHost := make(map[string]int), 0
	for _, pd := range parts {
		checkSent(t, pd)
		assert.LessOrEqual(t, pd.ResourceProfiles().Len(), maxResources)
		assert.Equal(t, 2, pd.Dictionary().StackTable().Len(), "resources of a part share its tables")
		for _, resource := range pd.ResourceProfiles().All() {
			profile := resource.ScopeProfiles().At(0).Profiles().At(0)
			assert.Equal(t, uint64(10_000), uint64(profile.Time())+profile.DurationNano())
			require.Equal(t, 1, profile.Samples().Len())
			if events := profile.Samples().At(0).TimestampsUnixNano().Len(); resource.Resource().Attributes().Len() == 0 {
				ofHost += events
			} else {
				seen[resource.Resource().Attributes().AsRaw()["container.id"].(string)] += events
			}
		}
	}
	assert.Equal(t, 1, ofHost)
	assert.Len(t, seen, containers)
	for n := range containers {
		assert.Equal(t, 3, seen[id(n)])
	}
}

// TestContainerID verifies where the id of a container stands, and that samples of two containers are never merged.
func TestContainerID(t *testing.T) {
	type resource struct {
		attributes map[string]any
		samples    []map[string]any
	}
	cpu := map[string]any{"cpu.logical_number": int64(1)}
	inA := map[string]any{"cpu.logical_number": int64(1), "container.id": "a"}
	inB := map[string]any{"cpu.logical_number": int64(1), "container.id": "b"}
	onA, onB := map[string]any{"container.id": "a"}, map[string]any{"container.id": "b"}
	for _, c := range []struct {
		where string
		want  []resource
	}{
		{OnResource, []resource{{onA, []map[string]any{cpu}}, {onB, []map[string]any{cpu}}, {map[string]any{}, []map[string]any{cpu}}}},
		{OnSamples, []resource{{map[string]any{}, []map[string]any{inA, inB, cpu}}}},
		{OnBoth, []resource{{onA, []map[string]any{inA}}, {onB, []map[string]any{inB}}, {map[string]any{}, []map[string]any{cpu}}}},
	} {
		t.Run(c.where, func(t *testing.T) {
			f := testForm
			f.containerID = c.where
			m := newMessage(testKind, f)
			r := perfring.Record{Type: perfring.TypeSample, CPU: 1, Stack: []uint64{leaf}}
			for _, container := range []string{"a", "b", "a", ""} {
				addRecord(m, &r, 1000, "", container)
			}
			pd := finish(t, m, 500, 5000)
			checkSent(t, pd)
			var got []resource
			for _, rp := range pd.ResourceProfiles().All() {
				profile := rp.ScopeProfiles().At(0).Profiles().At(0)
				got = append(got, resource{rp.Resource().Attributes().AsRaw(), attributesOf(t, pd, profile)})
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// TestResourceAttributes verifies that each resource has the attributes of the machine beside its container's id.
func TestResourceAttributes(t *testing.T) {
	f := testForm
	f.resource = map[string]string{"service.name": "kernel", "os.version": "6.12"}
	m := newMessage(testKind, f)
	r := perfring.Record{Type: perfring.TypeSample, Stack: []uint64{leaf}}
	addRecord(m, &r, 1000, "", "a")
	addRecord(m, &r, 1000, "", "")
	pd := finish(t, m, 500, 5000)
	checkSent(t, pd)
	assert.Equal(t, map[string]any{"service.name": "kernel", "os.version": "6.12", "container.id": "a"},
		pd.ResourceProfiles().At(0).Resource().Attributes().AsRaw())
	assert.Equal(t, map[string]any{"service.name": "kernel", "os.version": "6.12"},
		pd.ResourceProfiles().At(1).Resource().Attributes().AsRaw())
}

// attributesOf returns the attributes of each sample of a profile.
func attributesOf(t *testing.T, pd pprofile.Profiles, p pprofile.Profile) (all []map[string]any) {
	t.Helper()
	for _, s := range p.Samples().All() {
		attributes, err := pprofile.FromAttributeIndices(pd.Dictionary().AttributeTable(), s, pd.Dictionary())
		require.NoError(t, err)
		all = append(all, attributes.AsRaw())
	}
	return all
}

// TestOmit verifies that an omitted attribute is on no sample, and that samples that it alone would distinguish are one.
func TestOmit(t *testing.T) {
	all := map[string]any{"process.pid": int64(10), "thread.id": int64(11), "thread.name": "worker", "cpu.logical_number": int64(1)}
	for _, c := range []struct {
		omit    Omit
		without []string
		other   sample
	}{
		{Omit{Process: true}, []string{"process.pid"}, sample{pid: 12, tid: 11, name: "worker", cpu: 1}},
		{Omit{Thread: true}, []string{"thread.id"}, sample{pid: 10, tid: 12, name: "worker", cpu: 1}},
		{Omit{ThreadName: true}, []string{"thread.name"}, sample{pid: 10, tid: 11, name: "other", cpu: 1}},
		{Omit{CPU: true}, []string{"cpu.logical_number"}, sample{pid: 10, tid: 11, name: "worker", cpu: 2}},
		{
			Omit{Process: true, Thread: true, ThreadName: true, CPU: true},
			[]string{"process.pid", "thread.id", "thread.name", "cpu.logical_number"}, sample{pid: 12, tid: 13, name: "other", cpu: 2},
		},
	} {
		t.Run(strings.Join(c.without, " "), func(t *testing.T) {
			f := testForm
			f.omit = c.omit
			m := newMessage(testKind, f)
			for _, s := range []sample{{pid: 10, tid: 11, name: "worker", cpu: 1}, c.other} {
				s.stack = []uint64{leaf}
				m.add(&s, 1000)
			}
			pd := finish(t, m, 500, 5000)
			checkSent(t, pd)
			want := maps.Clone(all)
			for _, key := range c.without {
				delete(want, key)
			}
			assert.Equal(t, []map[string]any{want}, attributesOf(t, pd, pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)))
		})
	}
}

// TestTimesApart verifies that no two profiles of a message begin in the same millisecond, or at the same time if there are
// more profiles than milliseconds, that all cover their samples, and that none begins before the message before could.
func TestTimesApart(t *testing.T) {
	const start = int64(1_800_000_000_000_000_000)
	for _, c := range []struct {
		containers     int
		length, within time.Duration
	}{
		{containers: 2*maxResources + 10, length: 5 * time.Second, within: time.Millisecond},
		{containers: 2*maxResources + 10, length: 100 * time.Millisecond, within: 1},
	} {
		m := newMessage(testKind, testForm)
		r := perfring.Record{Type: perfring.TypeSample, Stack: []uint64{leaf}}
		for n := range c.containers {
			addRecord(m, &r, uint64(start), "", strconv.Itoa(n))
		}
		end := start + int64(c.length)
		begun := make(map[int64]bool)
		for _, pd := range m.finish(start, end) {
			for _, resource := range pd.ResourceProfiles().All() {
				p := resource.ScopeProfiles().At(0).Profiles().At(0)
				from := int64(p.Time())
				begun[from/int64(c.within)] = true
				assert.LessOrEqual(t, from, start)
				assert.Greater(t, from, start-int64(c.length))
				assert.Equal(t, end, from+int64(p.DurationNano()))
			}
		}
		assert.Len(t, begun, c.containers)
	}
}

// TestProfileCoversItsSamples has samples outside the interval in which a message was
// collected, as happens when the wall clock is set.
func TestProfileCoversItsSamples(t *testing.T) {
	m := newMessage(testKind, testForm)
	r := perfring.Record{Type: perfring.TypeSample, Stack: []uint64{leaf}}
	addRecord(m, &r, 2000, "", "")
	addRecord(m, &r, 400, "", "")
	addRecord(m, &r, 6000, "", "")
	profile := finish(t, m, 500, 5000).ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
	assert.Equal(t, uint64(400), uint64(profile.Time()))
	assert.Equal(t, uint64(5601), profile.DurationNano(), "the last is before the end")

	assert.Empty(t, newMessage(testKind, testForm).finish(500, 400))
}

// TestCyclesAreTime: a sample of the cycle counter stands for as much time as a timer's, and
// has the same types: Elastic accepts no others, and Pyroscope interprets no others as time.
func TestCyclesAreTime(t *testing.T) {
	r := perfring.Record{Type: perfring.TypeSample, Stack: []uint64{leaf}}
	of := func(event perfring.Sampling) pprofile.Profiles {
		m := newMessage(kindOfSamples(event), testForm)
		m.of("").profile.SetProfileID(pprofile.ProfileID{})
		addRecord(m, &r, 1, "", "")
		return finish(t, m, 1, 2)
	}
	assert.Equal(t, of(perfring.Sampling{Frequency: 97}), of(perfring.Sampling{Frequency: 97, Cycles: true}))
}

// TestGuest: the work of a CPU in a guest is one frame with a name. It is a kernel frame,
// because Elastic accepts no frame without a type, and because from the outside the thread is
// in the kernel.
func TestGuest(t *testing.T) {
	m := newMessage(testKind, testForm)
	addRecord(m, &perfring.Record{Type: perfring.TypeSample, Guest: true}, 1, "CPU 0/KVM", "")
	addRecord(m, &perfring.Record{Type: perfring.TypeSample, Guest: true}, 2, "CPU 0/KVM", "")
	addRecord(m, &perfring.Record{Type: perfring.TypeSample, Stack: []uint64{leaf, caller}}, 3, "CPU 0/KVM", "")
	pd := finish(t, m, 1, 3)

	checkSent(t, pd)
	inGuest := rewritetest.Frame{Type: "kernel", Lines: []rewritetest.Line{{Name: "[guest]", System: "[guest]"}}}
	assert.Equal(t, []rewritetest.Sample{
		{Stack: []rewritetest.Frame{inGuest}, Timestamps: []uint64{1, 2}},
		{Stack: []rewritetest.Frame{{Address: leaf, Type: "kernel"}, {Address: caller, Type: "kernel"}}, Timestamps: []uint64{3}},
	}, rewritetest.Samples(pd))
}

// TestTaskWithoutNumber: a task that has all but exited has no number, and 0 stands for many.
func TestTaskWithoutNumber(t *testing.T) {
	for _, number := range []uint32{0, perfring.NoTask} {
		m := newMessage(testKind, testForm)
		addRecord(m, &perfring.Record{PID: number, TID: number, CPU: 1, Stack: []uint64{leaf}}, 1, "", "")
		pd := finish(t, m, 1, 2)
		s := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().At(0)
		attributes, err := pprofile.FromAttributeIndices(pd.Dictionary().AttributeTable(), s, pd.Dictionary())
		require.NoError(t, err)
		assert.Equal(t, map[string]any{keyCPU: int64(1)}, attributes.AsRaw())
	}
}

func TestThreads(t *testing.T) {
	procfs := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(procfs, "7"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(procfs, "7/comm"), []byte("from before\n"), 0o600))
	threads := newThreads(procfs)
	threads.now = func() int64 { return 0 }
	note := func(r perfring.Record) { threads.note(&r) }

	assert.Equal(t, "from before", threads.name(7, 0))
	assert.Empty(t, threads.name(8, 0), "it has exited")
	for _, number := range []uint32{0, perfring.NoTask} {
		note(perfring.Record{Type: perfring.TypeComm, TID: number, Comm: "curl"})
		assert.Empty(t, threads.name(number, 0), "the record is of one of many")
	}
	note(perfring.Record{Type: perfring.TypeComm, TID: 7, Comm: "new name"})
	assert.Equal(t, "new name", threads.name(7, 0))
	note(perfring.Record{Type: perfring.TypeFork, PID: 9, TID: 9, Parent: 7})
	assert.Equal(t, "new name", threads.name(9, 0), "as its parent")
	note(perfring.Record{Type: perfring.TypeExit, TID: 9})
	assert.Equal(t, "new name", threads.name(9, 0), "it still runs")
	threads.forgetExited()
	assert.NotContains(t, threads.names, uint32(9))

	// Thread 7 has exited without a record, and its number is reused.
	note(perfring.Record{Type: perfring.TypeFork, TID: 7, Parent: 100})
	assert.Equal(t, "from before", threads.name(7, 0), "is read again")

	for i := range uint32(3 * maxThreads) {
		note(perfring.Record{Type: perfring.TypeComm, TID: i, Comm: "x"})
	}
	assert.LessOrEqual(t, len(threads.names), maxThreads)
}

// stacksOf returns the stacks of a message, one for each event.
func stacksOf(pd pprofile.Profiles) (stacks [][]uint64) {
	d := pd.Dictionary()
	for _, s := range pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
		var stack []uint64
		for _, location := range d.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
			stack = append(stack, d.LocationTable().At(int(location)).Address())
		}
		for range s.TimestampsUnixNano().Len() {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
