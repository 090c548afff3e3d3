// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/btf/btftest"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const ms = int64(time.Millisecond)

// TestLoss loses records about four programs: one that stays, one that is unloaded, one loaded in its place,
// and one loaded elsewhere.
func TestLoss(t *testing.T) {
	stays, goes := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000, 0x2100)
	all := newFakes(stays, goes)
	r := newTestSource(t, all)
	since := r.image(0x1000).Lifetime.From
	inPlace, elsewhere := prog(3, 3, 0, 0x2000), prog(4, 4, 0, 0x4000)
	r.passTime()
	from := r.now()
	r.passTime()
	delete(all.loaded, goes.ID)
	all.loaded[inPlace.ID], all.loaded[elsewhere.ID] = inPlace, elsewhere
	all.asked = nil
	to := r.now()
	r.loseRecords(from, to)
	r.state.listAt = time.Now().Add(time.Hour)
	r.emit()
	assert.Equal(t, from, r.table.Certain(), "not yet")
	assert.Equal(t, symbolOf(goes, 0), r.nameThen(0x2000, timeline.Instant(from-1)))
	assert.Empty(t, r.nameThen(0x1000, timeline.Instant(from)))

	r.listNow()
	r.expect(stays, inPlace, elsewhere)
	assert.Greater(t, r.table.Certain(), to)
	assert.Equal(t, since, r.image(0x1000).Lifetime.From)
	assert.Equal(t, symbolOf(stays, 0), r.nameThen(0x1000, timeline.Interval{From: from - ms, To: r.table.Certain()}), "it was loaded throughout")
	assert.Equal(t, symbolOf(goes, 1), r.nameThen(0x2100, timeline.Instant(from-1)))
	for _, addr := range []uint64{0x2000, 0x2100, 0x4000} {
		hit, _ := timeline.NewSnapshot(r.table).At(addr, timeline.Instant(from+1))
		assert.Equal(t, timeline.ReasonUnobserved, hit.Reason, "%#x", addr)
	}
	for _, addr := range []uint64{0x2000, 0x4000} {
		began := r.image(addr).Lifetime.From
		assert.True(t, to <= began && began <= r.table.Certain())
	}
	assert.EqualValues(t, 17, r.counts.LostRecords)
	assert.EqualValues(t, 1, r.counts.Resyncs)
	assert.InDelta(t, 10*ms, int64(r.table.BlindTime()), float64(10*ms)+float64(to-from))
}

// TestLossOfAnID: if neither a record nor a list gave a function's program, the function cannot be told from
// another one after a loss, and gets a new lifetime.
func TestLossOfAnID(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	all := newFakes()
	r := newTestSource(t, all)
	r.emit(loads(r.now(), a)[:1]...)
	all.loaded[a.ID] = a
	from := r.now()
	r.loseRecords(from, from+1)
	r.listNow()
	r.expect(a)
	assert.Greater(t, r.image(0x1000).Lifetime.From, from, "a new lifetime")
	assert.Equal(t, 1, r.table.Unloaded())
}

// TestEventsAfterALoss loses the records between the function of one program and the event of another: the
// remaining two look like a single program's.
func TestEventsAfterALoss(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x2000)
	all := newFakes(b)
	r := newTestSource(t, newFakes())
	r.programsAre(all)
	at := r.now()
	r.emit(loads(at, a)[0])
	r.loseRecords(at+1, at+3)
	r.state.listAt = time.Now().Add(time.Hour)
	r.emit(loads(at+4, b)[1])
	assert.Nil(t, r.image(0x1000).Program)
	r.listNow()
	r.expect(b)
}

