package bpfprog

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

func lost(at int64) perfring.Record {
	return perfring.Record{Type: perfring.TypeLost, Time: at, Lost: 17}
}

// TestLostRecords has the records of a program that went be lost, and those of one
// that came in its place, of one that is elsewhere, and of the function of a third.
func TestLostRecords(t *testing.T) {
	stays, goes := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000, 0x2100)
	all := newFakes(stays, goes)
	f := fakeFollower(t, all)
	inPlace, elsewhere, partly := prog(3, 3, 0, 0x2000), prog(4, 4, 0, 0x4000), prog(5, 5, 0, 0x5000, 0x5100)
	at := later()
	delete(all.loaded, goes.ID)
	for _, p := range []*bpf.Program{inPlace, elsewhere, partly} {
		all.loaded[p.ID] = p
	}
	all.asked = nil
	f.apply(slices.Concat([]perfring.Record{lost(at)}, loads(at, partly)[1:2]))
	require.True(t, f.resyncs.wanted)
	catchUp(t, f)
	expectPrograms(t, f, stays, inPlace, elsewhere, partly)
	slices.Sort(all.asked)
	assert.Equal(t, []uint32{3, 4, 5}, all.asked, "only those that are new")
	counts := f.stats.Counts()
	assert.EqualValues(t, 17, counts.LostRecords)
	assert.EqualValues(t, 1, counts.Resyncs)
	assert.Equal(t, symbolOf(goes, 1), nameThen(f, 0x2100, symtab.Instant(0)), "it is remembered")
}

// TestWhatIsNotCertain verifies how the end of a program is recorded that nobody saw:
// it was there up to the last record before those that were lost, and may have been
// until it was missed.
func TestWhatIsNotCertain(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	all := newFakes(a)
	f := fakeFollower(t, all)
	start := now()
	f.resyncs.looked(start+1000, start+2000)
	f.resyncs.looked(start+2000, start+3000)
	assert.Less(t, f.resyncs.certain, start+1000, "it is not confirmed")
	f.resyncs.looked(start+2000+int64(settle), start+3000+int64(settle))
	delete(all.loaded, a.ID)
	f.apply([]perfring.Record{lost(start + 4000)})
	catchUp(t, f)
	gone := f.functions.FreeSince(0x1000, 0x1001)
	assert.Equal(t, start+1000, gone, "a ring says that records are lost a look after they are")
	assert.Equal(t, symbolOf(a, 0), nameThen(f, 0x1000, symtab.Instant(now()-1000)))
}

// TestNamedButNotAskedFor has records be lost between the one that names a program
// and the question about it.
func TestNamedButNotAskedFor(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	all := newFakes()
	f := fakeFollower(t, all)
	all.loaded[a.ID] = a
	f.apply(append(loads(later(), a), lost(later())))
	f.resyncs.next = time.Time{}
	require.True(t, f.complete(t.Context()))
	expectPrograms(t, f, a)
	assert.Empty(t, f.ask)
}

// TestARecordThatComesTooLate is of a load, older than what was applied: it may have
// been undone already.
func TestARecordThatComesTooLate(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	f := fakeFollower(t, newFakes())
	at := later()
	f.apply(unloads(at, a))
	f.apply(loads(at-1, a))
	require.True(t, f.resyncs.wanted)
	catchUp(t, f)
	expectPrograms(t, f)
}

// TestResyncsRest verifies that lists that take long are rare, however many records
// are lost.
func TestResyncsRest(t *testing.T) {
	const takes = 10 * time.Millisecond
	all := newFakes()
	lists := 0
	all.onNext = func() {
		lists++
		time.Sleep(takes)
	}
	f := fakeFollower(t, all)
	for range 3 {
		f.apply([]perfring.Record{lost(later())})
		began := time.Now()
		f.resyncs.next = began // as if enough time had passed
		lists = 0
		require.False(t, f.complete(t.Context()), "nothing changed")
		require.Equal(t, 1, lists)
		require.GreaterOrEqual(t, f.resyncs.next.Sub(began), (restFor+1)*takes)
		f.apply([]perfring.Record{lost(later())})
		f.complete(t.Context())
		require.Equal(t, 1, lists, "not yet")
		require.Equal(t, f.resyncs.next, f.nextLook(began.Add(time.Hour)), "but then")
	}
}

