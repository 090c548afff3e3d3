package symtab

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ms = int64(time.Millisecond)

// remember is a history that no test here fills.
var remember = History{TTL: time.Hour, MaxEntries: 1 << 20}

func bpf(name string, start uint64, size uint32, from int64) *Function {
	return NewFunction(OriginBPF, name, start, size, Since(from))
}

// nameAt returns the name that a table gives an address.
func nameAt(table *Table, addr uint64, at Interval) string {
	sym, ok := table.Lookup(addr, at)
	if !ok {
		return ""
	}
	return sym.Name().Name
}

func TestFunctionsAnswerForTheTime(t *testing.T) {
	r := NewFunctions(remember)
	a := bpf("a", 0x1000, 0x100, 100*ms)
	r.Load(a)
	before := r.Table()
	r.Unload(a, 200*ms, Slack{})
	b := bpf("b", 0x1000, 0x80, 300*ms)
	r.Load(b)
	table := r.Table()

	for _, tt := range []struct {
		at   Interval
		want string
	}{
		{Instant(94 * ms), ""},
		{Instant(96 * ms), "a"}, // within the tolerance
		{Instant(150 * ms), "a"},
		{Instant(204 * ms), "a"},
		{Instant(250 * ms), ""}, // nobody's, even if it is b's now
		{Instant(296 * ms), "b"},
		{Instant(400 * ms), "b"},
		{Interval{100 * ms, 340 * ms}, "a"}, // for most of it
		{Interval{100 * ms, 400 * ms}, "b"}, // a tie goes to the later
		{Now, "b"},
	} {
		assert.Equal(t, tt.want, nameAt(table, 0x1010, tt.at), "%v", tt.at)
	}
	assert.Equal(t, "a", nameAt(table, 0x10f0, Instant(150*ms)))
	assert.Empty(t, nameAt(table, 0x10f0, Instant(400*ms)), "b is shorter")
	assert.Equal(t, "a", nameAt(before, 0x1010, Now), "a table does not change")
	assert.Equal(t, 1, table.History())
	assert.Equal(t, []*Function{b}, table.Functions())
	assert.Equal(t, 1, table.Symbols()[OriginBPF])
}

func TestFunctionsSettled(t *testing.T) {
	r := NewFunctions(remember)
	a := bpf("a", 0x1000, 0x100, 100*ms)
	r.Load(a)
	r.Unload(a, 200*ms, Slack{})
	r.Load(bpf("b", 0x1000, 0x100, 202*ms))
	s := NewSnapshot(r.Table())
	for _, tt := range []struct {
		at   Interval
		want bool
	}{
		{Interval{0, 90 * ms}, true},
		{Interval{0, 150 * ms}, false},
		{Interval{110 * ms, 190 * ms}, true},
		{Interval{110 * ms, 198 * ms}, false}, // b is near
		{Interval{208 * ms, 300 * ms}, true},
		{Interval{204 * ms, 300 * ms}, false}, // a was a moment ago
	} {
		_, _, settled := s.LookupSettled(0x1000, tt.at)
		assert.Equal(t, tt.want, settled, "%v", tt.at)
	}
}

func TestFunctionsSlack(t *testing.T) {
	r := NewFunctions(remember)
	a := bpf("a", 0x1000, 0x100, 1000*ms)
	a.Slack = NewSlack(500*time.Millisecond, 0)
	r.Load(a)
	r.Unload(a, 2000*ms, NewSlack(500*time.Millisecond, time.Second))
	r.Load(bpf("b", 0x1000, 0x100, 2500*ms))
	table := r.Table()
	for at, want := range map[int64]string{
		400: "", 600: "a", 1500: "a",
		2400: "a", // perhaps still there
		2600: "b", // for sure, whatever a may have been
	} {
		assert.Equal(t, want, nameAt(table, 0x1000, Instant(at*ms)), "%d ms", at)
	}
}

