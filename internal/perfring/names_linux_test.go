// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

const nameBytes = 32 << 10

// named returns options for names, and for one sample a second.
func named() Options {
	opts := quiet()
	opts.Names = Names{BytesPerCPU: nameBytes}
	return opts
}

// readNames reads names until it finds a wanted record, and returns all of them.
func readNames(t *testing.T, r *Reader, wanted func(Record) bool) (all []Record) {
	t.Helper()
	require.Eventually(t, func() bool {
		records := r.Poll().Names.Records
		all = append(all, records...)
		return slices.ContainsFunc(records, wanted)
	}, time.Minute, time.Millisecond)
	return all
}

func TestThreadNames(t *testing.T) {
	r := open(t, named())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := Monotonic.Now()
	require.NoError(t, os.WriteFile("/proc/thread-self/comm", []byte("a new name"), 0o600))
	tid := uint32(unix.Gettid())
	isName := func(rec Record) bool { return rec.Type == TypeComm && rec.TID == tid }
	records := readNames(t, r, isName)
	rec := records[slices.IndexFunc(records, isName)]
	assert.Equal(t, "a new name", rec.Comm)
	assert.Equal(t, uint32(os.Getpid()), rec.PID)
	assert.True(t, start < rec.Time && rec.Time < Monotonic.Now())
}

func TestForkAndExit(t *testing.T) {
	r := open(t, named())
	proc, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	require.NoError(t, err)
	_, err = proc.Wait()
	require.NoError(t, err)
	var types []Type
	isFirst := func(rec Record) bool { return rec.PID == uint32(proc.Pid) && rec.TID == rec.PID } // of its threads
	isExit := func(rec Record) bool { return rec.Type == TypeExit && isFirst(rec) }
	for _, rec := range readNames(t, r, isExit) {
		if isFirst(rec) {
			types = append(types, rec.Type)
		}
	}
	assert.Equal(t, []Type{TypeFork, TypeComm, TypeExit}, types)
}

// TestNamesComeWithTheirEvents writes a name and then an event that it is the cause of, again and again, while another
// goroutine reads. Even without a window, each event must come with its name, or later.
func TestNamesComeWithTheirEvents(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	const n = 20_000
	events, names := memoryRing(4096, 0, 0), memoryRing(4096, 0, 0)
	r := memoryReader(events)
	r.opts.Names.BytesPerCPU = 4096
	r.state.names = stream{opts: Options{BytesPerCPU: 4096}, rings: []*ring{names}}
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for last := Boottime.Now(); !stop.Load(); {
			for _, to := range []*ring{names, events} {
				for !stop.Load() && !to.hasRoom(len(at(0))) {
					runtime.Gosched()
				}
				now := Boottime.Now()
				for now == last {
					now = Boottime.Now()
				}
				last = now
				to.put(at(now))
			}
		}
	})
	defer writer.Wait()
	defer stop.Store(true)
	count, known := 0, []int64(nil)
	for count < n {
		b := r.Poll()
		known = append(known, times(b.Names.Records)...)
		for _, event := range b.Records {
			if !assert.Less(t, count, len(known), "the name of an event") || !assert.Less(t, known[count], event.Time) {
				return
			}
			count++
		}
	}
}

// TestNamesOfANewCPU verifies that names are recorded on the same CPUs as the event, which takes one file and one ring more
// for each, and that the time in which they were not is blind for both.
func TestNamesOfANewCPU(t *testing.T) {
	first, second := twoCPUs(t)
	opts := named()
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first)
	files, mapped := kerneltest.OpenFiles(t), mappedRings(t)
	r := open(t, opts)
	expect := func(cpus ...int) {
		t.Helper()
		assert.Equal(t, cpus, r.CPUs())
		require.Len(t, r.state.names.rings, len(cpus))
		for i, g := range r.state.names.rings {
			assert.Equal(t, cpus[i], g.cpu.number)
		}
		assert.Equal(t, 2*len(cpus)+3, kerneltest.OpenFiles(t)-files)
		assert.Equal(t, uint64(len(cpus)*(opts.BytesPerCPU+RingSize(nameBytes)+2*os.Getpagesize())), mappedRings(t)-mapped)
	}
	expect(first)
	assert.Empty(t, r.Poll().Names.Blind)
	setOnline(t, opts.SysFS, first, second)
	require.NoError(t, r.RefreshCPUs(false))
	expect(first, second)
	b := r.Poll()
	require.Len(t, b.Names.Blind, 1)
	require.Len(t, b.Blind, 1)
	assert.Equal(t, b.Blind[0].From, b.Names.Blind[0].From)
	setOnline(t, opts.SysFS, second)
	require.NoError(t, r.RefreshCPUs(false))
	expect(second)
}

// TestNamesWhilePaused verifies that names are recorded while the event is not.
func TestNamesWhilePaused(t *testing.T) {
	r := open(t, named())
	require.NoError(t, r.Pause())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, os.WriteFile("/proc/thread-self/comm", []byte("in a pause"), 0o600))
	readNames(t, r, func(rec Record) bool { return rec.Type == TypeComm && rec.Comm == "in a pause" })
	require.NoError(t, r.Resume())
	b := r.Poll()
	assert.NotEmpty(t, b.Blind)
	assert.Empty(t, b.Names.Blind)
}

