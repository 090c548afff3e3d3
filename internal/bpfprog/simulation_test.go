// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/ledger"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// simulationSeeds is the number of random kernels of TestSimulation, for each size of the rings.
var simulationSeeds = flag.Uint64("simulation.seeds", 40, "number of random kernels that are simulated")

// object is code that really occupied an address.
type object struct {
	addr     uint64
	name     string // in its record
	own      string // its program's name, if it differs (up to Linux 6.0); else name
	id       uint32 // of its program; 0 for a trampoline
	from, to int64  // how long its memory was in use

	// The times of its records, and whether the source was listening when it was loaded.
	loaded, unloaded int64
	announced        bool
}

// simulation is a kernel with two CPUs, whose rings hold few records. At each call, it does something random.
type simulation struct {
	*fakePrograms
	*rand.Rand
	r       *testSource
	at      int64
	next    uint32
	room    int // records in a ring
	rings   [2][]perfring.Record
	lost    [2]int64 // time of the last record before a loss, 0 without one
	last    [2]int64
	old     bool  // programs with several functions have two symbols, as up to Linux 6.0
	open    bool  // the source listens
	deaf    bool  // CPU 1 came online after the last check and has no ring
	calm    bool  // CPU 1 no longer comes online
	looked  int64 // time of the last check for CPUs
	began   int64 // time of the first list
	later   []func()
	objects []*object
	marks   []int64
}

const (
	simPrograms    = 0x10000
	simTrampolines = 0x80000
	simSlots       = 12
	simRoom        = 1 << 20 // room for all records
)

func (w *simulation) tick() int64 {
	w.at += ms*6 + w.Int64N(10*ms) // more than the gap kept after an unload
	w.marks = append(w.marks, w.at)
	return w.at
}

func (w *simulation) emit(cpu int, rec perfring.Record) {
	if !w.open {
		return
	}
	rec.CPU, rec.Time = uint32(cpu), w.at
	if cpu == 1 && w.deaf {
		return
	}
	if len(w.rings[cpu]) >= w.room {
		w.lost[cpu] = w.last[cpu]
		return
	}
	w.rings[cpu], w.last[cpu] = append(w.rings[cpu], rec), w.at
}

func (w *simulation) fill(*tape) (b perfring.Batch) {
	if w.room < simRoom && w.IntN(3) == 0 {
		w.lookForCPUs(&b)
	}
	for cpu := range w.rings {
		b.Records = append(b.Records, w.rings[cpu]...)
		if w.lost[cpu] != 0 {
			b.Blind = append(b.Blind, perfring.Interval{From: w.lost[cpu], To: w.at + 1})
			b.Lost++
		}
		w.rings[cpu], w.lost[cpu] = nil, 0
	}
	slices.SortStableFunc(b.Records, func(a, b perfring.Record) int { return int(a.Time - b.Time) })
	return b
}

// lookForCPUs stands in for RefreshCPUs. Afterwards, a CPU can come online.
func (w *simulation) lookForCPUs(b *perfring.Batch) {
	if w.deaf {
		b.Blind = append(b.Blind, perfring.Interval{From: w.looked, To: w.at + 1})
	}
	w.looked, w.deaf = w.at, !w.calm && w.IntN(6) == 0 // the event does not arrive before the next check
	w.r.state.cpus.refreshed, w.r.missesCPU = w.looked, w.deaf
}

// soon runs f now or after some more steps.
func (w *simulation) soon(f func()) {
	if w.IntN(3) > 0 {
		f()
		return
	}
	w.later = append(w.later, f)
}

// there returns the object at an address, nil if the address is free.
func (w *simulation) there(addr uint64) *object {
	for _, o := range w.objects {
		if o.addr == addr && o.to == timeline.Forever {
			return o
		}
	}
	return nil
}

func (w *simulation) add(addr uint64, name string, id uint32) *object {
	o := &object{addr: addr, name: name, own: name, id: id, from: w.at, to: timeline.Forever}
	w.objects = append(w.objects, o)
	return o
}