// TestUnloadAfterALoss: an unload after a loss may belong to a later load at the same address.
func TestUnloadAfterALoss(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	r := newTestSource(t, newFakes(a))
	r.passTime()
	from := r.now()
	r.loseRecords(from, from+1)
	r.state.listAt = time.Now().Add(time.Hour)
	r.emit(unloads(from+2, a)...)
	r.programsAre(newFakes())
	r.listNow()
	r.expect()
	assert.Empty(t, r.nameThen(0x1000, timeline.Instant(from)))
	assert.Equal(t, symbolOf(a, 0), r.nameThen(0x1000, timeline.Instant(from-1)))
}

// TestLossesWhileListing: a loss after the list began needs another list; one that may overlap it makes the
// source read this list again.
func TestLossesWhileListing(t *testing.T) {
	for name, before := range map[string]bool{"later": false, "of the same time": true} {
		t.Run(name, func(t *testing.T) {
			a := prog(1, 1, 0, 0x1000)
			all := newFakes(a)
			r := newTestSource(t, all)
			from := r.now()
			r.loseRecords(from, from+1)
			second := from
			all.onNext = func() {
				all.onNext = nil
				if !before {
					second = r.now()
				}
				r.loseRecords(second, r.now())
			}
			r.listNow()
			assert.Equal(t, second, r.table.Certain())
			assert.EqualValues(t, map[bool]int{false: 1, true: 0}[before], r.counts.Resyncs)
			r.listNow()
			r.expect(a)
			assert.Greater(t, r.table.Certain(), second)
			assert.True(t, r.isSettled())
		})
	}
}

// TestListedAndUnloaded has the kernel list the ID of a program whose unload it has recorded, during the
// loss.
func TestListedAndUnloaded(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	all := newFakes(a)
	r := newTestSource(t, all)
	all.hidden[a.ID] = true
	r.loseRecords(r.now(), r.now())
	r.listNow()
	r.expect()
}

// TestResyncsRest verifies that slow lists are rare, however many records are lost.
func TestResyncsRest(t *testing.T) {
	const takes = 10 * time.Millisecond
	all := newFakes()
	r := newTestSource(t, all)
	r.minRest = 0
	lists := 0
	all.onNext = func() {
		lists++
		time.Sleep(takes) // how long a list takes is measured
	}
	for range 3 {
		r.loseRecords(r.now(), r.now())
		began := time.Now()
		lists = 0
		r.listNow()
		require.Equal(t, 1, lists)
		require.GreaterOrEqual(t, r.state.listAt.Sub(began), (restFor+1)*takes)
		r.loseRecords(r.now(), r.now())
		deadline := r.round(t.Context())
		require.Equal(t, 1, lists, "not yet")
		require.Equal(t, r.state.listAt, deadline, "but then")
	}
}

// TestListingFails keeps the names it has, reports the error, and tries again.
func TestListingFails(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	all := newFakes(a)
	r := newTestSource(t, all)
	all.err = errors.New("broken")
	from := r.now()
	r.loseRecords(from, r.now())
	r.listNow()
	require.ErrorIs(t, r.err, all.err)
	r.expect(a)
	assert.Equal(t, from, r.table.Certain())
	assert.True(t, r.state.listAt.After(time.Now()))
	all.err = nil
	r.listNow()
	require.NoError(t, r.err)
	assert.Greater(t, r.table.Certain(), from)
	assert.EqualValues(t, 1, r.counts.Resyncs)
}

// TestAskingFails verifies that a program that cannot be queried keeps its name and is queried again later.
func TestAskingFails(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000)
	all := newFakes()
	busy := &busyPrograms{fakePrograms: all, err: errors.New("too many open files"), id: a.ID}
	r := newTestSource(t, busy)
	for _, p := range []*bpf.Program{a, b} {
		all.loaded[p.ID] = p
		r.emit(loads(r.now(), p)...)
	}
	require.ErrorIs(t, r.err, busy.err)
	assert.True(t, r.state.listDue().After(time.Now()), "after a while")
	r.listNow()
	require.ErrorIs(t, r.err, busy.err)
	assert.Equal(t, symbolOf(a, 0), r.nameAt(0x1000), "its name stays")
	busy.err = nil
	r.listNow()
	require.NoError(t, r.err)
	r.expect(a, b)
}

