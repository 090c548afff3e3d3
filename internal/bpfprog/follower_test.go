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
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// later returns an instant after all that has happened.
func later() int64 { return now() + int64(time.Minute) }

func TestRecordsNameFunctions(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000, 0x2000), prog(2, 7, 0, 0x3000)
	all := newFakes(a)
	f := fakeFollower(t, all)
	expectPrograms(t, f, a)
	all.loaded[b.ID] = b
	at := later()
	require.True(t, f.apply(loads(at, b)))
	assert.Equal(t, symbolOf(b, 0), nameAt(f, 0x303f))
	assert.Empty(t, nameAt(f, 0x3040))
	assert.Equal(t, &symtab.Program{ID: 2, Tag: "0000000000000007"}, f.functions.At(0x3000).Program, "before it is asked for")
	assert.Equal(t, at, f.functions.At(0x3000).Valid.From)
	catchUp(t, f)
	expectPrograms(t, f, a, b)
	require.True(t, f.apply(unloads(at+1, a)))
	expectPrograms(t, f, b)
	assert.Equal(t, symbolOf(a, 1), nameThen(f, 0x2000, symtab.Instant(at)))
	assert.Equal(t, 1, count(all.asked, 1), "what was listed is not asked for again")
}

func count(ids []uint32, id uint32) (n int) {
	for _, is := range ids {
		if is == id {
			n++
		}
	}
	return n
}

// TestProgramsThatVanish are listed, or named by a record, and gone when they are
// asked for.
func TestProgramsThatVanish(t *testing.T) {
	a, b, c := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000), prog(3, 3, 0, 0x3000)
	all := newFakes(a, b)
	all.hidden[a.ID] = true
	f := fakeFollower(t, all)
	require.NoError(t, f.degraded())
	expectPrograms(t, f, b)
	f.apply(loads(later(), c))
	catchUp(t, f)
	assert.Equal(t, symbolOf(c, 0), nameAt(f, 0x3000), "it has a name, until a record says that it is gone")
	f.apply(unloads(later(), c))
	assert.Empty(t, nameAt(f, 0x3000))
}

// TestAddressesAreUsedAgain has the record that a program went be lost, and another
// one take its place, of the same tag or not.
func TestAddressesAreUsedAgain(t *testing.T) {
	for name, next := range map[string]*bpf.Program{
		"other tag": prog(2, 2, 0, 0x1000), "same tag": prog(2, 1, 0, 0x1000), "inside": prog(2, 2, 0, 0x1020),
	} {
		t.Run(name, func(t *testing.T) {
			a := prog(1, 1, 0, 0x1000)
			all := newFakes(a)
			f := fakeFollower(t, all)
			delete(all.loaded, a.ID)
			all.loaded[next.ID] = next
			f.apply(loads(later(), next))
			catchUp(t, f)
			expectPrograms(t, f, next)
		})
	}
}

func TestRecordsOfWhatIsNotThere(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	f := fakeFollower(t, newFakes(a))
	at := later()
	for _, r := range [][]perfring.Record{
		unloads(at, prog(2, 2, 0, 0x5000)), // unknown
		unloads(at, prog(2, 2, 0, 0x1000)), // of what was there before
		unloads(at, prog(2, 1, 0, 0x1010)), // not a start
		unloads(-1, a),                     // of the past
		{{Type: perfring.TypeKsymbol, Time: at, Symbol: &perfring.Symbol{Addr: 0x7000, Kind: perfring.KsymBPF, Name: "empty"}}},
		{{Type: perfring.TypeKsymbol, Time: at, Symbol: &perfring.Symbol{Addr: ^uint64(0), Len: 2, Name: "wraps"}}},
	} {
		assert.False(t, f.apply(r))
		expectPrograms(t, f, a)
	}
}

