// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

func TestRecordsNameFunctions(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000, 0x2000), prog(2, 7, 0, 0x3000)
	all := newFakes(a)
	r := newTestSource(t, all)
	r.expect(a)
	all.loaded[b.ID] = b
	loaded := r.now()
	r.emit(loads(loaded, b)...)
	r.expect(a, b)
	assert.Equal(t, symbolOf(b, 0), r.nameAt(0x303f))
	assert.Empty(t, r.nameAt(0x3040))
	assert.Equal(t, timeline.Since(loaded), r.image(0x3000).Lifetime)
	assert.Equal(t, 2, r.tables, "one for the list, one for the records and the queries that they caused")
	r.passTime()
	gone := r.now()
	r.emit(unloads(gone, a)...)
	r.expect(b)
	assert.Equal(t, symbolOf(a, 1), r.nameThen(0x2000, timeline.Instant(gone-1)))
	assert.Empty(t, r.nameThen(0x2000, timeline.Instant(gone)))
	assert.Equal(t, 1, count(all.asked, 1), "a listed program is not queried again")
}

func count(ids []uint32, id uint32) (n int) {
	for _, is := range ids {
		if is == id {
			n++
		}
	}
	return n
}

// TestBeforeItIsAskedFor has only the records of a program, because the kernel refuses lists.
func TestBeforeItIsAskedFor(t *testing.T) {
	all := newFakes()
	all.err = bpf.ErrPermission
	r := newTestSource(t, all)
	p := prog(1, 1, 0, 0x1000, 0x1100)
	r.emit(loads(r.now(), p)...)
	assert.Equal(t, timeline.Program{ID: 1, Tag: "0000000000000001"}, programOf(r.image(0x1100)))
	assert.Empty(t, all.asked)
	require.ErrorIs(t, r.err, bpf.ErrPermission)
	assert.True(t, strings.HasPrefix(r.err.Error(), "BPF programs loaded before the start have no names: not permitted"))
}

// TestProgramsThatVanish has programs that a list or a record names, and that are gone when they are queried.
func TestProgramsThatVanish(t *testing.T) {
	a, b, c := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000), prog(3, 3, 0, 0x3000)
	all := newFakes(a, b)
	all.hidden[a.ID] = true
	r := newTestSource(t, all)
	require.NoError(t, r.err)
	r.expect(b)
	r.emit(loads(r.now(), c)...)
	assert.Equal(t, symbolOf(c, 0), r.nameAt(0x3000), "it has a name, until a record says that it is gone")
	r.emit(unloads(r.now(), c)...)
	assert.Empty(t, r.nameAt(0x3000))
}

func TestRecordsOfWhatIsNotThere(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	r := newTestSource(t, newFakes(a))
	for _, records := range [][]perfring.Record{
		unloads(r.now(), prog(2, 2, 0, 0x5000)), // unknown
		unloads(r.now(), prog(2, 1, 0, 0x1010)), // not a start
		unloads(-1, a),                          // of the past
		{{Type: perfring.TypeKsymbol, Time: r.now(), Symbol: &perfring.Symbol{Addr: 0x7000, Kind: perfring.KsymBPF, Name: "empty"}}},
		{{Type: perfring.TypeKsymbol, Time: r.now(), Symbol: &perfring.Symbol{Addr: ^uint64(0), Len: 2, Name: "wraps"}}},
	} {
		r.emit(records...)
		r.expect(a)
	}
}

// TestRecordsOfTheTimeOfTheList has records that arrived in a ring while programs were listed.
func TestRecordsOfTheTimeOfTheList(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x1000) // the same code, at the same address
	listing := func(t *testing.T, all *fakePrograms, records func(at int64) []perfring.Record) *testSource {
		r := newUnstarted(t, all)
		all.onNext = func() {
			all.onNext = nil
			r.batch.Records = append(r.batch.Records, records(r.now())...)
		}
		r.begin()
		r.round(t.Context())
		return r
	}
	t.Run("loaded and listed", func(t *testing.T) {
		var loaded int64
		r := listing(t, newFakes(a), func(at int64) []perfring.Record { loaded = at; return loads(at, a) })
		r.expect(a)
		assert.Equal(t, loaded, r.image(0x1000).Lifetime.From)
	})
	t.Run("listed, and recorded later", func(t *testing.T) {
		r := newTestSource(t, newFakes(a))
		was := r.image(0x1000)
		r.emit(loads(r.now(), a)...)
		assert.Same(t, was, r.image(0x1000), "it is the same load")
	})
	t.Run("one before it", func(t *testing.T) {
		r := listing(t, newFakes(b), func(at int64) []perfring.Record {
			return slices.Concat(loads(at, a), unloads(at+1, a), loads(at+2, b))
		})
		r.expect(b)
	})
	t.Run("gone while it was listed", func(t *testing.T) {
		r := listing(t, newFakes(a), func(at int64) []perfring.Record { return unloads(at, a) })
		r.expect()
	})
	t.Run("came and went", func(t *testing.T) {
		r := listing(t, newFakes(), func(at int64) []perfring.Record {
			return slices.Concat(loads(at, a), unloads(at+2, a))
		})
		r.expect()
		assert.Equal(t, 1, r.table.Unloaded(), "it is remembered")
	})
}