func TestWhatIsLoadedEndsWhatItOverlaps(t *testing.T) {
	r := NewFunctions(remember)
	page := NewFunction(OriginOOL, "kprobe_insn_page", 0x1000, 0x1000, Since(math.MinInt64))
	r.Load(page)
	r.Load(bpf("prog", 0x1200, 0x100, 100*ms)) // the page was given up without a word
	table := r.Table()
	assert.Equal(t, "prog", nameAt(table, 0x1200, Now))
	assert.Empty(t, nameAt(table, 0x1000, Now))
	assert.Equal(t, "kprobe_insn_page", nameAt(table, 0x1200, Instant(50*ms)))
	assert.Equal(t, [NumOrigins]int{OriginBPF: 1}, table.Symbols())
}

func TestTrampolineEndsWhereSomethingBegins(t *testing.T) {
	trampoline := func(start uint64) *Function {
		return NewFunction(OriginTrampoline, "bpf_trampoline_1", start, 0x1000, Since(50*ms))
	}
	t.Run("that came later", func(t *testing.T) {
		r := NewFunctions(remember)
		r.Load(trampoline(0x1000))
		r.Load(bpf("prog", 0x1100, 0x40, 100*ms))
		assert.Equal(t, "bpf_trampoline_1", nameAt(r.Table(), 0x10ff, Now))
		assert.Equal(t, "prog", nameAt(r.Table(), 0x1100, Now))
		assert.Empty(t, nameAt(r.Table(), 0x1140, Now))
		r.Unload(r.At(0x1100), 200*ms, Slack{})
		r.Unload(r.At(0x1000), 300*ms, Slack{})
		assert.Empty(t, r.Table().Functions())
		assert.Equal(t, [NumOrigins]int{}, r.Table().Symbols())
	})
	t.Run("that was there", func(t *testing.T) {
		r := NewFunctions(remember)
		r.Load(bpf("prog", 0x1100, 0x40, 0))
		r.Load(trampoline(0x1000))
		assert.Equal(t, "bpf_trampoline_1", nameAt(r.Table(), 0x10ff, Now))
		assert.Equal(t, "prog", nameAt(r.Table(), 0x1100, Now))
		assert.Empty(t, nameAt(r.Table(), 0x1140, Now))
	})
}

func TestFunctionsForget(t *testing.T) {
	for name, tt := range map[string]struct {
		history History
		left    int
	}{
		"what is too old":  {History{TTL: 20 * time.Millisecond, MaxEntries: 100}, 2},
		"the first of all": {History{TTL: time.Hour, MaxEntries: 3}, 3},
		"everything":       {History{TTL: time.Hour}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewFunctions(tt.history)
			stays := bpf("stays", 0x4000, 0x100, 0)
			r.Load(stays)
			for i := range int64(10) {
				f := bpf(fmt.Sprint("f", i), 0x1000+0x40*uint64(i), 0x100, i*10*ms)
				r.Load(f)
				r.Unload(f, i*10*ms+5*ms, Slack{})
			}
			r.Expire(101 * ms)
			table := r.Table()
			assert.Equal(t, tt.left, table.History())
			segments := 0
			table.functions.all(func(*segment[*Function]) bool { segments++; return true })
			assert.LessOrEqual(t, segments, 1+3*tt.left, "nothing is left of what is forgotten")
			s := NewSnapshot(table)
			assert.Empty(t, nameAt(table, 0x1000, Instant(2*ms)))
			assert.True(t, s.Expired(0x1000, Instant(2*ms)))
			assert.False(t, s.Expired(0x1000, Instant(100*ms)))
			assert.False(t, s.Expired(0x4000, Instant(2*ms)))
			if oldest := 90 * ms; tt.left > 0 { // the last one was loaded then
				assert.Equal(t, "f9", nameAt(table, 0x1240+0x80, Instant(oldest)))
			}
		})
	}
}

// modelFunctions answers the slow and obvious way (section 5 of the contract).
type modelFunctions struct {
	all []*Function // by the time they were loaded

	// Of those that are forgotten, nothing is known but where and until when.
	low, high uint64
	until     int64
}

func (m *modelFunctions) forget(f *Function) {
	if m.high == 0 {
		m.low = f.Start
	}
	m.low, m.high, m.until = min(m.low, f.Start), max(m.high, f.End()), max(m.until, f.Valid.To+int64(f.Slack.After)*1000)
}