func (w *simulation) loadProgram() {
	slot := w.IntN(simSlots)
	addrs := []uint64{simPrograms + uint64(slot)*0x40}
	if w.IntN(3) == 0 {
		addrs = append(addrs, simPrograms+uint64(simSlots+slot)*0x40)
	}
	for _, addr := range addrs {
		if w.there(addr) != nil {
			return
		}
	}
	w.next++
	p := prog(w.next, slot&3, w.at, addrs...)
	nameless := false
	if len(addrs) == 1 && w.IntN(3) == 0 {
		p.Type, nameless = 1, w.IntN(2) == 0
	}
	records := loads(0, p)
	own := records[0].Symbol.Name
	if w.old && len(addrs) > 1 {
		p.Functions[0].Tag = tagOf(0x80 + slot)
		records[0].Symbol.Name = "bpf_prog_" + hex.EncodeToString(p.Functions[0].Tag[:]) + "_F"
	}
	var parts []*object
	for i, addr := range addrs {
		if nameless {
			records[i].Symbol.Name = ""
		}
		parts = append(parts, w.add(addr, records[i].Symbol.Name, p.ID))
	}
	if !nameless {
		parts[0].own = own
	}
	w.loaded[p.ID] = p
	tid := w.Uint32N(4) // 0: the task is in another PID namespace
	w.soon(func() {
		w.tick()
		for i, rec := range records {
			w.at++
			rec.TID = tid
			w.emit(w.IntN(2), rec)
			if i < len(parts) {
				parts[i].loaded, parts[i].announced = w.at, w.open
			}
		}
	})
}

func (w *simulation) unloadProgram() {
	p := w.loaded[uint32(w.IntN(int(w.next)+1))]
	if p == nil || w.hidden[p.ID] || w.there(p.Functions[0].Addr).loaded == 0 {
		return
	}
	w.hidden[p.ID] = true
	cpu := w.IntN(2)
	var parts []*object
	w.soon(func() {
		w.tick()
		for _, rec := range unloads(0, p) {
			w.at++
			if rec.Symbol != nil {
				o := w.there(rec.Symbol.Addr)
				rec.Symbol.Name, o.unloaded = o.name, w.at
				parts = append(parts, o)
			}
			w.emit(cpu, rec)
		}
		w.soon(func() {
			delete(w.loaded, p.ID)
			for _, o := range parts {
				o.to = w.tick()
			}
		})
	})
}

func (w *simulation) trampoline() {
	addr := simTrampolines + uint64(w.IntN(4))*pageSize
	o, cpu := w.there(addr), w.IntN(2)
	switch {
	case o == nil:
		o = w.add(addr, "bpf_trampoline_6442", 0)
		w.soon(func() {
			o.loaded, o.announced = w.tick(), w.open
			w.emit(cpu, trampoline(0, addr, false))
		})
	case o.loaded != 0 && o.unloaded == 0:
		o.unloaded = -1 // no longer listed
		w.soon(func() {
			o.unloaded = w.tick()
			w.emit(cpu, trampoline(0, addr, true))
			w.soon(func() { o.to = w.tick() })
		})
	}
}

// step does something random in the kernel.
func (w *simulation) step() {
	w.tick()
	switch w.IntN(8) {
	case 0, 1:
		w.loadProgram()
	case 2, 3:
		w.unloadProgram()
	case 4:
		w.trampoline()
	default:
		if len(w.later) > 0 {
			f := w.later[0]
			w.later = w.later[1:]
			f()
		}
	}
}

// meanwhile sometimes changes the kernel while the source lists programs.
func (w *simulation) meanwhile() {
	if w.IntN(4) == 0 {
		w.step()
		w.r.kallsyms(w.kallsyms())
	}
}

func (w *simulation) Next(after uint32) (uint32, error) {
	w.meanwhile()
	return w.fakePrograms.Next(after)
}

func (w *simulation) Program(id uint32, want bpf.Want) (*bpf.Program, error) {
	w.meanwhile()
	w.r.run.lister.drained = time.Time{} // the rings are emptied in the middle of a list, too
	p, err := w.fakePrograms.Program(id, want)
	w.meanwhile()
	return p, err
}

// kallsyms returns the last lines of /proc/kallsyms.
func (w *simulation) kallsyms() string {
	var lines strings.Builder
	for _, o := range w.objects {
		if o.to == timeline.Forever && o.unloaded == 0 && o.name != "" {
			fmt.Fprintf(&lines, "%016x t %s\t[bpf]\n", o.addr, o.name)
		}
	}
	return lines.String()
}

// look has the source do something random.
func (w *simulation) look() {
	w.r.kallsyms(w.kallsyms()) // any round can read it, after a loss
	switch w.IntN(6) {
	case 0:
		w.r.Refresh()
		w.check(w.marks[max(0, len(w.marks)-recentMarks):])
	case 1:
		w.r.state.listAt = time.Time{}
		w.r.round(w.r.t.Context())
	case 2:
		w.r.readKallsyms()
	default:
		w.r.round(w.r.t.Context())
	}
}

// recentMarks is the number of instants for which the table of a message is checked.
const recentMarks = 10