// TestLateRecords has records whose times were already reported as complete.
func TestLateRecords(t *testing.T) {
	const ms = int64(time.Millisecond)
	a, b := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x1000)
	t.Run("a load", func(t *testing.T) {
		r := newTestSource(t, newFakes(a))
		r.programsAre(newFakes())
		came := r.now() - 20*ms
		r.emit(loads(came, prog(9, 9, 0, 0x9000))...)
		assert.Equal(t, came, r.image(0x9000).Lifetime.From)
	})
	t.Run("an unload of what was displaced", func(t *testing.T) {
		r := newTestSource(t, newFakes())
		came := r.now()
		r.emit(loads(came, a)...)
		r.emit(loads(came+20*ms, b)...)
		r.emit(unloads(came+10*ms, a)...)
		assert.Equal(t, symbolOf(b, 0), r.nameAt(0x1000))
		assert.Equal(t, came+20*ms, r.image(0x1000).Lifetime.From)
	})
}

// programsAre replaces the kernel's programs.
func (r *testSource) programsAre(p ProgramReader) {
	r.run.lister.programs, r.run.lister.querier.programs = p, p
}

// TestOldKernelsNames has records of Linux 5.7 to 6.0: all functions of a program have the name of the main
// one, and Linux 5.10 records that one twice.
func TestOldKernelsNames(t *testing.T) {
	a := prog(1, 1, 0, 0x1000, 0x2000, 0x3000)
	r := newTestSource(t, newFakes())
	r.programsAre(newFakes(a))
	old := func(at int64, event perfring.ProgramEvent) []perfring.Record {
		records := recordsOf(at, a, event)
		for i := range records[:3] {
			records[i].Symbol.Name = symbolOf(a, 0)
		}
		return append(records[:1:1], records...)
	}
	r.emit(old(r.now(), perfring.ProgramLoad)...)
	r.expect(a)
	r.emit(old(r.now(), perfring.ProgramUnload)...)
	r.expect()
}

// TestMainFunctionOfTwoTags has an unload whose record has another tag than the list, as in Linux 5.10.
func TestMainFunctionOfTwoTags(t *testing.T) {
	a := prog(1, 1, 0, 0x1000, 0x2000)
	r := newTestSource(t, newFakes(a))
	gone := unloads(r.now(), a)
	gone[0].Symbol.Name = strings.Replace(gone[0].Symbol.Name, "0000", "ffff", 1)
	r.emit(gone...)
	r.expect()
}

// TestEventsOnAnotherCPU moves the task that loads a program to another CPU between its records. If the
// kernel does not identify the task, a list gives the program.
func TestEventsOnAnotherCPU(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x2000)
	all := newFakes()
	r := newTestSource(t, all)
	all.loaded[a.ID], all.loaded[b.ID] = a, b
	records := slices.Concat(loads(r.now(), a), loads(r.now(), b))
	for i := range records {
		records[i].TID = 7
	}
	records[1].CPU = 1
	r.state.listAt = time.Now().Add(time.Hour)
	r.emit(records...)
	r.expect(a, b)
	c := prog(3, 3, 0, 0x3000)
	all.loaded[c.ID] = c
	records = loads(r.now(), c)
	for i := range records {
		records[i].TID = 0
	}
	r.emit(records...)
	assert.Nil(t, r.image(0x3000).Program)
	r.listNow()
	r.expect(a, b, c)
}

// TestTasksOfOtherNamespaces has two such tasks load the same program at once, on CPUs that they share. Only
// a list can assign each function to its program.
func TestTasksOfOtherNamespaces(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x2000)
	all := newFakes()
	r := newTestSource(t, all)
	all.loaded[a.ID], all.loaded[b.ID] = a, b
	ofA, ofB := loads(r.now(), a), loads(r.now(), b)
	records := []perfring.Record{ofA[0], ofB[0], ofB[1], ofA[1]}
	for i := range records {
		records[i].TID = 0
	}
	records[3].CPU = 1
	r.emit(records...)
	r.listNow()
	r.expect(a, b)
}

// TestLossBeforeTheRecordsAroundIt reports a loss before the records that precede and follow it, because
// rings hold back recent records. Those two belong to two programs.
func TestLossBeforeTheRecordsAroundIt(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x2000)
	all := newFakes()
	r := newTestSource(t, all)
	all.loaded[a.ID], all.loaded[b.ID] = a, b
	at := r.now()
	records := []perfring.Record{loads(at, a)[0], loads(at+4, b)[1]}
	for i := range records {
		records[i].TID = 7
	}
	r.state.listAt = time.Now().Add(time.Hour)
	r.loseRecords(at, at+3)
	r.emit()
	r.emit(records...)
	r.listNow()
	r.expect(a, b)
}