func (m *modelFunctions) owner(addr uint64, at Interval) *Function {
	var there []*Function // at the address, in the order of their times
	for _, f := range m.all {
		if f.Contains(addr) {
			there = append(there, f)
		}
	}
	slices.SortStableFunc(there, func(a, b *Function) int { return cmp.Compare(a.Valid.From, b.Valid.From) })
	type score struct{ sure, near, perhaps uint64 }
	var best *Function
	var most score
	candidates := 0
	wide := Interval{at.From - tolerance, at.To + tolerance}
	for i, f := range there {
		possible := Interval{f.Valid.From - int64(f.Slack.Before)*1000, math.MaxInt64}
		if f.Valid.To != math.MaxInt64 {
			possible.To = f.Valid.To + int64(f.Slack.After)*1000
		}
		if i > 0 {
			possible.From = max(possible.From, there[i-1].Valid.To)
		}
		if i+1 < len(there) {
			possible.To = min(possible.To, there[i+1].Valid.From)
		}
		sc := score{f.Valid.overlap(at), f.Valid.overlap(wide), possible.overlap(wide)}
		if sc.perhaps == 0 {
			continue
		}
		candidates++
		better := sc.sure > most.sure || sc.sure == most.sure && (sc.sure > 0 ||
			sc.near > most.near || sc.near == most.near && sc.perhaps >= most.perhaps)
		if best == nil || better {
			best, most = f, sc
		}
	}
	switch {
	case candidates > 1 && most.sure == 0 && most.near == 0:
		return nil // nobody knows
	case best != nil && !best.Valid.holds(at) && m.low <= addr && addr < m.high && at.From < m.until:
		return nil // it may have been another, that is forgotten
	}
	return best
}

// TestFunctionsAgreeWithModel loads and unloads at random, at addresses that are
// used again and again, and asks at random.
func TestFunctionsAgreeWithModel(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		history := History{TTL: time.Duration(50+r.IntN(500)) * time.Millisecond, MaxEntries: 20 + r.IntN(2000)}
		runModel(t, r, history, 1500)
	}
}

func runModel(t *testing.T, r *rand.Rand, history History, steps int) {
	t.Helper()
	record := NewFunctions(history)
	var model modelFunctions
	var gone int
	now := 1000 * ms
	type version struct {
		table     *Table
		model     []Function
		forgotten modelFunctions
	}
	var versions []version
	for step := range steps {
		now += r.Int64N(3 * ms)
		start := 0x1000 + 64*r.Uint64N(1<<uint(4+step%7))
		if live := record.Overlapping(start, start+256); len(live) > 0 {
			i := slices.IndexFunc(model.all, func(f *Function) bool {
				return f.Start == live[0].Start && f.Valid.To == math.MaxInt64
			})
			slack := NewSlack(0, time.Duration(r.IntN(2))*3*time.Millisecond)
			record.Unload(live[0], now, slack)
			past := *model.all[i]
			past.Valid.To, past.Slack = now, slack
			model.all = append(slices.Delete(model.all, i, i+1), &past)
			gone++
		} else {
			f := bpf(fmt.Sprint("f", step), start, uint32(64*(1+r.IntN(4))-r.IntN(32)), now)
			record.Load(f)
			model.all = append(model.all, f)
		}
		record.Expire(now)
		stay := false // those that went first go first
		model.all = slices.DeleteFunc(model.all, func(f *Function) bool {
			if f.Valid.To == math.MaxInt64 || stay {
				return false
			}
			stay = gone <= history.MaxEntries && f.Slack.possible(f.Valid).To >= now-int64(history.TTL)
			if !stay {
				gone--
				model.forget(f)
			}
			return !stay
		})
		table := record.Table()
		for range 5 {
			from := now - r.Int64N(400*ms)
			at := Interval{From: from, To: from + 1 + r.Int64N(50*ms)}
			if r.IntN(2) == 0 {
				at = Instant(from)
			}
			addr := 0x1000 + r.Uint64N(1<<uint(10+r.IntN(8)))
			want := model.owner(addr, at)
			got, ok := table.Lookup(addr, at)
			require.Equal(t, want != nil, ok, "step %d: %#x at %v: want %+v, got %+v", step, addr, at, want, got.Function)
			if ok {
				require.Equal(t, want.Name(), got.Name().Name, "step %d: %#x at %v: want %+v, got %+v", step, addr, at, want, got.Function)
			}
		}
		require.Equal(t, gone, table.History())
		if step%500 == 0 {
			v := version{table: table, forgotten: model}
			for _, f := range model.all {
				v.model = append(v.model, *f)
			}
			versions = append(versions, v)
		}
	}
	for _, v := range versions { // as they were
		m := v.forgotten
		m.all = nil
		for i := range v.model {
			m.all = append(m.all, &v.model[i])
		}
		for range 200 {
			addr, at := 0x1000+r.Uint64N(1<<16), Instant(now-r.Int64N(now))
			want := ""
			if f := m.owner(addr, at); f != nil {
				want = f.Name()
			}
			require.Equal(t, want, nameAt(v.table, addr, at))
		}
	}
}