// TestLossesAreApart verifies that each kind of ring has losses and blind intervals of its own.
func TestLossesAreApart(t *testing.T) {
	events, names := memoryRing(4096, 0, 0), memoryRing(4096, 0, 0)
	r := memoryReader(events)
	r.state.names = stream{opts: Options{BytesPerCPU: 4096}, rings: []*ring{names}}
	names.put(at(100))
	names.put(lostAt(200, 5))
	names.put(at(200))
	b := r.Poll()
	assert.Equal(t, []Interval{{From: 100, To: 201, Lost: true}}, b.Names.Blind)
	assert.Equal(t, []uint64{5, 0}, []uint64{b.Names.Lost, b.Lost})
	assert.Empty(t, b.Blind)
	events.put(at(300))
	events.trail.last = 250
	events.put(lostAt(400, 7))
	b = r.Poll()
	assert.Len(t, b.Blind, 1)
	assert.Equal(t, []uint64{0, 7}, []uint64{b.Names.Lost, b.Lost})
	assert.Empty(t, b.Names.Blind)
}

// TestBudget verifies that of a ring that is full each time it is read, no more is parsed than the ring holds in each
// refillTime, and that the rest is lost and blind.
func TestBudget(t *testing.T) {
	const size = 4096
	g := memoryRing(size, 0, 0)
	g.budget = budgetOf(Names{}, size)
	r := memoryReader()
	r.state.names = stream{opts: Options{BytesPerCPU: size}, rings: []*ring{g}}
	perRing := size / len(at(0))
	start, parsed, lost := Boottime.Now(), 0, 0
	const reads = 1000
	for range reads {
		for g.hasRoom(len(at(0))) {
			g.put(at(start))
		}
		b := r.Poll()
		parsed, lost = parsed+len(b.Names.Records), lost+int(b.Names.Lost)
		if len(b.Names.Records) < perRing {
			require.NotEmpty(t, b.Names.Blind)
			assert.Equal(t, start, b.Names.Blind[0].From, "of the last record that was parsed")
			assert.Greater(t, b.Names.Blind[len(b.Names.Blind)-1].To, start)
		}
	}
	refills := float64(Boottime.Now()-start)/float64(refillTime) + 1
	assert.Equal(t, reads*perRing, parsed+lost, "each is parsed or counted")
	assert.GreaterOrEqual(t, parsed, perRing)
	assert.LessOrEqual(t, float64(parsed), refills*float64(perRing))

	g.budget.at = math.MinInt64 / 2 // a long time without records saves nothing
	g.budget.refill(Boottime.Now())
	assert.LessOrEqual(t, g.budget.left, int64(size))
}

// TestStormOfNames has a user rename a thread as fast as possible. Nothing but names is lost, each name is
// parsed or counted, no more are parsed than the budget allows, and no reader is woken.
func TestStormOfNames(t *testing.T) {
	opts := named()
	opts.BytesPerCPU, opts.Event = 1<<20, Sampling{Frequency: 97, Idle: true}
	r := open(t, opts)
	size := r.state.names.rings[0].budget.size
	begin := r.clock.Now()
	end := kerneltest.StartStorm(t, "rename", "")
	var records, parsed, samples int
	var lost uint64
	add := func(b Batch) {
		samples += len(b.Records)
		parsed += len(b.Names.Records)
		lost += b.Names.Lost
		for _, rec := range b.Names.Records {
			if rec.Type == TypeComm && rec.TID != 0 && len(rec.Comm) >= 5 && rec.Comm[:5] == kerneltest.StormName {
				records++
			}
		}
		assert.Zero(t, b.Lost)
		assert.Empty(t, b.Blind)
	}
	for range 100 { // ten times a second, and as often as possible
		deadline := time.Now().Add(10 * time.Millisecond)
		require.NoError(t, r.Wait(t.Context(), deadline))
		assert.False(t, time.Now().Before(deadline), "woken by a name")
		for range 10 {
			add(r.Poll())
		}
	}
	renamed := end()
	add(r.Flush())
	refills := float64(r.clock.Now()-begin)/float64(refillTime) + 1
	const leastRecord = headerLen + 8 + 8 + 8 // of a name of up to seven bytes
	bound := refills * float64(size) / leastRecord * float64(len(r.state.names.rings))
	t.Logf("%d renames: %d of %d records parsed are of them, of %.0f at most; %d lost; %d samples",
		renamed, records, parsed, bound, lost, samples)
	assert.Positive(t, lost)
	assert.Positive(t, samples)
	assert.LessOrEqual(t, float64(parsed), bound)
	assert.Less(t, records, renamed)
	if r.state.names.rings[0].counts {
		assert.GreaterOrEqual(t, uint64(parsed)+lost, uint64(renamed), "each is parsed or counted")
	}
}
