package symtab

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// answer is the name that a snapshot gives an address, with a mark if that is not
// settled.
func answer(s *Snapshot, addr uint64, at Interval) string {
	sym, ok, settled := s.LookupSettled(addr, at)
	name := "nobody"
	if ok {
		name = sym.Name().System
	}
	if !settled {
		name += "?"
	}
	return name
}

// TestPageThatIsNeverWithdrawn: a module that is loaded where it was has its addresses.
func TestPageThatIsNeverWithdrawn(t *testing.T) {
	r := NewFunctions(remember)
	r.Load(NewFunction(OriginOOL, "kprobe_insn_page", 0x1000, 0x1000, Since(1000*ms)))
	s := NewSnapshot(r.Table(), NewTable([]*Module{module(t, "m", 0x1000, 0x1100, Since(100_000*ms))}))
	assert.Equal(t, "m_init", answer(s, 0x1004, Now))
	assert.Equal(t, "m_init", answer(s, 0x1004, Instant(200_000*ms)))
	assert.Equal(t, "kprobe_insn_page", answer(s, 0x1004, Instant(50_000*ms)))
}

func TestFunctionBeginsInAModule(t *testing.T) {
	r := NewFunctions(remember)
	r.Load(bpf("prog", 0x1040, 0x20, 1000*ms)) // behind the last symbol, before the end that is guessed
	s := NewSnapshot(r.Table(), NewTable([]*Module{module(t, "m", 0x1000, 0x1100, Always)}))
	assert.Equal(t, "m_init", answer(s, 0x1004, Now))
	assert.Equal(t, "prog", answer(s, 0x1044, Now))
	assert.Equal(t, "nobody", answer(s, 0x1060, Now))
	_, ok := s.ModuleAt(0x1060, Now)
	assert.False(t, ok)
	_, ok = s.ModuleAt(0x1030, Now)
	assert.True(t, ok)
}

// TestGuessedFunctionEndsAtAModule: no module is a part of it, nor what comes after.
func TestGuessedFunctionEndsAtAModule(t *testing.T) {
	r := NewFunctions(remember)
	guess := bpf("bpf_prog_0123456789abcdef_x", 0x1000, 128<<10, math.MinInt64)
	guess.Guessed = true
	r.Load(guess)
	s := NewSnapshot(r.Table(), NewTable([]*Module{module(t, "m", 0x3000, 0x3100, Always)}))
	for addr, want := range map[uint64]string{
		0x1004: "bpf_prog_0123456789abcdef_x", 0x2fff: "bpf_prog_0123456789abcdef_x", 0x3004: "m_init", 0x3200: "nobody",
	} {
		for _, at := range []Interval{Now, Instant(5), Always} {
			assert.Equal(t, want, answer(s, addr, at), "%#x", addr)
		}
		sym, _, _ := s.LookupAlways(addr)
		assert.Equal(t, want != "nobody", sym != (Symbol{}), "%#x", addr)
	}
}

// TestFunctionAndModuleInAnInterval: between tables, time decides as within one.
func TestFunctionAndModuleInAnInterval(t *testing.T) {
	r := NewFunctions(remember)
	f := bpf("f", 0x1000, 0x100, 1000*ms)
	r.Load(f)
	r.Unload(f, 2000*ms, Slack{})
	m := module(t, "m", 0x1000, 0x1100, Since(2100*ms))
	s := NewSnapshot(r.Table(), NewTable([]*Module{m}))
	assert.Equal(t, "m_init?", answer(s, 0x1004, Interval{1000 * ms, 61_000 * ms}))
	assert.Equal(t, "f?", answer(s, 0x1004, Interval{1000 * ms, 2200 * ms}))
	m = module(t, "m", 0x1000, 0x1100, Since(2003*ms))
	s = NewSnapshot(r.Table(), NewTable([]*Module{m}))
	assert.Equal(t, "m_init?", answer(s, 0x1004, Instant(2004*ms)), "f went a moment ago")
}

