// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// TestCPUsComeAndGo takes a CPU offline and online again. Programs that are loaded on it at once, before its
// records are read, are found, too.
func TestCPUsComeAndGo(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedBPF(t)
	last := loadLasting(t)
	s := NewSource(everything)
	latest := run(t, s)
	specs := churnSpecs(t)
	for range 2 {
		for _, online := range []bool{false, true} {
			kerneltest.SwitchCPU(t, 1, online)
			c := &churner{cpu: 0, specs: specs, loads: 50, lived: map[uint64]uint32{}}
			if online {
				c.cpu = 1
			}
			ended := make(chan struct{})
			go func() { defer close(ended); c.run() }()
			<-ended
			require.NoError(t, c.unquiet)
			agree(t, latest)
			last.check(t, latest().table)
			for _, p := range c.kept {
				require.NoError(t, p.Close())
			}
		}
	}
	agree(t, latest)
	require.Positive(t, latest().Resyncs, "the programs were listed after the gap")
}

// A visit has the findings of a thread that runs on a CPU as soon as it can.
type visit struct {
	online    []int // the CPUs that sysfs lists
	unloaded  int64 // on the boot clock, after the program was unloaded
	published published
	hasEvent  bool // the kernel has sent the event about the CPU
	err       error
}

// visitCPU unloads a program on a CPU that comes online, and asks for a table.
func visitCPU(cpu int, p *ebpf.Program, s *Source, latest func() published, conn cpuEvents) (v visit) {
	runtime.LockOSThread() // for good: the thread ends with its affinity
	for runOn(cpu) != nil {
		continue // it is not online yet
	}
	v.online, v.err = perfring.OnlineCPUs("/sys")
	if err := p.Close(); err != nil {
		v.err = err
	}
	v.unloaded = now()
	for now() < v.unloaded+2*int64(perfring.SymbolOptions("").Window) {
		continue // the certain time lies in the past
	}
	s.Refresh()
	v.published = latest()
	v.hasEvent = hasCPUEvent(conn)
	return v
}

// runOn has this thread run on a CPU alone.
func runOn(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// takeOnlineSlowly takes a CPU online, by a thread that another one leaves little time on CPU 0. It is this thread that
// sends the event, after the CPU can run tasks.
func takeOnlineSlowly(cpu int) error {
	var stop atomic.Bool
	defer stop.Store(true)
	go func() {
		runtime.LockOSThread() // for good, as below
		_ = runOn(0)           // else the other thread is not slow
		for !stop.Load() {
			continue
		}
	}()
	taken := make(chan error)
	go func() {
		runtime.LockOSThread()
		const nicest = 19
		taken <- cmp.Or(runOn(0), unix.Setpriority(unix.PRIO_PROCESS, 0, nicest),
			os.WriteFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu), []byte("1"), 0))
	}()
	return <-taken
}

// TestCPUBeforeItsEvent unloads a program on a CPU that comes online, before the kernel sends its event. It verifies that
// sysfs lists each CPU that runs tasks, and that no table has the program at the time after that.
func TestCPUBeforeItsEvent(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedBPF(t)
	s := NewSource(everything)
	latest := run(t, s)
	const cpu, rounds = 1, 4
	early := 0
	for round := range rounds {
		kerneltest.SwitchCPU(t, cpu, false)
		p := kerneltest.LoadBPF(t, smallProgram(fmt.Sprint("visited", round), int32(round), 0))
		start := codeOf(t, p).starts[0]
		eventually(t, latest, "the program is certain", func(*timeline.Table) bool {
			asked := now()
			s.Refresh()
			_, ok := at(latest().table, start, timeline.Instant(asked))
			return ok
		})
		conn, err := uevent.Dial()
		require.NoError(t, err)
		visited := make(chan visit, 1)
		go func() { visited <- visitCPU(cpu, p, s, latest, conn) }()
		require.NoError(t, takeOnlineSlowly(cpu))
		v := <-visited
		require.NoError(t, conn.Close())
		require.NoError(t, v.err)
		assert.Contains(t, v.online, cpu)
		_, ok := at(v.published.table, start, timeline.Instant(v.unloaded))
		assert.False(t, ok, "round %d: the program is unloaded", round)
		if !v.hasEvent {
			early++
		}
	}
	agree(t, latest)
	kerneltest.Figure("%s: %d of %d times, the CPU ran tasks before its event", t.Name(), early, rounds)
}