// busyPrograms fails to query one program.
type busyPrograms struct {
	*fakePrograms
	err error
	id  uint32
}

func (p *busyPrograms) Program(id uint32, want bpf.Want) (*bpf.Program, error) {
	if id == p.id && p.err != nil {
		return nil, p.err
	}
	return p.fakePrograms.Program(id, want)
}

// TestBTFCannotBeRead: a function whose name is in unreadable BTF keeps its record's name, or has none if
// there is no record, until the BTF can be read.
func TestBTFCannotBeRead(t *testing.T) {
	described := func(id uint32, n int, addr uint64) *bpf.Program {
		p := prog(id, n, 0, addr)
		p.Name, p.BTF, p.Functions[0].Type = "handle_sched_sw", 5, 1
		return p
	}
	recorded, listed := described(1, 1, 0x1000), described(2, 2, 0x2000)
	name := func(p *bpf.Program) string { return strings.TrimSuffix(symbolOf(p, 0), "sw") + "switch" }
	all := newFakes(listed)
	all.btfErr = errors.New("too many open files")
	r := newTestSource(t, all)
	require.ErrorIs(t, r.err, all.btfErr)
	assert.Empty(t, r.nameAt(0x2000))

	all.loaded[recorded.ID] = recorded
	records := loads(r.now(), recorded)
	records[0].Symbol.Name = name(recorded)
	r.emit(records...)
	assert.Equal(t, name(recorded), r.nameAt(0x1000))
	r.listNow()
	require.ErrorIs(t, r.err, all.btfErr)
	assert.Equal(t, name(recorded), r.nameAt(0x1000))
	assert.True(t, r.table.IsPartial())

	all.btfErr = nil
	all.types = btftest.File(btftest.Type(1, uint8(btf.KindFunc), 0), "\x00handle_sched_switch\x00")
	r.listNow()
	require.NoError(t, r.err)
	assert.Equal(t, name(recorded), r.nameAt(0x1000))
	assert.Equal(t, name(listed), r.nameAt(0x2000))
	assert.Equal(t, uint32(2), r.image(0x2000).Program.ID)
	assert.False(t, r.table.IsPartial())

	all.types = btftest.File(btftest.Type(0, 13, 0), "")
	r = newTestSource(t, all)
	require.ErrorIs(t, r.err, btf.ErrMalformed, "the type is none of a function")
	assert.Empty(t, r.nameAt(0x2000))
}

// TestRefusedListEndsNothing: code loaded between a loss and a refused list keeps its name.
func TestRefusedListEndsNothing(t *testing.T) {
	all := newFakes()
	all.err = bpf.ErrPermission
	r := newTestSource(t, all)
	from := r.now()
	r.loseRecords(from, from+1)
	r.state.listAt = time.Now().Add(time.Hour)
	r.emit()
	p := prog(2, 2, 0, 0x2000)
	r.emit(loads(r.now(), p)...)
	require.NotNil(t, r.image(0x2000).Program)
	r.listNow()
	assert.Equal(t, symbolOf(p, 0), r.nameAt(0x2000))
	assert.True(t, r.table.IsPartial())
}

// TestALaterRun continues where the previous run ended.
func TestALaterRun(t *testing.T) {
	stays, goes, comes := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000), prog(3, 3, 0, 0x3000)
	all := newFakes(stays, goes)
	r := newTestSource(t, all)
	r.passTime()
	r.Refresh()
	ended := r.table.Certain()
	r.refreshCPUs()
	r.stop()
	delete(all.loaded, goes.ID)
	all.loaded[comes.ID] = comes
	r.begin()
	r.round(t.Context())
	r.expect(stays, comes)
	assert.Equal(t, symbolOf(stays, 0), r.nameThen(0x1000, timeline.Interval{From: ended - 1, To: r.table.Certain()}))
	assert.Equal(t, symbolOf(goes, 0), r.nameThen(0x2000, timeline.Instant(ended-1)))
	assert.Empty(t, r.nameThen(0x2000, timeline.Instant(ended)))
	assert.EqualValues(t, 1, r.counts.Resyncs)
	assert.Equal(t, 2, r.tables-1, "one of Refresh, one of the second run")
}

