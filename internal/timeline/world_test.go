// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// world makes the same records in a model and in two histories: one of modules, and one of
// everything else.
type world struct {
	*testing.T
	*rand.Rand
	model     model
	histories []*Builder
	now       int64
	loads     int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), now: 1000 * ms}
	for range 2 {
		limits := Limits{TTL: time.Duration(20+w.IntN(300)) * time.Millisecond, MaxEntries: w.IntN(1 << w.IntN(8))}
		s := &modelSource{limits: limits, certain: math.MinInt64}
		w.model, w.histories = append(w.model, s), append(w.histories, NewBuilder(limits))
		w.blind(s, Interval{math.MinInt64, w.now})
	}
	return w
}

func (w *world) history(s *modelSource) *Builder { return w.histories[slices.Index(w.model, s)] }

const (
	areaStart = 0x10000
	areaSize  = 0x800
)

// step makes a random change.
func (w *world) step() {
	w.now += w.Int64N([]int64{ms / 10, 3 * ms, 12 * ms}[w.IntN(3)])
	s := w.model[w.IntN(2)]
	switch what := w.IntN(20); {
	case what < 8:
		w.load(s)
	case what < 13:
		w.unload(s)
	case what < 15:
		w.blind(s, Interval{w.now - w.Int64N(20*ms), w.now - w.Int64N(10*ms)})
	case what < 16:
		s.evict(w.now - int64(s.limits.TTL))
		w.history(s).Evict(w.now)
	default:
		s.certain = max(s.certain, w.now-w.Int64N(5*ms))
		w.history(s).SetCertain(s.certain)
	}
}

func (w *world) blind(s *modelSource, i Interval) {
	if i.From < i.To {
		s.blind = append(s.blind, i)
	}
	w.history(s).AddBlind(i)
}

// load loads something, mostly now.
func (w *world) load(s *modelSource) {
	w.loads++
	l := &load{start: areaStart + 64*w.Uint64N(areaSize/64), from: w.now}
	l.end = l.start + 1 + w.Uint64N(256)
	if w.IntN(8) == 0 {
		l.from -= w.Int64N(50 * ms) // late
	}
	if s == w.model[0] {
		w.loadModule(s, l)
	} else {
		w.loadFunction(s, l)
	}
}

func (w *world) loadModule(s *modelSource, l *load) {
	name, id := fmt.Sprint("m", w.IntN(3)), [...]string{"", "id1", "id2"}[w.IntN(3)]
	l.name, l.isModule, l.cutShort = name+"_init", true, true
	l.what = fmt.Sprint(name, l.start, id)
	if id == "" {
		l.what = fmt.Sprint(name, w.loads)
	}
	m := newText(w, OriginModule, name, symtab.TextInfo{
		BuildID: id, Base: l.start, Start: l.start, End: l.end,
	}, Since(l.from), line{l.start, 't', l.name})
	s.load(l)
	w.history(s).Load(m)
}

func (w *world) loadFunction(s *modelSource, l *load) {
	origin := []Origin{OriginBPF, OriginBPF, OriginTrampoline, OriginOOL}[w.IntN(4)]
	l.name = []string{"", "a", "b"}[w.IntN(3)]
	if origin == OriginTrampoline {
		l.trampoline, l.cutShort, l.end = true, true, l.start+512
	}
	m := NewFunction(origin, l.name, l.start, uint32(l.end-l.start), l.from)
	if origin == OriginBPF {
		m = m.WithProgram(&Program{ID: uint32(w.IntN(3))}, nil)
	}
	if l.what = fmt.Sprint(origin, l.name); m.Program != nil {
		l.what += fmt.Sprint(" ", m.Program.ID)
	}
	s.load(l)
	w.history(s).Load(m)
}

