// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// In these tests, a CPU came online after the last check and has no ring yet. Events on it leave no record
// until the source finds it; then the whole time since that check is blind (contract 5.2).

// refreshCPUs has the source check for new CPUs.
func (r *testSource) refreshCPUs() {
	r.state.maintained = time.Time{}
	require.NoError(r.t, r.maintain())
}

// loadedElsewhere has a task of another PID namespace load a program, which is not listed yet.
func (r *testSource) loadedElsewhere(at int64, p *bpf.Program) {
	r.batch.Records = loads(at, p)
	for i := range r.batch.Records {
		r.batch.Records[i].TID = 0
	}
	r.state.listAt = time.Now().Add(time.Hour)
	r.round(r.t.Context())
}

// TestContract_5_2_EventOfACPU: the kernel announces a CPU, and a message arrives before the CPU's ring is
// open. An unload on it left no record, so nothing is certain since the last check.
func TestContract_5_2_EventOfACPU(t *testing.T) {
	p := prog(1, 1, 0, 0x1000)
	r := newTestSource(t, newFakes(p))
	looked := r.now()
	r.setClock(looked)
	r.refreshCPUs()
	r.setClock(looked + 30*ms)
	r.Refresh()
	assert.Equal(t, looked+30*ms, r.table.Certain())
	r.events.online()
	r.setClock(looked + 50*ms)
	r.Refresh()
	assert.Equal(t, looked, r.table.Certain())
	hit, _ := timeline.NewSnapshot(r.table).At(0x1000, timeline.Instant(looked+20*ms))
	assert.Equal(t, timeline.ReasonUnobserved.String(), hit.Reason.String())
	r.refreshCPUs() // all have a ring: the event was about another CPU, or the CPU went offline
	r.Refresh()
	assert.Equal(t, looked+50*ms, r.table.Certain())
	assert.Equal(t, symbolOf(p, 0), r.nameThen(0x1000, timeline.Instant(looked+20*ms)))
}

// TestContract_5_2_CPUBeforeItsEvent verifies that nothing is certain since the last check once a CPU is
// online without a ring, even before its event arrives: in no table, until all CPUs have rings.
func TestContract_5_2_CPUBeforeItsEvent(t *testing.T) {
	p := prog(1, 1, 0, 0x1000)
	r := newTestSource(t, newFakes(p))
	looked := r.now()
	r.setClock(looked)
	r.refreshCPUs()
	r.setClock(looked + 30*ms)
	r.Refresh()
	assert.Equal(t, looked+30*ms, r.table.Certain())
	r.missesCPU = true // P may have been unloaded there
	r.setClock(looked + 50*ms)
	r.Refresh()
	assert.Equal(t, looked, r.table.Certain())
	hit, _ := timeline.NewSnapshot(r.table).At(0x1000, timeline.Instant(looked+20*ms))
	assert.Equal(t, timeline.ReasonUnobserved.String(), hit.Reason.String())

	r.setClock(looked + 60*ms)
	r.state.stale = true
	assert.LessOrEqual(t, time.Until(r.round(t.Context())), maintainWithoutEvents, "the CPUs are looked for soon")
	assert.Equal(t, looked, r.table.Certain(), "the table is not a message's, but a message may get it")

	r.setClock(looked + 70*ms)
	r.onRefresh = func() { // another message comes, and finds another CPU
		r.setClock(looked + 80*ms)
		r.Refresh()
	}
	r.refreshCPUs()
	r.Refresh()
	assert.Equal(t, looked+70*ms, r.table.Certain())
	r.onRefresh, r.missesCPU = nil, false
	r.setClock(looked + 90*ms)
	r.refreshCPUs()
	r.Refresh()
	assert.Equal(t, looked+90*ms, r.table.Certain())
	assert.Equal(t, symbolOf(p, 0), r.nameThen(0x1000, timeline.Instant(looked+20*ms)))
}

// TestEventWhileRingsAreOpened verifies that a CPU which comes online just after the list of CPUs was read is looked for, too.
func TestEventWhileRingsAreOpened(t *testing.T) {
	r := newTestSource(t, newFakes(prog(1, 1, 0, 0x1000)))
	looked := r.now()
	r.setClock(looked)
	r.events.online()
	r.Refresh()
	r.onRefresh = func() {
		r.setClock(looked + 20*ms)
		r.events.online()
		r.Refresh()
	}
	require.NoError(t, r.maintain())
	r.onRefresh = nil
	r.setClock(looked + 50*ms)
	r.Refresh()
	assert.Equal(t, looked, r.table.Certain())
	require.NoError(t, r.maintain())
	r.Refresh()
	assert.Equal(t, looked+50*ms, r.table.Certain())
}