// TestListingFails keeps what is known, says so, and tries again.
func TestListingFails(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	all := newFakes(a)
	f := fakeFollower(t, all)
	broken := errors.New("broken")
	all.err = broken
	f.apply([]perfring.Record{lost(later())})
	f.resyncs.next = time.Time{}
	assert.True(t, f.complete(t.Context()), "something is missing now")
	require.ErrorIs(t, f.degraded(), broken)
	expectPrograms(t, f, a)
	assert.True(t, f.resyncs.next.After(time.Now()))
	f.resyncs.next = time.Time{}
	assert.False(t, f.complete(t.Context()), "nothing new")
	all.err = nil
	catchUp(t, f)
	require.NoError(t, f.degraded())
	assert.EqualValues(t, 1, f.stats.Counts().Resyncs)
}

// TestAskingTakesTurns has more programs to ask for than are asked for at once: the
// rings are read in between.
func TestAskingTakesTurns(t *testing.T) {
	all := newFakes()
	f := fakeFollower(t, all)
	for i := range 50 {
		p := prog(uint32(i+1), i, 0, uint64(i+1)*0x1000)
		all.loaded[p.ID] = p
		f.apply(loads(later(), p))
	}
	slow := &slowPrograms{fakePrograms: all}
	f.programs = slow
	turns := 0
	for ; len(f.ask) > 0; turns++ {
		require.False(t, f.nextLook(time.Now().Add(time.Hour)).After(time.Now()), "do not wait for records")
		f.complete(t.Context())
	}
	assert.Equal(t, 50, turns)
	assert.Len(t, all.asked, 50)
}

// slowPrograms take as long as it is asked for.
type slowPrograms struct{ *fakePrograms }

func (p *slowPrograms) Program(id uint32, want bpf.Want) (*bpf.Program, error) {
	time.Sleep(askTime)
	return p.fakePrograms.Program(id, want)
}

// failingPrograms cannot be asked for at times.
type failingPrograms struct {
	*fakePrograms
	fail bool
}

func (p *failingPrograms) Program(id uint32, want bpf.Want) (*bpf.Program, error) {
	if p.fail {
		return nil, errors.New("too many open files")
	}
	return p.fakePrograms.Program(id, want)
}

// TestDisplacedFunctionComesBack: a record that was wrong of what is in a program's
// place does not leave it without a name, also if it cannot be asked for at once.
func TestDisplacedFunctionComesBack(t *testing.T) {
	const first, second = 0xffffffffc0001000, 0xffffffffc0002000
	x := prog(1, 1, 0, first, second)
	fakes := &failingPrograms{fakePrograms: newFakes(x)}
	f := fakeFollower(t, fakes.fakePrograms)
	f.programs = fakes
	f.apply([]perfring.Record{ksymbol(f.now(), first, "bpf_prog_00000000000000ff_other", false)})
	fakes.fail = true
	f.resyncs.next = time.Time{}
	f.complete(t.Context())
	fakes.fail = false
	f.resyncs.next = time.Time{}
	f.complete(t.Context())
	catchUp(t, f)
	expectPrograms(t, f, x)
	assert.Empty(t, f.broken)
}

// TestDisplacedWithoutAList: what no list will mend is not remembered.
func TestDisplacedWithoutAList(t *testing.T) {
	fakes := newFakes()
	fakes.err = bpf.ErrPermission
	f := fakeFollower(t, fakes)
	for i := range uint32(100) {
		f.apply(loads(f.now(), prog(i+1, int(i), 0, 0xffffffffc0001000))) // and the unload is lost
	}
	assert.Empty(t, f.broken)
}
