// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// pin makes this thread run on one CPU. It returns false if the CPU is not online.
func pin(cpu int) bool {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set) == nil
}

// anyCPU lets this thread run on all CPUs again.
func anyCPU(t *testing.T) {
	t.Helper()
	var set unix.CPUSet
	for cpu := range 1024 {
		set.Set(cpu)
	}
	require.NoError(t, unix.SchedSetaffinity(0, &set))
}

// flood loads and unloads programs on each CPU, many more than a ring has room for.
func flood(t *testing.T) {
	t.Helper()
	programs := kerneltest.Sized(1000, 500) // a ring has room for about 250
	var running sync.WaitGroup
	for cpu := range runtime.NumCPU() {
		running.Go(func() {
			runtime.LockOSThread() // for good: the thread ends with its affinity
			pin(cpu)
			for n := range programs {
				p, err := kerneltest.NewBPF(kerneltest.SmallProgram("truth_flood", int32(n), n%4*20))
				if err == nil {
					err = p.Close()
				}
				if !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	running.Wait()
}

// loadSome loads several programs.
func loadSome(t *testing.T, from, programs int) (all []program) {
	t.Helper()
	for n := range programs {
		all = append(all, loadNth(t, from+n))
	}
	return all
}

// churn runs programs one after the other at addresses that are reused, and returns their samples.
func churn(t *testing.T, s *sampler, kind string, from, programs int) (rows []knownRow) {
	t.Helper()
	for n := range programs {
		p := loadNth(t, from+n)
		rows = append(rows, s.run(p, kind, 5)...)
		p.close(t)
	}
	return rows
}

// whileStopped stops the collector for 1.5 s. In that time, it unloads existing programs, and loads
// and unloads so many others that records are lost. It returns the samples of that time and a
// program that was loaded then.
func whileStopped(t *testing.T, tr *truth, s *sampler, base int, over []program) (blind []knownRow, came program) {
	t.Helper()
	from := time.Now()
	require.NoError(t, tr.Signal(syscall.SIGSTOP))
	over = append(over, loadSome(t, base+500, 8)...) // the rings have the records of these loads
	blind = s.run(over[len(over)-1], "blind", 20)
	flood(t)
	for _, p := range over {
		p.close(t)
	}
	for n := 0; time.Since(from) < 1500*time.Millisecond; n++ {
		blind = append(blind, churn(t, s, "blind", base+10000+n, 1)...)
	}
	came = loadNth(t, base+997)
	require.NoError(t, tr.Signal(syscall.SIGCONT))
	return blind, came
}

// testTruthStopped stops the collector for 1.5 s at a time, in which so many programs are loaded
// and unloaded that records are lost. Samples are in blind time, and may have no name, until a
// program that was loaded in that time has its name. No sample may have a wrong name, and all
// others must have the right one.
func testTruthStopped(t *testing.T, tr *truth) {
	s := tr.begin(t)
	programs, stops := kerneltest.Sized(40, 10), kerneltest.Sized(6, 2)
	var last []knownRow
	lost := 0
	for i := range stops {
		base := i * 100000
		before, blindTime := tr.metric("lost_records"), tr.metric("blind_time")
		stays := loadNth(t, base+999)
		sure := append(s.run(stays, "clear", 20), churn(t, s, "clear", base, programs)...)
		if i%3 == 0 {
			tr.send(tr.unlessBlind(sure, blindTime))
			sure = nil
		}
		over := loadSome(t, base+400, 8) // they are unloaded while the collector is stopped
		sure = append(sure, s.run(over[0], "clear, before it goes in blind time", 20)...)
		sure = tr.unlessBlind(sure, blindTime)

		blind, came := whileStopped(t, tr, s, base, over)
		if i%3 == 1 {
			tr.send(blind)
			blind = nil
		}
		blind = append(blind, s.run(stays, "blind", 20)...)
		blind = append(blind, churn(t, s, "blind", base+800, 5)...)

		tr.waitUntilFollowed(s, came)
		blindTime = tr.metric("blind_time")
		after := s.run(stays, "clear", 20)
		after = append(after, churn(t, s, "clear", base+900, programs)...)
		sure = append(sure, tr.unlessBlind(after, blindTime)...)
		if i%3 != 2 {
			tr.send(append(sure, blind...))
		} else {
			last = append(append(last, sure...), blind...)
		}
		if tr.metric("lost_records") > before {
			lost++
		}
	}
	tr.send(last)
	tr.report()
	kerneltest.Figure("truth: %s: records were lost in %d of %d stops", t.Name(), lost, stops)
	assert.GreaterOrEqual(t, 2*lost, stops)
	assert.Zero(t, tr.of("clear").unnamed)
	assert.GreaterOrEqual(t, tr.of("clear").right+tr.of("disturbed").right+tr.of("disturbed").unnamed, stops*(2*programs*5+40))
	assert.Zero(t, tr.of("clear, before it goes in blind time").unnamed)
}

// testTruthCPUs takes a CPU offline and online. Programs are loaded and closed on that CPU as soon
// as it is online. Once a program that was loaded then has its name, all must have the right one.
func testTruthCPUs(t *testing.T, tr *truth) {
	kerneltest.SwitchCPU(t, 1, true)
	s := tr.begin(t)
	t.Cleanup(func() { anyCPU(t) })
	const switches, programs = 4, 10
	var last []knownRow
	visit := func(kind string, from int) {
		for n := range programs {
			pin(1) // if it is online
			p := loadNth(t, from+n)
			require.True(t, pin(0)) // the sampler may have no ring of the other CPU yet
			last = append(last, s.run(p, kind, 5)...)
			pin(1)
			p.close(t)
		}
		require.True(t, pin(0))
	}
	for i := range switches {
		kerneltest.SwitchCPU(t, 1, i%2 == 1)
		pin(1)
		came := loadNth(t, 1<<20+i)
		require.True(t, pin(0))
		visit("a CPU comes or goes", 100*i)
		if i%2 == 1 {
			tr.waitUntilNamed(s, came)
			visit("the CPU is there", 100*i+50)
		}
		if i == switches/2 {
			tr.send(last)
			last = nil
		}
	}
	tr.send(last)
	tr.report()
	assert.GreaterOrEqual(t, tr.of("the CPU is there").right, switches/2*programs*5)
	assert.Zero(t, tr.of("the CPU is there").unnamed)
}

// withoutPerf starts a command that may not use perf events.
func withoutPerf(cmd *exec.Cmd) error {
	return kerneltest.StartRefused(cmd, unix.SYS_PERF_EVENT_OPEN)
}

// TestTruthPolled runs a collector that may not use perf events, and lists programs now and then.
// It verifies that a program's samples between two lists that have the program get its name.
func TestTruthPolled(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	needTruth(t)
	tr, s := startTruth(t, withoutPerf), startSampler(t)
	stays := loadNth(t, 1<<21)
	const programs = 8
	for n := range programs {
		tr.waitUntilNamed(s, stays)
		rows := s.run(stays, "stays", 20)
		rows = append(rows, churn(t, s, "comes and goes", n*100, 20)...)
		next := loadNth(t, 1<<21+n+1)
		tr.waitUntilNamed(s, next)
		tr.send(rows)
		stays.close(t)
		stays = next
	}
	for n := range 4 {
		tr.liveFor(s, 3*time.Second, loadNth(t, 1<<22+n), "lives for 3 s") // how many get a name is up to chance
	}
	tr.report()
	assert.GreaterOrEqual(t, tr.of("stays").right, 20*programs)
	assert.Zero(t, tr.of("stays").unnamed)
}

// liveFor samples a program again and again until it is unloaded after the given time, and sends
// each sample 0.3 s later.
func (tr *truth) liveFor(s *sampler, life time.Duration, p program, kind string) {
	tr.t.Helper()
	type batch struct {
		rows []knownRow
		at   time.Time
	}
	var waiting []batch
	next := func() {
		time.Sleep(50 * time.Millisecond)
		for len(waiting) > 0 && time.Since(waiting[0].at) >= 300*time.Millisecond {
			tr.send(waiting[0].rows)
			waiting = waiting[1:]
		}
	}
	for began := time.Now(); time.Since(began) < life; next() {
		waiting = append(waiting, batch{s.run(p, kind, 2), time.Now()})
	}
	p.close(tr.t)
	for len(waiting) > 0 {
		next()
	}
}