func (w *world) unload(s *modelSource) {
	there := slices.DeleteFunc(slices.Clone(s.loads), func(l *load) bool { return !l.isThere() })
	if len(there) == 0 {
		return
	}
	l := there[w.IntN(len(there))]
	at := w.now - w.Int64N(4*ms)
	s.unload(l, at)
	h := w.history(s)
	h.Unload(h.At(l.start), at)
	if w.IntN(3) == 0 { // the same program again, sometimes at once
		again := *l
		again.unloaded, again.from = 0, l.to
		if again.from += w.Int64N(2) * w.Int64N(3*ms); h.At(l.start) == nil && !again.cutShort {
			m := NewFunction(OriginBPF, again.name, again.start, uint32(again.end-again.start), again.from)
			again.what = fmt.Sprint(OriginBPF, again.name, 9)
			s.load(&again)
			h.Load(m.WithProgram(&Program{ID: 9}, nil))
		}
	}
}

// interval returns a random interval to ask for.
func (w *world) interval() Interval {
	from := w.now + 10*ms - w.Int64N(w.Int64N(400*ms)+1)
	i := Interval{from, from + 1 + w.Int64N([]int64{1, 4 * ms, 60 * ms}[w.IntN(3)])}
	switch w.IntN(50) {
	case 0:
		i.From = math.MinInt64 / 2
	case 1:
		i.To = math.MaxInt64 / 4
	}
	return i
}

func (w *world) check(s *Snapshot, m model) {
	addr, during := areaStart-64+w.Uint64N(areaSize+1024), w.interval()
	hit, span := s.At(addr, during)
	identity, name, reason := m.answer(addr, during)
	if hit.Reason != reason { // without require, which would take most of the time
		w.Fatalf("%#x in %v: %v, want %v, %q; near: %+v", addr, during, hit.Reason, reason, identity, m.near(addr, during.From, during.To))
	}
	w.checkHit(hit, addr, name)
	if span.IsEmpty() && !during.IsEmpty() {
		require.Nil(w, hit.Image, "an answer holds for all of its interval")
		require.Equal(w, Interval{}, span)
		return
	}
	require.True(w, span.Holds(during))
	w.same(s, addr, hit, during)
	w.same(s, addr, hit, Interval{max(span.From, w.now-600*ms), min(span.To, w.now+300*ms)})
}

// same checks that every interval within all has the same answer.
func (w *world) same(s *Snapshot, addr uint64, hit Hit, all Interval) {
	if all.From >= all.To {
		return
	}
	for range 3 {
		part := Interval{From: all.From + w.Int64N(max(all.To-all.From, 1))}
		part.To = part.From + 1 + w.Int64N(max(all.To-part.From, 1))
		at, _ := s.At(addr, part)
		if at.Reason != hit.Reason || hit.Image != at.Image && !sameAnswer(hit.Image, at.Image) {
			w.Fatalf("%#x in %v of %v: %+v, want %+v", addr, part, all, at, hit)
		}
	}
}

func (w *world) checkHit(hit Hit, addr uint64, name string) {
	require.Equal(w, hit.Reason == ReasonNone, hit.Image != nil)
	if name == "" {
		require.False(w, hit.Symbol.Exists())
		return
	}
	require.Equal(w, name, hit.Name().System)
	require.True(w, hit.Symbol.Start <= addr && addr < hit.Symbol.End() && hit.Image.Contains(addr))
	require.Equal(w, hit.Image.Lookup(addr), hit.Symbol)
}

// TestContract_5_AgreesWithModel verifies random lookups after random changes against the model, in
// the current tables and in earlier ones.
func TestContract_5_AgreesWithModel(t *testing.T) {
	reasons := map[Reason]int{}
	for seed := range uint64(rounds(2000)) {
		w := newWorld(t, seed)
		var early *Snapshot
		var earlyModel model
		for step := range 70 {
			w.step()
			s := NewSnapshot(w.histories[0].Table(), w.histories[1].Table())
			for range 6 {
				w.check(s, w.model)
			}
			if step == 40 {
				early, earlyModel = s, w.model.clone()
			}
			hit, _ := s.At(areaStart+w.Uint64N(areaSize), w.interval())
			reasons[hit.Reason]++
		}
		for range 50 {
			w.check(early, earlyModel)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for r := ReasonNone; r <= ReasonUnresolved; r++ {
		require.Greater(t, reasons[r], rounds(1000), "%v: too rare for a test", reasons)
	}
}