// TestRecordsOlderThanTheList have been waiting in a ring while programs were listed.
func TestRecordsOlderThanTheList(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 1, 0, 0x1000) // the same code, at the same address
	t.Run("loaded and listed", func(t *testing.T) {
		f := fakeFollower(t, newFakes(a))
		assert.False(t, f.apply(loads(f.listedAt-1, a)))
		expectPrograms(t, f, a)
	})
	t.Run("one before it", func(t *testing.T) {
		f := fakeFollower(t, newFakes(b))
		assert.False(t, f.apply(slices.Concat(loads(f.listedAt-4, a), unloads(f.listedAt-3, a), loads(f.listedAt-2, b))))
		expectPrograms(t, f, b)
	})
	t.Run("another one before it", func(t *testing.T) {
		f := fakeFollower(t, newFakes(b))
		other := prog(3, 3, 0, 0x0fe0)
		f.apply(slices.Concat(loads(f.listedAt-4, other), unloads(f.listedAt-3, other), loads(f.listedAt-2, b)))
		expectPrograms(t, f, b)
	})
	t.Run("gone while it was listed", func(t *testing.T) {
		all := newFakes(a)
		f := fakeFollower(t, all)
		delete(all.loaded, a.ID)
		assert.True(t, f.apply(unloads(f.listedAt-1, a)))
		expectPrograms(t, f)
	})
	t.Run("came and went", func(t *testing.T) {
		f := fakeFollower(t, newFakes())
		f.apply(slices.Concat(loads(f.listedAt-int64(time.Second), a), unloads(f.listedAt-1, a)))
		expectPrograms(t, f)
		assert.Equal(t, symbolOf(a, 0), nameThen(f, 0x1000, symtab.Instant(f.listedAt-int64(time.Second/2))), "it is remembered")
	})
}

// TestOldKernelsNames has records as Linux 5.7 to 6.0 makes them: all functions of a
// program have the name of its main one, which 5.10 tells twice.
func TestOldKernelsNames(t *testing.T) {
	a := prog(1, 1, 0, 0x1000, 0x2000, 0x3000)
	all := newFakes(a)
	f := fakeFollower(t, newFakes())
	f.programs = all
	old := func(at int64, event perfring.ProgramEvent) []perfring.Record {
		records := recordsOf(at, a, event)
		for i := range records[:3] {
			records[i].Symbol.Name = symbolOf(a, 0)
		}
		return append(records[:1:1], records...)
	}
	at := later()
	f.apply(old(at, perfring.ProgramLoad))
	catchUp(t, f)
	expectPrograms(t, f, a)
	f.apply(old(at+1, perfring.ProgramUnload))
	expectPrograms(t, f)
}

// TestMainFunctionOfTwoTags has the record of its end have another tag than the list, as
// Linux 5.10 has it.
func TestMainFunctionOfTwoTags(t *testing.T) {
	a := prog(1, 1, 0, 0x1000, 0x2000)
	f := fakeFollower(t, newFakes(a))
	gone := unloads(later(), a)
	gone[0].Symbol.Name = strings.Replace(gone[0].Symbol.Name, "0000", "ffff", 1)
	other := ksymbol(later(), 0x1000, "bpf_prog_ffff000000000001_other", true)
	assert.False(t, f.apply([]perfring.Record{other}))
	expectPrograms(t, f, a)
	f.apply(gone)
	expectPrograms(t, f)
}

// TestProgramsThatAreNotCompiled have no functions of their own: they run in the
// kernel's interpreter.
func TestProgramsThatAreNotCompiled(t *testing.T) {
	a := prog(1, 1, 0, 0xffffffff81000000)
	a.Functions[0].Len = 0
	expectPrograms(t, fakeFollower(t, newFakes(a)))
}

func trampoline(at int64, addr uint64, unregister bool) perfring.Record {
	r := ksymbol(at, addr, "bpf_trampoline_6442", unregister)
	r.Symbol.Len = 0x1000
	return r
}