// TestProgramsThatAreNotCompiled verifies that programs that the kernel interprets have no functions of their
// own.
func TestProgramsThatAreNotCompiled(t *testing.T) {
	a := prog(1, 1, 0, 0xffffffff81000000)
	a.Functions[0].Len = 0
	newTestSource(t, newFakes(a)).expect()
}

// TestABurstIsOneTable has a thousand programs loaded, and half of them unloaded, at once.
func TestABurstIsOneTable(t *testing.T) {
	r := newTestSource(t, newFakes())
	var burst []perfring.Record
	for i := range 1000 {
		p := prog(uint32(i+1), i%8, 0, uint64(i+1)*0x1000)
		burst = append(burst, loads(r.now(), p)...)
		if i%2 == 0 {
			burst = append(burst, unloads(r.now(), p)...)
		}
	}
	tables := r.tables
	r.emit(burst...)
	assert.Equal(t, tables+1, r.tables)
	assert.Equal(t, 500, r.table.Count()[timeline.OriginBPF].Symbols)
	assert.Equal(t, 500, r.table.Unloaded())
	r.emit()
	assert.Equal(t, tables+1, r.tables, "nothing has changed")
}

// TestRefresh brings the table up to the present without a round and without a system call.
func TestRefresh(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	all := newFakes()
	r := newTestSource(t, all)
	all.loaded[a.ID] = a
	all.onNext = func() { t.Error("nothing may be listed") }
	r.passTime()
	loaded := r.now()
	r.batch.Records = loads(loaded, a)
	woken := 0
	r.state.wake = func() { woken++ }
	r.Refresh()
	assert.Equal(t, symbolOf(a, 0), r.nameThen(0x1000, timeline.Instant(loaded)))
	assert.Empty(t, all.asked)
	assert.Greater(t, r.table.Certain(), loaded)
	assert.Equal(t, 1, woken, "it does not wait, as there is a program to ask for")
	r.emit()
	r.expect(a)
}

// TestReadingRecordsFails verifies that the source ends with the reason.
func TestReadingRecordsFails(t *testing.T) {
	r := newUnstarted(t, newFakes())
	r.tape.err = errors.New("broken")
	require.ErrorIs(t, r.Run(t.Context(), r.published), r.tape.err)
	r.Refresh() // also while it does not run
}

// TestCPUsAreLookedAt verifies that CPUs are checked at the start, and when the kernel announces one.
func TestCPUsAreLookedAt(t *testing.T) {
	r := newUnstarted(t, newFakes())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	first := make(chan struct{})
	go func() {
		done <- r.Run(ctx, func(u symcache.Update) {
			if r.table == nil {
				close(first)
			}
			r.published(u)
		})
	}()
	<-first
	require.EqualValues(t, 1, r.refreshed.Load())
	r.mu.Lock()
	r.events.online()
	r.mu.Unlock()
	r.Refresh()
	for r.refreshed.Load() == 1 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	require.NoError(t, <-done)
}

// TestTwoSymbolsOfAProgram verifies that a program with several functions has its own name where the kernel
// records its first function's (up to Linux 6.0): from its load on, whether or not the kernel answers
// queries, and even if a task of another PID namespace has loaded it.
func TestTwoSymbolsOfAProgram(t *testing.T) {
	const first = "bpf_prog_0000000000000080_"
	for _, c := range []struct {
		name     string
		suffix   string // of the first function's symbol
		tid      uint32
		asked    bool
		from, to string // names right after the load, and when the program was asked for or listed
	}{
		{"asked for", "F", 7, true, "bpf_prog_0000000000000001_p1", "bpf_prog_0000000000000001_p1"},
		{"gone", "F", 7, false, first + "F", first + "F"},
		{"gone, named by BTF", "entry", 7, false, "bpf_prog_0000000000000001_entry", "bpf_prog_0000000000000001_entry"},
		{"of another PID namespace", "F", 0, true, "bpf_prog_0000000000000001_p1", "bpf_prog_0000000000000001_p1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := prog(1, 1, 0, 0x1000, 0x2000)
			p.Functions[0].Tag = tagOf(0x80)
			all := newFakes()
			r := newTestSource(t, all)
			if c.asked {
				all.loaded[1] = p
			}
			loaded := r.now()
			records := loads(loaded, p)
			records[0].Symbol.Name = first + c.suffix
			for i := range records {
				records[i].TID = c.tid
			}
			r.emit(records...)
			r.listNow()
			r.Refresh()
			assert.Equal(t, c.to, r.nameAt(0x1000))
			assert.Equal(t, c.from, r.nameThen(0x1000, timeline.Instant(loaded+1)))
			if assert.NotNil(t, r.image(0x1000).Program) {
				assert.Equal(t, uint32(1), r.image(0x1000).Program.ID)
				assert.Equal(t, "0000000000000001", r.image(0x1000).Program.Tag)
			}
		})
	}
}