// TestEventsOfCPUsBeginLate verifies that events are asked for again if that failed, and that a CPU that came online before is
// looked for.
func TestEventsOfCPUsBeginLate(t *testing.T) {
	r := newUnstarted(t, newFakes(prog(1, 1, 0, 0x1000)))
	dial, fails, errFiles := r.dialCPUs, true, errors.New("no file left")
	r.dialCPUs = func() (cpuEvents, error) {
		if fails {
			fails = false
			return nil, errFiles
		}
		return dial()
	}
	r.begin()
	r.round(t.Context())
	looked := r.now()
	r.setClock(looked)
	r.refreshCPUs()
	ctx, cancel := context.WithCancel(t.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() { r.watchCPUs(ctx, nil, errFiles) })
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.state.cpus.events != nil
	}, time.Minute, time.Millisecond)
	r.setClock(looked + 30*ms)
	r.Refresh()
	assert.Equal(t, looked, r.table.Certain())
	r.refreshCPUs()
	r.Refresh()
	assert.Equal(t, looked+30*ms, r.table.Certain())
	cancel()
	watcher.Wait()
}

// TestContract_5_2_NoEventsOfCPUs: where the kernel sends no events, nothing is certain after the last check
// for CPUs, and the source checks more often.
func TestContract_5_2_NoEventsOfCPUs(t *testing.T) {
	p := prog(1, 1, 0, 0x1000)
	r := newUnstarted(t, newFakes(p))
	r.dialCPUs = func() (cpuEvents, error) { return nil, uevent.ErrUnreachable }
	r.begin()
	deadline := r.round(t.Context())
	assert.LessOrEqual(t, time.Until(deadline), maintainWithoutEvents)
	looked := r.now()
	r.setClock(looked)
	r.refreshCPUs()
	r.setClock(looked + 50*ms)
	r.Refresh()
	assert.Equal(t, looked, r.table.Certain())
	r.listNow()
	assert.Equal(t, looked, r.table.Certain())
	r.refreshCPUs()
	r.Refresh()
	assert.Equal(t, looked+50*ms, r.table.Certain())
}

// TestUnloadBeforeTheCPUIsFound: on that CPU, P is unloaded and R loaded in its place. R is unloaded on
// another CPU.
func TestUnloadBeforeTheCPUIsFound(t *testing.T) {
	p := prog(1, 1, 0, 0x1000)
	all := newFakes(p)
	r := newTestSource(t, all)
	looked := r.now()
	delete(all.loaded, 1)
	r.setClock(looked + 40*ms)
	r.emit(unloads(looked+30*ms, prog(2, 2, 0, 0x1000))...)
	r.setClock(looked + 60*ms)
	r.loseRecords(looked, looked+50*ms)
	r.listNow()
	assert.Equal(t, symbolOf(p, 0), r.nameThen(0x1000, timeline.Instant(looked-1)))
	assert.Empty(t, r.nameThen(0x1000, timeline.Instant(looked+20*ms)), "it can have been R")
}

// TestLoadBeforeTheCPUIsFound: the same, but R's unload leaves no record either, and Q is then loaded there.
func TestLoadBeforeTheCPUIsFound(t *testing.T) {
	p, q := prog(1, 1, 0, 0x1000), prog(3, 3, 0, 0x1000)
	all := newFakes(p)
	r := newTestSource(t, all)
	looked := r.now()
	r.setClock(looked + 25*ms)
	r.Refresh() // a message came
	delete(all.loaded, 1)
	all.loaded[3] = q
	r.setClock(looked + 50*ms)
	r.emit(loads(looked+40*ms, q)...)
	r.setClock(looked + 70*ms)
	r.loseRecords(looked, looked+60*ms)
	r.listNow()
	assert.Empty(t, r.nameThen(0x1000, timeline.Instant(looked+20*ms)), "it can have been R")
}

// TestRestartBeforeTheCPUIsFound: the source restarts, for whatever reason. It then opens rings on all CPUs,
// so no CPU is found later.
func TestRestartBeforeTheCPUIsFound(t *testing.T) {
	p := prog(1, 1, 0, 0x1000)
	all := newFakes(p)
	r := newTestSource(t, all)
	looked := r.now()
	r.setClock(looked)
	r.refreshCPUs()
	r.setClock(looked + 50*ms)
	r.Refresh()
	delete(all.loaded, 1) // at 10 ms
	r.stop()
	r.setClock(looked + 60*ms)
	r.begin()
	r.setClock(looked + 90*ms)
	r.listNow()
	hit, _ := timeline.NewSnapshot(r.table).At(0x1000, timeline.Instant(looked+20*ms))
	assert.Equal(t, timeline.ReasonUnobserved.String(), hit.Reason.String())
}