// TestWithoutList ends all lifetimes at a loss, because nothing can confirm them.
func TestWithoutList(t *testing.T) {
	all := newFakes(prog(1, 1, 0, 0x1000))
	all.err = bpf.ErrPermission
	r := newTestSource(t, all)
	r.expect()
	p := prog(2, 2, 0, 0x2000)
	r.emit(loads(r.now(), p)...)
	assert.Equal(t, symbolOf(p, 0), r.nameAt(0x2000))
	r.loseRecords(r.now(), r.now())
	r.listNow()
	assert.Empty(t, r.nameAt(0x2000))
	r.emit(loads(r.now(), p)...)
	assert.Equal(t, symbolOf(p, 0), r.nameAt(0x2000))
}

// TestContract_3_5_ProgramsThatMayHaveNoName: while users without CAP_BPF may load programs, the kernel does
// not reveal whether a program that only a list shows has a symbol. Such a program owns its addresses but
// gives them no name; a record gives its name.
func TestContract_3_5_ProgramsThatMayHaveNoName(t *testing.T) {
	listed, large, other := prog(1, 1, 0, 0x1000), prog(3, 3, 0, 0x3000, 0x3100), prog(4, 4, 0, 0x4000)
	listed.Type, large.Type = 1, 1 // socket_filter
	all := newFakes(listed, large, other)
	r := newTestSource(t, all)
	assert.Empty(t, r.nameAt(0x1000))
	require.NotNil(t, r.image(0x1000), "it is in the table, without a name")
	assert.EqualValues(t, 1, r.image(0x1000).Program.ID)
	assert.True(t, r.image(0x1000).MayBeNameless)
	assert.Equal(t, symbolOf(large, 1), r.nameAt(0x3100), "functions take CAP_BPF")
	assert.Equal(t, symbolOf(other, 0), r.nameAt(0x4000), "programs of other types take it, too")

	nameless := prog(5, 5, 0, 0x5000)
	nameless.Type = 1
	all.loaded[5] = nameless
	records := loads(r.now(), nameless)
	records[0].Symbol.Name = ""
	r.emit(records...)
	assert.Empty(t, r.nameAt(0x5000), "also if the kernel is asked for it")
	assert.Equal(t, "socket_filter", r.image(0x5000).Program.Type)
	assert.False(t, r.image(0x5000).MayBeNameless, "its record says so")
	r.emit(records[0], unloads(r.now(), nameless)[0])
	assert.Nil(t, r.image(0x5000))

	r = newTestSourceWith(t, all, "2\n")
	assert.Equal(t, symbolOf(listed, 0), r.nameAt(0x1000), "loading programs takes CAP_BPF")
}

// TestContract_3_5_RecordAfterTheList: the list shows a program before its record is read.
func TestContract_3_5_RecordAfterTheList(t *testing.T) {
	p := prog(1, 1, 0, 0x1000)
	p.Type = 1
	r := newTestSource(t, newFakes(p))
	listed := r.image(0x1000).Lifetime.From
	at := r.now()
	r.emit(loads(at, p)...)
	assert.Equal(t, symbolOf(p, 0), r.nameAt(0x1000))
	assert.Equal(t, listed, r.image(0x1000).Lifetime.From)
	assert.False(t, r.image(0x1000).MayBeNameless)
}

func trampoline(at int64, addr uint64, unregister bool) perfring.Record {
	r := ksymbol(at, addr, "bpf_trampoline_6442", unregister)
	r.Symbol.Len = pageSize
	return r
}