// check compares the table with the objects at the given instants, and returns the number of correct names.
func (w *simulation) check(marks []int64) (right int) {
	table := w.r.table
	addrs := map[uint64]bool{}
	for _, o := range w.objects {
		addrs[o.addr] = true
	}
	snapshot := timeline.NewSnapshot(table)
	for _, mark := range marks {
		for addr := range addrs {
			for _, t := range []int64{mark - 1, mark, mark + 1} {
				hit, _ := snapshot.At(addr+1, timeline.Instant(t))
				if hit.Image == nil {
					continue
				}
				right++
				i := slices.IndexFunc(w.objects, func(o *object) bool { return o.addr == addr && o.from <= t && t < o.to })
				if i < 0 { // without require, here and below, which would take most of the time
					w.r.t.Fatalf("%s at %#x, at %d: nothing was there: %+v", hit.Image.Name(), addr, t, hit.Image)
				}
				o, p := w.objects[i], hit.Image.Program
				if name := hit.Image.Name(); name != o.name && name != o.own && name != "" {
					w.r.t.Fatalf("%s at %#x, at %d: %s was there", name, addr, t, o.name)
				}
				if p != nil && p.ID != o.id {
					w.r.t.Fatalf("program %d at %#x, at %d: %d was there", p.ID, addr, t, o.id)
				}
			}
		}
	}
	return right
}

// complete checks that the table knows every recorded object for its whole lifetime.
func (w *simulation) complete() (n int) {
	table := w.r.table
	for _, o := range w.objects {
		to := o.unloaded
		if to <= 0 {
			to = table.Certain()
		}
		if !o.announced || o.loaded >= to {
			continue
		}
		from := max(o.loaded, w.began+6*ms) // code that was unloaded unseen can run on
		if from >= to {
			continue
		}
		hit, _ := timeline.NewSnapshot(table).At(o.addr, timeline.Interval{From: from, To: to})
		require.NotNil(w.r.t, hit.Image, "%+v: %v", o, hit.Reason)
		require.Contains(w.r.t, []string{o.name, o.own}, hit.Image.Name())
		n++
	}
	return n
}

func newSimulation(t *testing.T, seed uint64, room int) *simulation {
	w := simulate(t, seed, room)
	w.begin()
	return w
}

// simulate returns a simulation whose source has not started.
func simulate(t *testing.T, seed uint64, room int) *simulation {
	w := &simulation{fakePrograms: newFakes(), Rand: rand.New(rand.NewPCG(seed, 1)), at: now(), room: room, old: seed%4 == 3}
	for range 50 {
		w.step()
	}
	w.r = newUnstarted(t, w)
	w.r.state.follower.ledger = ledger.New(timeline.Limits{TTL: time.Hour, MaxEntries: 1 << 20})
	w.r.state.now = func() int64 { return w.at }
	w.r.run.lister.now = w.r.state.now
	w.r.minRest = 0
	w.r.fill = w.fill
	w.r.certain = w.r.state.now
	return w
}

func (w *simulation) begin() {
	w.open, w.deaf, w.looked = true, false, w.at
	w.last = [2]int64{w.at, w.at}
	w.r.kallsyms(w.kallsyms())
	w.r.begin()
	w.r.round(w.r.t.Context())
	w.began = w.at
}

// TestSimulationOfPolling refuses perf events.
func TestSimulationOfPolling(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	right := 0
	for seed := range uint64(8) {
		w := simulate(t, seed, 0)
		w.r.poll()
		for range 100 {
			for range w.IntN(3) {
				w.step()
			}
			w.r.kallsyms(w.kallsyms())
			w.r.state.listAt, w.r.state.kallsyms.read = time.Time{}, time.Time{}
			w.r.round(t.Context())
		}
		w.r.state.publishTable()
		right += w.check(w.marks)
		require.Empty(t, slices.DeleteFunc(w.r.table.Loaded(), func(m *timeline.Image) bool { return m.Origin == timeline.OriginBPF }))
	}
	t.Log(right, "right names")
	require.Positive(t, right)
}

// TestSimulation compares the table with the objects of random kernels: no name is ever wrong and, if no
// record is lost, none is missing.
func TestSimulation(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	for _, room := range []int{simRoom, 12, 4} {
		t.Run(strconv.Itoa(room), func(t *testing.T) {
			right, complete := 0, 0
			for seed := range *simulationSeeds {
				w := newSimulation(t, seed, room)
				for range 150 {
					for range w.IntN(6) {
						w.step()
					}
					w.look()
					if room < simRoom && w.IntN(50) == 0 {
						w.r.stop()
						w.open = false
						w.rings, w.lost = [2][]perfring.Record{}, [2]int64{}
						w.step()
						w.begin()
					}
				}
				w.r.kallsyms(w.kallsyms())
				for w.calm = true; w.deaf; {
					w.r.Refresh()
				}
				w.r.state.listAt = time.Time{}
				w.r.round(t.Context())
				w.r.Refresh()
				right += w.check(w.marks)
				if room == simRoom {
					complete += w.complete()
				}
			}
			t.Log(right, "right names,", complete, "complete lifetimes")
			require.Positive(t, right)
		})
	}
}