// TestListOfAnotherInItsPlace: the task that loads A has no number in this PID namespace, so A's records do
// not identify its program. When the list is read, B has taken A's place.
func TestListOfAnotherInItsPlace(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x1000)
	all := newFakes()
	r := newTestSource(t, all)
	loaded := r.now()
	all.loaded[1] = a
	r.setClock(loaded + 10*ms)
	r.loadedElsewhere(loaded, a)
	delete(all.loaded, 1)
	all.loaded[2] = b // on the CPU without a ring, as is A's unload
	r.setClock(loaded + 50*ms)
	r.listNow()
	r.listNow()
	assert.Equal(t, symbolOf(b, 0), r.nameThen(0x1000, timeline.Present))
	r.setClock(loaded + 70*ms)
	r.loseRecords(loaded+20*ms, loaded+65*ms)
	r.listNow()
	assert.Equal(t, symbolOf(a, 0), r.nameThen(0x1000, timeline.Instant(loaded+15*ms)))
	assert.Empty(t, r.nameThen(0x1000, timeline.Instant(loaded+25*ms)))
}

// TestListOfAnotherOfTheSameName: the same, but A and B look alike. Once the CPU is found, the list no longer
// identifies the program that was loaded before it, whether the CPU is found before the list or after it.
func TestListOfAnotherOfTheSameName(t *testing.T) {
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprint("found first: ", first), func(t *testing.T) {
			a, b := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x1000)
			all := newFakes()
			r := newTestSource(t, all)
			loaded := r.now()
			all.loaded[1] = a
			r.setClock(loaded + 10*ms)
			r.loadedElsewhere(loaded, a)
			delete(all.loaded, 1)
			all.loaded[2] = b
			r.setClock(loaded + 50*ms)
			lost := func() { r.loseRecords(loaded-10*ms, loaded+45*ms) }
			if first {
				all.onNext = lost // while the programs are listed
			}
			r.listNow()
			all.onNext = nil
			if !first {
				assert.Equal(t, uint32(2), r.image(0x1000).Program.ID)
				lost()
			}
			r.setClock(loaded + 70*ms)
			r.listNow()
			r.listNow()
			assert.Equal(t, b.ID, r.image(0x1000).Program.ID)
			assert.Greater(t, r.image(0x1000).Lifetime.From, loaded+40*ms)
			if hit, _ := timeline.NewSnapshot(r.table).At(0x1000, timeline.Instant(loaded)); hit.Image != nil {
				assert.Nil(t, hit.Image.Program)
			}
		})
	}
}

// TestEventOfTheTasksNextProgram: a task loads P and then Q, which has the same code. In between it ran on
// that CPU, so two records are missing: the one that says which program P's function belongs to, and the one
// of Q's function.
func TestEventOfTheTasksNextProgram(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("gone: ", gone), func(t *testing.T) {
			p, q := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x2000)
			all := newFakes()
			r := newTestSource(t, all)
			looked := r.now()
			all.loaded[1], all.loaded[2] = p, q
			function, event := loads(looked+10*ms, p)[0], loads(looked+30*ms, q)[1]
			event.TID = function.TID // one task
			r.setClock(looked + 40*ms)
			r.emit(function, event)
			if gone {
				delete(all.loaded, 1)
				r.setClock(looked + 45*ms)
				r.emit(unloads(looked+42*ms, p)...)
			}
			r.setClock(looked + 60*ms)
			r.loseRecords(looked+20*ms, looked+50*ms) // the CPU is found
			r.listNow()
			r.setClock(looked + 90*ms)
			r.listNow()
			hit, _ := timeline.NewSnapshot(r.table).At(0x1000, timeline.Instant(looked+15*ms))
			if hit.Image != nil && hit.Image.Program != nil {
				assert.Equal(t, p.ID, hit.Image.Program.ID, "at 15 ms")
			}
			if there := r.image(0x1000); there != nil && there.Program != nil {
				assert.Equal(t, p.ID, there.Program.ID, "now")
			}
		})
	}
}