// TestTrampolineIsReplaced registers the new trampoline before the old one is removed.
func TestTrampolineIsReplaced(t *testing.T) {
	r := newTestSource(t, newFakes(prog(1, 1, 0, 0x1100)))
	r.emit(trampoline(r.now(), 0x1000, false), trampoline(r.now(), 0x5000, false))
	r.emit(trampoline(r.now(), 0x1000, true))
	assert.Equal(t, "bpf_trampoline_6442", r.nameAt(0x5fff))
	assert.Empty(t, r.nameAt(0x1000))
	assert.Equal(t, "bpf_prog_0000000000000001_p1", r.nameAt(0x1100))
}

// TestTrampolineBesidePrograms registers a trampoline in a page that has programs.
func TestTrampolineBesidePrograms(t *testing.T) {
	r := newTestSource(t, newFakes(prog(1, 1, 0, 0x1100)))
	r.emit(trampoline(r.now(), 0x1000, false))
	assert.Equal(t, "bpf_trampoline_6442", r.nameAt(0x10ff))
	assert.Equal(t, "bpf_prog_0000000000000001_p1", r.nameAt(0x1100))
	assert.Empty(t, r.nameAt(0x1140))
	assert.True(t, r.image(0x1000).Yields())
	dispatcher := ksymbol(r.now(), 0x8000, "bpf_dispatcher_xdp", false)
	r.emit(dispatcher)
	assert.False(t, r.image(0x8000).Yields(), "its length is true")
	assert.Equal(t, timeline.OriginTrampoline, r.image(0x8000).Origin)
}

// TestTrampolinesAfterALoss: trampolines end with a loss, and return when the kernel's symbol list shows
// them. The source reads it once no records have been lost for a while.
func TestTrampolinesAfterALoss(t *testing.T) {
	r := newTestSource(t, newFakes())
	r.passTime()
	loaded := r.now()
	page := ksymbol(loaded, 0x9000, "kprobe_insn_page", false)
	page.Symbol.Kind, page.Symbol.Len = perfring.KsymOOL, pageSize
	r.emit(trampoline(loaded, 0x5000, false), trampoline(loaded, 0x7000, false), page)
	r.passTime()
	from := r.now()
	r.loseRecords(from, from+1)
	r.kallsyms("0000000000007000 t bpf_trampoline_6442\t[bpf]\n0000000000009000 t kprobe_insn_page\t[__builtin__kprobes]\n")
	r.listNow()
	for _, addr := range []uint64{0x5000, 0x7000, 0x9000} {
		assert.Nil(t, r.image(addr))
		assert.NotEmpty(t, r.nameThen(addr, timeline.Interval{From: loaded, To: from}))
		assert.Empty(t, r.nameThen(addr, timeline.Instant(from)))
	}
	deadline := r.round(t.Context())
	assert.True(t, deadline.After(time.Now()), "it is not quiet")
	r.readKallsyms()
	assert.Nil(t, r.image(0x5000))
	assert.Equal(t, "bpf_trampoline_6442", r.nameAt(0x7000))
	assert.Equal(t, "kprobe_insn_page", r.nameAt(0x9fff))
	assert.Greater(t, r.image(0x7000).Lifetime.From, from+1)
	tables := r.tables
	r.readKallsyms()
	assert.Equal(t, tables, r.tables, "it is read once")
	require.NoError(t, r.err)
}

// TestSymbolsAreReadWhileTrampolinesGo unregisters a trampoline while the symbol list, which still shows it,
// is read.
func TestSymbolsAreReadWhileTrampolinesGo(t *testing.T) {
	r := newUnstarted(t, newFakes())
	r.kallsyms("0000000000007000 t bpf_trampoline_6442\t[bpf]\n")
	lost := false
	r.certain = func() int64 {
		at := r.now()
		if r.listed() && !lost {
			lost = true
			r.batch.Records = []perfring.Record{trampoline(at-1, 0x7000, true)}
		}
		return at
	}
	r.begin()
	r.round(t.Context())
	r.emit()
	assert.Nil(t, r.image(0x7000))
}

