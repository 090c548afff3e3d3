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

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// pin has this thread run on one CPU. It reports whether that is online.
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

// flood has programs come and go on each CPU, many more than a ring has room for.
func flood(t *testing.T) {
	t.Helper()
	programs := kerneltest.Sized(1000, 600) // a ring has room for about 250
	var running sync.WaitGroup
	for cpu := range runtime.NumCPU() {
		running.Go(func() {
			runtime.LockOSThread() // for good: the thread ends with its CPU
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

// churn runs programs one after the other at addresses that are used again, and returns
// their samples.
func churn(t *testing.T, s *sampler, kind string, from, programs int) (rows []knownRow) {
	t.Helper()
	for n := range programs {
		p := loadNth(t, from+n)
		rows = append(rows, s.run(p, kind, 5)...)
		p.close(t)
	}
	return rows
}

// whileStopped stops the collector for 1.5 s, in which programs that were there go, and so
// many others come and go that records are lost. It returns the samples of that time and
// a program that came then.
func whileStopped(t *testing.T, tr *truth, s *sampler, base int, over []program) (blind []knownRow, came program) {
	t.Helper()
	from := time.Now()
	require.NoError(t, tr.Signal(syscall.SIGSTOP))
	over = append(over, loadSome(t, base+500, 8)...) // of these, the rings have the load
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

// unlessBlind returns samples of a time in which blind time was so much before: if it has
// grown since, as other tests load programs, too, they are of another kind.
func (tr *truth) unlessBlind(rows []knownRow, before float64) []knownRow {
	const settled = 0.01 // seconds: what the kernel announces late of a loss that is known
	if tr.metric("blind_time") < before+settled {
		return rows
	}
	for i := range rows {
		for k := range rows[i].known {
			rows[i].known[k].kind = "disturbed"
		}
	}
	return rows
}

// TestTruthStopped stops the collector for 1.5 s at a time, in which so many programs
// come and go that records are lost. What is sampled until a program that was loaded
// meanwhile has its name again is in blind time, and may have no name. Nothing has a
// wrong one, and the rest has the right one.
func TestTruthStopped(t *testing.T) {
	needTruth(t)
	tr, s := startWhole(t), startSampler(t)
	first := loadNth(t, 1<<20)
	tr.waitUntilNamed(s, first)
	const programs = 40
	stops := kerneltest.Sized(6, 3)
	var last []knownRow
	lost := 0
	for i := range stops {
		base := i * 100000
		before, blindTime := tr.metric("lost_records"), tr.metric("blind_time")
		stays := loadNth(t, base+999)
		sure := append(s.run(stays, "clear", 20), churn(t, s, "clear", base, programs)...)
		if i%3 == 0 {
			tr.send(sure)
			sure = nil
		}
		over := loadSome(t, base+400, 8) // they go while the collector is stopped
		sure = append(sure, s.run(over[0], "clear, before it goes in blind time", 20)...)

		sure = tr.unlessBlind(sure, blindTime)

		blind, came := whileStopped(t, tr, s, base, over)
		if i%3 == 1 {
			tr.send(blind)
			blind = nil
		}
		blind = append(blind, s.run(stays, "blind", 20)...)
		blind = append(blind, churn(t, s, "blind", base+800, 5)...)

		tr.waitUntilNamed(s, came)
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
	assert.NotZero(t, tr.of("clear").right)
	assert.Zero(t, tr.of("clear, before it goes in blind time").unnamed)
}

// TestTruthCPUs takes a CPU offline and online, on which programs are loaded and given
// up as soon as it is there. From when one that was loaded then has its name, all have
// the right one.
func TestTruthCPUs(t *testing.T) {
	needTruth(t)
	kerneltest.SwitchCPU(t, 1, true)
	tr, s := startWhole(t), startSampler(t)
	tr.waitUntilNamed(s, loadNth(t, 1<<20))
	t.Cleanup(func() { anyCPU(t) })
	const switches, programs = 6, 20
	var last []knownRow
	visit := func(kind string, from int) {
		for n := range programs {
			pin(1) // if it is there
			p := loadNth(t, from+n)
			require.True(t, pin(0)) // the sampler may have no ring of the other yet
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

// TestTruthPolled has a collector that may not use perf events, and asks for the programs
// now and then. Nothing has a wrong name; and programs that stay for 3 s and longer have
// theirs in nine of ten messages that are sent 0.3 s after the samples.
func TestTruthPolled(t *testing.T) {
	needTruth(t)
	const programs, apart, delay = 8, 330 * time.Millisecond, 300 * time.Millisecond
	const lives = 10 * time.Second // as the time between two looks grows with the programs that other tests load
	s := startSampler(t)
	first := loadNth(t, 1<<20)
	tr := startTruth(t, withoutPerf)
	tr.waitUntilNamed(s, first)
	type stay struct {
		program
		from time.Time
	}
	var waiting []knownRow // until they are old enough
	var stays []stay
	began, came := time.Now(), 0
	for n := 0; came < programs || len(stays) > 0; n++ {
		if came < programs && time.Since(began) > time.Duration(came)*apart {
			came++
			stays = append(stays, stay{loadNth(t, 1<<21+came), time.Now()})
		}
		for _, p := range stays {
			waiting = append(waiting, s.run(p.program, "stays", 1)...)
		}
		if len(stays) > 0 && time.Since(stays[0].from) > lives {
			stays[0].close(t)
			stays = stays[1:]
		}
		if n%4 == 0 {
			waiting = append(waiting, churn(t, s, "comes and goes", n, 1)...)
		}
		old := 0
		for old < len(waiting) && time.Since(time.Unix(0, waiting[old].at)) > delay {
			old++
		}
		if old > 100 {
			tr.send(waiting[:old])
			waiting = waiting[old:]
		}
	}
	time.Sleep(delay)
	tr.send(waiting)
	tr.report()
	v := tr.of("stays")
	assert.Greater(t, v.right, kerneltest.Sized(1000, 100))
	assert.GreaterOrEqual(t, 10*v.right, 9*(v.right+v.unnamed))
}
