package bpfprog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestProgramsTakeTimeToLoad has one program go, unseen, while the next one for its
// place is verified: until that is listed, it is not the one that is there.
func TestProgramsTakeTimeToLoad(t *testing.T) {
	const ms = int64(time.Millisecond)
	was := prog(1, 1, 0, 0x1000)
	all := newFakes(was)
	f := fakeFollower(t, all)
	at := now()
	f.now = func() int64 { return at }
	at += 10 * ms
	f.resync(t.Context())
	certain := at
	next, elsewhere := prog(2, 2, at+100*ms, 0x1000), prog(3, 3, at+100*ms, 0x3000)
	at += 500 * ms
	delete(all.loaded, was.ID)
	all.loaded[next.ID], all.loaded[elsewhere.ID] = next, elsewhere
	f.resync(t.Context())
	for _, tt := range []struct {
		after int64
		want  string
	}{
		{-5, symbolOf(was, 0)},
		{50, symbolOf(was, 0)}, // perhaps
		{300, ""},              // one or the other
		{499, symbolOf(next, 0)},
		{600, symbolOf(next, 0)},
	} {
		assert.Equal(t, tt.want, nameThen(f, 0x1000, symtab.Instant(certain+tt.after*ms)), "%d ms", tt.after)
	}
	assert.Equal(t, symbolOf(elsewhere, 0), nameThen(f, 0x3000, symtab.Instant(certain+300*ms)), "nobody else was there")
	there := f.functions.At(0x3000)
	assert.Equal(t, at, there.Valid.From, "when it was listed")
	assert.Equal(t, next.LoadTime, earliest(there))
	_, _, settled := symtab.NewSnapshot(f.table()).LookupSettled(0x3000, symtab.Instant(certain+300*ms))
	assert.False(t, settled)

	f.apply(loads(at-200*ms, elsewhere)) // the record was on its way
	assert.Equal(t, symtab.Since(at-200*ms), f.functions.At(0x3000).Valid, "a record knows better")
}

// TestProgramsOfOld were loaded longer before the source began than can be said to be
// uncertain.
func TestProgramsOfOld(t *testing.T) {
	f := newFollower(&Source{programs: newFakes(prog(1, 1, 1000, 0x1000))})
	f.now = func() int64 { return int64(24 * time.Hour) }
	f.resync(t.Context())
	there := f.functions.At(0x1000)
	assert.Equal(t, int64(maxSlack)+1000, there.Valid.From)
	assert.EqualValues(t, 1000, earliest(there))
}

// TestALaterRunKnowsWhatWasBefore has reading records fail, and a program come and
// another go before the next run.
func TestALaterRunKnowsWhatWasBefore(t *testing.T) {
	stays, goes, comes := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000), prog(3, 3, later(), 0x3000)
	all := newFakes(stays, goes)
	s := NewSource(Options{History: symtab.History{TTL: time.Hour, MaxEntries: 1000}})
	s.programs = all
	broken := errors.New("broken")
	s.record = func() (Recorder, error) { return failing{broken}, nil }
	var tables []*symtab.Table
	publish := func(table *symtab.Table, _ error) { tables = append(tables, table) }
	require.ErrorIs(t, s.Run(t.Context(), publish), broken)
	delete(all.loaded, goes.ID)
	all.loaded[comes.ID] = comes
	all.asked = nil
	require.ErrorIs(t, s.Run(t.Context(), publish), broken)
	require.Len(t, tables, 2)
	assert.Equal(t, []uint32{comes.ID}, all.asked, "only what is new")
	expectPrograms(t, s.follower, stays, comes)
	sym, ok := tables[1].Lookup(0x2000, symtab.Instant(s.follower.began))
	require.True(t, ok)
	assert.Equal(t, symbolOf(goes, 0), sym.Name().Name)
	assert.EqualValues(t, 1, s.stats.Counts().Resyncs)
}

// TestQuietHoursAreCertain has records be lost after hours without any.
func TestQuietHoursAreCertain(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	all := newFakes(a)
	f := fakeFollower(t, all)
	f.opts.History.TTL = 10 * time.Minute
	start, at := now(), now()
	f.now = func() int64 { return at }
	for ; at < start+int64(3*time.Hour); at += int64(expireInterval) {
		f.resyncs.looked(at, at)
		f.resyncs.looked(at+int64(settle), at+int64(settle))
	}
	delete(all.loaded, a.ID)
	f.apply([]perfring.Record{lost(at)})
	catchUp(t, f)
	assert.False(t, f.expire())
	assert.Equal(t, 1, f.table().History())
	sym, ok, settled := symtab.NewSnapshot(f.table()).LookupSettled(0x1000, symtab.Instant(at-int64(time.Minute)))
	assert.True(t, ok && settled, "it was there")
	assert.Equal(t, symbolOf(a, 0), sym.Name().Name)
}

// TestAskingFails keeps a program, that the kernel does not tell of, for later.
func TestAskingFails(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000)
	all := newFakes()
	f := fakeFollower(t, all)
	busy := &busyPrograms{fakePrograms: all, err: errors.New("too many open files"), id: a.ID}
	f.programs = busy
	for _, p := range []*bpf.Program{a, b} {
		all.loaded[p.ID] = p
		f.apply(loads(now(), p))
	}
	require.True(t, f.complete(t.Context()))
	require.ErrorIs(t, f.degraded(), busy.err)
	assert.True(t, f.resyncs.next.After(time.Now()), "after a while")
	f.resyncs.next = time.Time{}
	f.complete(t.Context())
	require.ErrorIs(t, f.degraded(), busy.err)
	assert.Equal(t, symbolOf(a, 0), nameAt(f, 0x1000), "its name stays")
	busy.err = nil
	f.resyncs.next = time.Time{}
	require.True(t, f.complete(t.Context()))
	require.NoError(t, f.degraded())
	expectPrograms(t, f, a, b)
}

// busyPrograms fail to tell of one program.
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

// TestGuessesAreShort verifies that of a program without a length little more than a
// page has its name, and that it keeps it when its length is known.
func TestGuessesAreShort(t *testing.T) {
	const list = "ffffffffc0a02f80 t bpf_prog_0000000000000001_p1\t[bpf]\n"
	f := baseline(t, strings.Replace(someSymbols, "ffffffffc0a01000 t ftrace_trampoline\t[__builtin__ftrace]\n", list, 1)[:strings.Index(someSymbols, "ffffffffc0a01000")+len(list)], bpf.ErrPermission)
	name := "bpf_prog_0000000000000001_p1"
	assert.Equal(t, name, nameAt(f, 0xffffffffc0a03fff))
	assert.Empty(t, nameAt(f, 0xffffffffc0a04000))
	f.programs.(*fakePrograms).loaded[1] = prog(1, 1, 0, 0xffffffffc0a02f80)
	f.resync(t.Context())
	assert.Equal(t, name, nameThen(f, 0xffffffffc0a02f80, symtab.Instant(-1)), "as before")
	assert.Empty(t, nameAt(f, 0xffffffffc0a02fc0))
}