// TestSymbolsAreReadAgainAfterAnUnload verifies that the symbol list is read again if something was unloaded while it was
// read: the kernel may have left out another trampoline.
func TestSymbolsAreReadAgainAfterAnUnload(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	r := newUnstarted(t, newFakes(a))
	unloaded := false
	r.certain = func() int64 {
		at := r.now()
		if r.listed() && !unloaded {
			unloaded = true
			r.batch.Records = unloads(at-1, a)
		}
		return at
	}
	r.begin()
	r.round(t.Context())
	require.True(t, unloaded)
	require.Equal(t, r.state.kallsyms.read.Add(readEvery), r.state.kallsyms.due())
	r.kallsyms("0000000000007000 t bpf_trampoline_6442\t[bpf]\n")
	r.readKallsyms()
	assert.Equal(t, "bpf_trampoline_6442", r.nameAt(0x7000))
	assert.Equal(t, never, r.state.kallsyms.due())
}

// listed reports whether programs were listed.
func (r *testSource) listed() bool { return !r.state.listAt.IsZero() }

// TestPagesGiveWay verifies that a page whose end was never recorded gives way to code that is loaded there
// later.
func TestPagesGiveWay(t *testing.T) {
	r := newTestSource(t, newFakes())
	page := ksymbol(r.now(), 0x1000, "kprobe_insn_page", false)
	page.Symbol.Kind, page.Symbol.Len = perfring.KsymOOL, pageSize
	r.emit(page)
	assert.Equal(t, "kprobe_insn_page", r.nameAt(0x1200))
	a := prog(1, 1, 0, 0x1200)
	r.emit(loads(r.now(), a)...)
	assert.Equal(t, symbolOf(a, 0), r.nameAt(0x1200))
	assert.Empty(t, r.nameAt(0x1000))
	assert.Empty(t, r.nameAt(0x1240))
}

// TestKallsymsCannotBeRead verifies the error, and that a later reading succeeds.
func TestKallsymsCannotBeRead(t *testing.T) {
	r := newUnstarted(t, newFakes())
	require.NoError(t, os.Remove(r.Source.kallsyms.procfs+"/kallsyms"))
	r.begin()
	r.round(t.Context())
	require.ErrorIs(t, r.err, os.ErrNotExist)
	r.kallsyms("0000000000007000 t bpf_trampoline_6442\t[bpf]\n")
	r.readKallsyms()
	require.NoError(t, r.err)
	assert.Equal(t, "bpf_trampoline_6442", r.nameAt(0x7000))
}

// TestAddressesAreUsedAgain loses the unload of a program whose place another one takes, with the same tag or
// a different one.
func TestAddressesAreUsedAgain(t *testing.T) {
	for name, next := range map[string]*bpf.Program{
		"other tag": prog(2, 2, 0, 0x1000), "same tag": prog(2, 1, 0, 0x1000), "inside": prog(2, 2, 0, 0x1020),
	} {
		t.Run(name, func(t *testing.T) {
			a := prog(1, 1, 0, 0x1000)
			all := newFakes(a)
			r := newTestSource(t, all)
			delete(all.loaded, a.ID)
			all.loaded[next.ID] = next
			at := r.now()
			r.loseRecords(at, at+1)
			r.state.listAt = time.Now().Add(time.Hour)
			r.emit(loads(at+2, next)...)
			assert.Empty(t, r.nameThen(0x1030, timeline.Instant(at+1)))
			r.listNow()
			r.expect(next)
			assert.Equal(t, at+2, r.image(next.Functions[0].Addr).Lifetime.From)
		})
	}
}