// TestTrampolineIsReplaced has the new one come before the old one goes.
func TestTrampolineIsReplaced(t *testing.T) {
	f := fakeFollower(t, newFakes(prog(1, 1, 0, 0x1100)))
	at := later()
	f.apply([]perfring.Record{trampoline(at, 0x1000, false), trampoline(at+1, 0x5000, false)})
	f.apply([]perfring.Record{trampoline(at+2, 0x1000, true)})
	assert.Equal(t, "bpf_trampoline_6442", nameAt(f, 0x5fff))
	assert.Empty(t, nameAt(f, 0x1000))
	assert.Equal(t, "bpf_prog_0000000000000001_p1", nameAt(f, 0x1100))
	f.apply([]perfring.Record{ksymbol(at+3, 0x5000, "bpf_trampoline_1", true)})
	assert.Equal(t, "bpf_trampoline_6442", nameAt(f, 0x5000), "that was another one")
}

// TestTrampolineBesideOldPrograms has one come where programs lie that were listed.
func TestTrampolineBesideOldPrograms(t *testing.T) {
	f := fakeFollower(t, newFakes(prog(1, 1, later(), 0x1100)))
	f.apply([]perfring.Record{trampoline(now(), 0x1000, false)})
	assert.Equal(t, "bpf_trampoline_6442", nameAt(f, 0x10ff))
	assert.Equal(t, "bpf_prog_0000000000000001_p1", nameAt(f, 0x1100))
}

// TestPagesGiveWay verifies that the page of a kprobe, which the kernel does not say
// is gone, does not stand in the way of what comes later.
func TestPagesGiveWay(t *testing.T) {
	f := fakeFollower(t, newFakes())
	page := ksymbol(later(), 0x1000, "kprobe_insn_page", false)
	page.Symbol.Kind, page.Symbol.Len = perfring.KsymOOL, 0x1000
	f.apply([]perfring.Record{page})
	assert.Equal(t, "kprobe_insn_page", nameAt(f, 0x1200))
	a := prog(1, 1, 0, 0x1200)
	f.apply(loads(later()+1, a))
	assert.Equal(t, symbolOf(a, 0), nameAt(f, 0x1200))
	assert.Empty(t, nameAt(f, 0x1000))
	assert.Empty(t, nameAt(f, 0x1240))
}

// TestABurstIsOnePublish has a thousand programs come and half of them go at once.
func TestABurstIsOnePublish(t *testing.T) {
	var burst []perfring.Record
	for i := range 1000 {
		p := prog(uint32(i+1), i%8, 0, uint64(i+1)*0x1000)
		burst = append(burst, loads(later(), p)...)
		if i%2 == 0 {
			burst = append(burst, unloads(later(), p)...)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := NewSource(Options{History: symtab.History{TTL: time.Hour, MaxEntries: 1000}})
	s.programs = newFakes()
	s.record = func() (Recorder, error) { return &playback{bursts: [][]perfring.Record{burst}, end: cancel}, nil }
	var tables []*symtab.Table
	require.NoError(t, s.Run(ctx, func(table *symtab.Table, degraded error) {
		require.NoError(t, degraded)
		tables = append(tables, table)
	}))
	require.Len(t, tables, 2, "the first, and the burst")
	assert.Zero(t, tables[0].Symbols()[symtab.OriginBPF])
	assert.Equal(t, 500, tables[1].Symbols()[symtab.OriginBPF])
	assert.Equal(t, 500, tables[1].History())
}

// TestReadingRecordsFails ends the source with the reason.
func TestReadingRecordsFails(t *testing.T) {
	broken := errors.New("broken")
	s := NewSource(Options{})
	s.programs = newFakes()
	s.record = func() (Recorder, error) { return failing{broken}, nil }
	require.ErrorIs(t, s.Run(t.Context(), func(*symtab.Table, error) {}), broken)
}

type failing struct{ err error }

func (f failing) Read(context.Context, time.Time) ([]perfring.Record, error) { return nil, f.err }
func (failing) Close() error                                                 { return nil }