// TestEventOfTheTasksNextProgramInItsPlace: the same, but Q has another name and takes P's place.
func TestEventOfTheTasksNextProgramInItsPlace(t *testing.T) {
	p, q := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x1000)
	q.Name = "other"
	all := newFakes()
	r := newTestSource(t, all)
	looked := r.now()
	all.loaded[2] = q
	function, event := loads(looked+10*ms, p)[0], loads(looked+30*ms, q)[1]
	event.TID = function.TID // one task
	r.setClock(looked + 40*ms)
	r.emit(function, event)
	r.setClock(looked + 60*ms)
	r.loseRecords(looked, looked+50*ms) // the CPU is found
	r.listNow()
	r.setClock(looked + 90*ms)
	r.listNow()
	name := r.nameThen(0x1000, timeline.Instant(looked+15*ms))
	assert.Contains(t, []string{"", symbolOf(p, 0)}, name)
}

// TestPartOfAProgramIsDoubted: a record named one of a program's functions, so that name is no longer certain
// once the CPU is found. A list named the other. The next list resolves both.
func TestPartOfAProgramIsDoubted(t *testing.T) {
	p := prog(1, 1, 0, 0x1000, 0x2000)
	all := newFakes()
	r := newTestSource(t, all)
	looked := r.now()
	all.loaded[1] = p
	records := loads(looked+10*ms, p)
	for i := range records {
		records[i].TID = 0
	}
	r.setClock(looked + 40*ms)
	r.state.listAt = time.Time{}
	r.emit(records[0], records[2]) // that of the other function is on the CPU without a ring
	r.expect(p)
	r.setClock(looked + 60*ms)
	r.loseRecords(looked, looked+50*ms) // the CPU is found
	for i := range int64(4) {
		r.setClock(looked + (90+20*i)*ms)
		r.listNow()
	}
	assert.True(t, r.isSettled())
	r.expect(p)
}

// TestNameOfTheOneInItsPlace: a list shows X, which may have no name. X is unloaded on that CPU. Y is loaded
// in its place on another CPU, has a name in its record, and is unloaded before the CPU is found, or not.
func TestNameOfTheOneInItsPlace(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("gone: ", gone), func(t *testing.T) {
			x, y := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x1000)
			x.Type, y.Type = 1, 1 // may be loaded without CAP_BPF
			all := newFakes(x)
			r := newTestSource(t, all)
			listed := r.now()
			r.setClock(listed + 50*ms)
			delete(all.loaded, 1)
			all.loaded[2] = y
			r.emit(loads(listed+20*ms, y)...)
			assert.Equal(t, symbolOf(y, 0), r.nameAt(0x1000))
			r.setClock(listed + 60*ms)
			if gone {
				delete(all.loaded, 2)
				r.emit(unloads(listed+55*ms, y)...)
			}
			r.loseRecords(listed+10*ms, listed+58*ms) // the CPU is found
			isX := func() {
				hit, _ := timeline.NewSnapshot(r.table).At(0x1000, timeline.Instant(listed+5*ms))
				require.NotNil(t, hit.Image)
				assert.Equal(t, x.ID, hit.Image.Program.ID)
				assert.Empty(t, hit.Image.Name())
			}
			r.Refresh() // a message comes before the list
			isX()
			r.listNow()
			isX()
		})
	}
}

// TestLoadAfterTheLoss: a program that was loaded after the loss stays certain.
func TestLoadAfterTheLoss(t *testing.T) {
	p := prog(1, 1, 0, 0x1000)
	r := newTestSource(t, newFakes())
	r.programsAre(newFakes(p))
	looked := r.now()
	r.setClock(looked + 70*ms)
	r.emit(loads(looked+60*ms, p)...)
	r.loseRecords(looked, looked+50*ms)
	r.Refresh()
	r.expect(p)
}

// TestBlindUntilTheList: a program that was loaded without a record is named from the first list after the
// CPU is found, or after a restart, and not earlier.
func TestBlindUntilTheList(t *testing.T) {
	for name, lose := range map[string]func(r *testSource, looked int64){
		"found": func(r *testSource, looked int64) { r.loseRecords(looked, looked+20*ms) },
		"restart": func(r *testSource, looked int64) {
			r.stop()
			r.setClock(looked + 20*ms)
			r.begin()
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := newFakes()
			r := newTestSource(t, all)
			looked := r.now()
			all.loaded[2] = prog(2, 2, 0, 0x1000)
			lose(r, looked)
			r.setClock(looked + 80*ms)
			r.certain = func() int64 { return looked + 90*ms }
			r.listNow()
			s := timeline.NewSnapshot(r.table)
			hit, _ := s.At(0x1000, timeline.Instant(looked+85*ms))
			assert.True(t, hit.Symbol.Exists())
			hit, _ = s.At(0x1000, timeline.Instant(looked+50*ms))
			assert.Equal(t, timeline.ReasonUnobserved.String(), hit.Reason.String())
		})
	}
}