// TestLossWhileListed: the source queries X, and the record of X's unload is lost before the list ends. Then
// something else is loaded in its place, and recorded.
func TestLossWhileListed(t *testing.T) {
	for _, c := range []string{"Y of TID 0, same name", "Y of TID 0, another name", "trampoline", "overlapping"} {
		t.Run(c, func(t *testing.T) {
			x := prog(1, 1, 0, 0x3000)
			all := newFakes()
			r := newTestSource(t, all)
			base := r.now()
			clock := base
			get := func() int64 { return clock }
			r.certain, r.state.now, r.run.lister.now = get, get, get
			all.loaded[1] = x // came unseen; perhaps in another loss
			r.state.relist, r.state.listAt = true, time.Time{}

			var y = prog(2, 1, 0, 0x3000)
			var after []perfring.Record
			switch c {
			case "Y of TID 0, another name":
				y.Name = "y"
				fallthrough
			case "Y of TID 0, same name":
				after = loads(base+16*ms, y)
				for i := range after {
					after[i].TID = 0
				}
			case "trampoline":
				y = nil
				after = []perfring.Record{trampoline(base+16*ms, 0x3000, false)}
			case "overlapping":
				y = prog(2, 2, 0, 0x3020)
				after = loads(base+16*ms, y)
			}
			low := trampoline(base+17*ms, 0x1000, false) // is not a program, so no list shows it
			low.Symbol.Len = 0x1000
			batches := []perfring.Batch{
				{}, // before the list
				{Blind: []perfring.Interval{{From: base + 12*ms, To: base + 15*ms}}}, // X's unload
				{Records: append(after, low)},
			}
			n := 0
			r.run.lister.drained = time.Time{} // the rings are emptied while programs are listed
			r.fill = func(*tape) (b perfring.Batch) {
				if n < len(batches) {
					b = batches[n]
				}
				if n == 1 { // in pace, after X was asked for
					clock = base + 20*ms
					delete(all.loaded, 1)
					if y != nil {
						all.loaded[2] = y
					}
				}
				n++
				return b
			}
			clock = base + 10*ms
			r.round(t.Context())
			clock = base + 40*ms
			r.listNow()
			clock = base + 60*ms
			r.listNow()
			hit, _ := timeline.NewSnapshot(r.table).At(0x3030, timeline.Instant(base+30*ms))
			switch {
			case c == "Y of TID 0, another name", c == "overlapping":
				if assert.NotNil(t, hit.Image, "Y was recorded") {
					assert.Equal(t, symbolOf(y, 0), hit.Image.Name())
				}
			case hit.Image != nil:
				if c == "trampoline" {
					assert.NotEqual(t, symbolOf(x, 0), hit.Image.Name())
				}
				if hit.Image.Program != nil {
					assert.NotEqual(t, x.ID, hit.Image.Program.ID)
				}
			}
			assert.True(t, r.isSettled(), "the loss is dealt with")
		})
	}
}

// TestLossAnnouncedAgain: the kernel reports a loss again after one list has resolved it and a later one has
// said which program a function belongs to.
func TestLossAnnouncedAgain(t *testing.T) {
	x := prog(1, 1, 0, 0x1000)
	all := newFakes()
	r := newTestSource(t, all)
	base := r.now()
	r.setClock(base + 50*ms)
	r.loseRecords(base+10*ms, base+50*ms) // a ring was full
	r.setClock(base + 60*ms)
	r.listNow()
	all.loaded[1] = x
	r.loadedElsewhere(base+70*ms, x)
	r.setClock(base + 100*ms)
	r.listNow()
	require.NotNil(t, r.image(0x1000).Program)
	r.setClock(base + 200*ms)
	r.loseRecords(base+10*ms, base+50*ms) // the next record on that CPU
	r.round(t.Context())
	r.setClock(base + 300*ms)
	r.Refresh()
	assert.Equal(t, never, r.state.listDue(), "it is not listed again")
	assert.Equal(t, symbolOf(x, 0), r.nameAt(0x1000))
	assert.Equal(t, symbolOf(x, 0), r.nameThen(0x1000, timeline.Instant(base+80*ms)))
}