func TestTree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var tr tree[*Function]
	tr.share()
	want := map[uint64]*Function{}
	for step := range 60_000 {
		start := r.Uint64N(1 << uint(4+step/4_500))
		if r.IntN(2) == 0 || step > 45_000 {
			tr.remove(start)
			delete(want, start)
		} else {
			f := &Function{Start: start, Size: 1}
			tr.put(segment[*Function]{start: start, end: start + 1, live: f})
			want[start] = f
		}
		if step%5_000 == 0 {
			checkTree(t, &tr, want)
			tr.share()
		}
	}
	for start := range want {
		tr.remove(start)
		delete(want, start)
	}
	checkTree(t, &tr, want)
	assert.Nil(t, tr.root)
}

func TestTreeAtTheLastAddress(t *testing.T) {
	r := NewFunctions(remember)
	r.Load(bpf("last", math.MaxUint64-0x10, 0x10, 0))
	assert.Equal(t, "last", r.At(math.MaxUint64-1).Name())
	assert.Nil(t, r.At(math.MaxUint64))
	r.Load(bpf("none", math.MaxUint64, 1, 0)) // its end is no address
	assert.Nil(t, r.At(math.MaxUint64))
	assert.Len(t, r.All(), 1)
}

func checkTree(t *testing.T, tr *tree[*Function], want map[uint64]*Function) {
	t.Helper()
	got := map[uint64]*Function{}
	last := int64(-1)
	tr.root.each(0, math.MaxUint64, func(s *segment[*Function]) bool {
		require.Greater(t, int64(s.start), last)
		last = int64(s.start)
		got[s.start] = s.live
		require.Same(t, s, tr.root.floor(s.start))
		return true
	})
	require.Len(t, got, len(want))
	for start, f := range want {
		require.Same(t, f, got[start])
	}
}

func TestFunctionTag(t *testing.T) {
	for name, want := range map[string]string{
		"bpf_prog_0123456789abcdef":           "0123456789abcdef",
		"bpf_prog_0123456789abcdef_kprobe_do": "0123456789abcdef",
		"bpf_prog_0123":                       "",
		"bpf_prog_0123456789abcdefg":          "",
		"bpf_trampoline_6442482157":           "",
	} {
		assert.Equal(t, want, bpf(name, 1, 1, 0).Tag(), name)
	}
}

func TestLines(t *testing.T) {
	var b LinesBuilder
	b.Add(0x20, 12<<10|3, "b.h")
	b.Add(0x10, 10<<10|1, "a.c")
	b.Add(0x18, 10<<10|1, "a.c") // says nothing new
	b.Add(0x20, 13<<10|4, "b.h") // the last counts
	lines := b.Build()
	require.Equal(t, 2, lines.Len())
	for offset, want := range map[uint32]Position{
		0x10: {"a.c", 10, 1}, 0x1f: {"a.c", 10, 1}, 0x20: {"b.h", 13, 4}, math.MaxUint32: {"b.h", 13, 4},
	} {
		assert.Equal(t, want, lines.Position(lines.Find(offset)))
	}
	assert.Equal(t, -1, lines.Find(0xf))
	assert.Nil(t, b.Build())
	assert.Equal(t, -1, (*Lines)(nil).Find(0))
}