// TestWhatIsLoadedWasNotThereBefore: not while another certainly was.
func TestWhatIsLoadedWasNotThereBefore(t *testing.T) {
	r := NewFunctions(remember)
	f := bpf("f", 0x1000, 0x100, 1000*ms)
	r.Load(f)
	r.Unload(f, 2000*ms, Slack{})
	r.Load(NewFunction(OriginTrampoline, "t", 0x1000, 0x100, Always))
	assert.Equal(t, "f", nameAt(r.Table(), 0x1004, Instant(1500*ms)))
	assert.Equal(t, "t", nameAt(r.Table(), 0x1004, Instant(2500*ms)))
}

// TestMajorityThatIsForgotten: who had less of an interval than one that is forgotten
// may have had is not the answer.
func TestMajorityThatIsForgotten(t *testing.T) {
	r := NewFunctions(History{TTL: time.Hour, MaxEntries: 1})
	a := bpf("a", 0x1000, 0x100, 0)
	r.Load(a)
	r.Unload(a, 50_000*ms, Slack{})
	other := bpf("other", 0x9000, 0x100, 0)
	r.Load(other)
	r.Unload(other, 50_500*ms, Slack{})
	r.Expire(51_000 * ms)
	r.Load(bpf("b", 0x1000, 0x100, 50_003*ms))
	s := NewSnapshot(r.Table())
	assert.Equal(t, "nobody?", answer(s, 0x1004, Interval{0, 60_000 * ms}))
	assert.Equal(t, "nobody?", answer(s, 0x1004, Instant(49_999*ms)))
	assert.Equal(t, "b", answer(s, 0x1004, Interval{50_100 * ms, 60_000 * ms}))
}

// TestForgottenFunctionsAreFreed, also while another is at their address.
func TestForgottenFunctionsAreFreed(t *testing.T) {
	r := NewFunctions(History{TTL: time.Second, MaxEntries: 1 << 16})
	const n = 2000
	freed := make(chan int, n)
	for i := range int64(n) {
		var b LinesBuilder
		b.Add(0, 1<<10, "f.c")
		lines := b.Build()
		runtime.AddCleanup(lines, func(int) { freed <- 1 }, 0)
		f := bpf("p", 0x1000, 0x100, i*ms).Of(nil, lines)
		r.Load(f)
		r.Unload(f, i*ms+ms/2, Slack{})
	}
	r.Load(bpf("live", 0x1000, 0x100, n*ms))
	r.Expire(1e15)
	table := r.Table()
	assert.Eventually(t, func() bool {
		runtime.GC()
		return len(freed) >= n-2 // the last may still be on the stack
	}, 10*time.Second, 10*time.Millisecond)
	runtime.KeepAlive(table)
	runtime.KeepAlive(r)
}

// counted is a piece that counts how often it is looked at.
type counted struct {
	valid Interval
	slack Slack
	looks *int
}

func (c *counted) lifetime() (Interval, Slack) { *c.looks++; return c.valid, c.slack }
func (c *counted) span() (uint64, uint32)      { return 0x1000, 0x100 }

// TestLookupDoesNotGoThroughTheHistory, however uncertain one of it is.
func TestLookupDoesNotGoThroughTheHistory(t *testing.T) {
	looks := 0
	s := segment[*counted]{start: 0x1000, end: 0x1100}
	for i := range int64(50_000) {
		c := &counted{valid: Interval{i * 10 * ms, i*10*ms + 5*ms}, looks: &looks}
		if i%1000 == 0 {
			c.slack = NewSlack(time.Hour, time.Hour)
		}
		s.dead = append(s.dead, c)
	}
	for _, at := range []int64{0, 100_002, 250_001, 499_000, 700_000} {
		looks = 0
		s.owner(Instant(at * ms))
		assert.Less(t, looks, 60, "%d ms", at)
	}
}