// TestLossBetweenALossAndItsList: after a loss and before its list, more records are lost, and this second
// loss is reported only after the list. The list does not resolve it.
func TestLossBetweenALossAndItsList(t *testing.T) {
	t.Run("unload", func(t *testing.T) {
		p := prog(1, 1, 0, 0x1000)
		r := newTestSource(t, newFakes())
		base := r.now()
		r.setClock(base + 10*ms)
		r.loseRecords(base, base+10*ms)
		r.state.listAt = time.Now().Add(time.Hour)
		r.round(t.Context())
		r.setClock(base + 25*ms)
		r.emit(append(loads(base+12*ms, p), unloads(base+20*ms, prog(2, 2, 0, 0x1000))...)...)
		r.setClock(base + 30*ms)
		r.listNow()
		r.setClock(base + 40*ms)
		r.loseRecords(base+13*ms, base+19*ms)
		r.listNow()
		r.setClock(base + 60*ms)
		r.listNow()
		assert.Empty(t, r.nameThen(0x1000, timeline.Instant(base+18*ms)), "it can have been another")
	})
	t.Run("program", func(t *testing.T) {
		p, q := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x2000)
		all := newFakes()
		r := newTestSource(t, all)
		base := r.now()
		r.setClock(base + 10*ms)
		r.loseRecords(base, base+10*ms)
		r.state.listAt = time.Now().Add(time.Hour)
		r.round(t.Context())
		all.loaded[1], all.loaded[2] = p, q
		function, event := loads(base+12*ms, p)[0], loads(base+20*ms, q)[1]
		event.TID = function.TID // that of P is lost, and so is Q's function
		r.setClock(base + 30*ms)
		r.emit(function, event)
		r.listNow()
		r.setClock(base + 40*ms)
		r.loseRecords(base+13*ms, base+19*ms)
		r.listNow()
		r.setClock(base + 60*ms)
		r.listNow()
		hit, _ := timeline.NewSnapshot(r.table).At(0x1000, timeline.Instant(base+35*ms))
		if hit.Image != nil && hit.Image.Program != nil {
			assert.Equal(t, p.ID, hit.Image.Program.ID)
		}
	})
}

// TestPartOfAProgramIsSkipped: records are lost while a program is listed, and earlier code is at the address
// of one of its functions. The next list gives both functions their names.
func TestPartOfAProgramIsSkipped(t *testing.T) {
	for _, c := range []string{"trampoline", "of TID 0"} {
		t.Run(c, func(t *testing.T) {
			p := prog(1, 1, 0, 0x3100, 0x9000)
			all := newFakes()
			r := newTestSource(t, all)
			base := r.now()
			clock := base
			get := func() int64 { return clock }
			r.certain, r.state.now, r.run.lister.now = get, get, get
			all.loaded[1] = p
			r.state.relist, r.state.listAt = true, time.Time{}
			rec := trampoline(base+5*ms, 0x3000, false)
			if c != "trampoline" { // the record of the other function went unseen
				rec = loads(base+5*ms, p)[0]
				rec.TID = 0
			}
			batches := []perfring.Batch{
				{Records: []perfring.Record{rec}},                                    // before the list
				{Blind: []perfring.Interval{{From: base + 12*ms, To: base + 15*ms}}}, // while it is read
			}
			n := 0
			r.fill = func(*tape) (b perfring.Batch) {
				if n < len(batches) {
					b = batches[n]
				}
				if n == 1 {
					clock = base + 20*ms
				}
				n++
				return b
			}
			clock = base + 10*ms
			r.round(t.Context())
			for i := range int64(4) {
				clock = base + (40+20*i)*ms
				r.listNow()
			}
			assert.True(t, r.isSettled())
			r.expect(p)
		})
	}
}
