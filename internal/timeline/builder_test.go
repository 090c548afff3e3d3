// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = int64(time.Millisecond)

// remember has limits that no test here reaches.
var remember = Limits{TTL: time.Hour, MaxEntries: 1 << 20}

func bpf(name string, start uint64, size uint32, since int64) *Image {
	return NewFunction(OriginBPF, name, start, size, since)
}

func trampoline(name string, start uint64, since int64) *Image {
	return NewFunction(OriginTrampoline, name, start, 0x1000, since)
}

// newHistory returns a history that misses nothing until an instant.
func newHistory(l Limits, certain int64) *Builder {
	h := NewBuilder(l)
	h.SetCertain(certain)
	return h
}

// answer returns the name that a snapshot gives an address, or the reason why it gives none.
func answer(s *Snapshot, addr uint64, during Interval) string {
	hit, _ := s.At(addr, during)
	switch {
	case hit.Reason != ReasonNone:
		return [...]string{ReasonAmbiguous: "ambiguous", ReasonUnobserved: "unobserved", ReasonUnresolved: "unresolved"}[hit.Reason]
	case !hit.Symbol.Exists():
		return hit.Image.Name() + " without a symbol"
	}
	return hit.Name().System
}

// symbols returns the number of symbols of each origin.
func symbols(t *Table) (n [NumOrigins]int) {
	for origin, count := range t.Count() {
		n[origin] = count.Symbols
	}
	return n
}

// ask looks an address up in the table of a history.
func ask(h *Builder, addr uint64, during Interval) string {
	return answer(NewSnapshot(h.Table()), addr, during)
}

func TestContract_5_4_TheAnswer(t *testing.T) {
	h := newHistory(remember, 1000*ms)
	h.AddBlind(Interval{From: math.MinInt64, To: 50 * ms})
	h.AddBlind(Interval{From: 600 * ms, To: 700 * ms})
	a := bpf("a", 0x1000, 0x100, 100*ms)
	h.Load(a)
	before := NewSnapshot(h.Table())
	h.Unload(a, 200*ms)
	h.Load(bpf("b", 0x1000, 0x80, 300*ms))
	for _, tt := range []struct {
		during Interval
		want   string
	}{
		{Instant(40 * ms), "unobserved"},
		{Instant(90 * ms), "unresolved"},
		{Instant(99 * ms), "unresolved"}, // not yet certain
		{Instant(100 * ms), "a"},
		{Interval{100 * ms, 200 * ms}, "a"},
		{Interval{99 * ms, 150 * ms}, "unresolved"}, // not all of it
		{Interval{40 * ms, 150 * ms}, "unobserved"},
		{Instant(200 * ms), "unresolved"}, // there is no tolerance
		{Instant(250 * ms), "unresolved"},
		{Interval{150 * ms, 295 * ms}, "unresolved"},
		{Interval{150 * ms, 295*ms + 1}, "ambiguous"}, // b is near
		{Instant(304 * ms), "b"},
		{Interval{204 * ms, 400 * ms}, "ambiguous"}, // a is near
		{Interval{205 * ms, 400 * ms}, "unresolved"},
		{Interval{300 * ms, 1000 * ms}, "b"}, // even over blind time
		{Interval{300 * ms, 1000*ms + 1}, "unobserved"},
		{Present, "b"},
		{Always, "ambiguous"},
	} {
		assert.Equal(t, tt.want, ask(h, 0x1010, tt.during), "%v", tt.during)
	}
	assert.Equal(t, "a", ask(h, 0x10f0, Instant(150*ms)))
	assert.Equal(t, "unresolved", ask(h, 0x10f0, Instant(400*ms)), "b is shorter")
	assert.Equal(t, "unobserved", ask(h, 0x10f0, Instant(650*ms)))
	assert.Equal(t, "unresolved", ask(h, 0x10f0, Present))
	assert.Equal(t, "a", answer(before, 0x1010, Present), "a table does not change")
}

// TestNeighboursAreAmbiguous verifies that within 5 ms of another image, neither has a name.
func TestNeighboursAreAmbiguous(t *testing.T) {
	h := newHistory(remember, 1000*ms)
	h.Load(bpf("a", 0x1000, 64, 100*ms))
	h.Unload(h.At(0x1000), 200*ms)
	h.Load(bpf("b", 0x1000, 64, 202*ms))
	for at, want := range map[int64]string{
		196: "a", 197: "ambiguous", 201: "ambiguous", 203: "ambiguous", 204: "ambiguous", 205: "b",
	} {
		assert.Equal(t, want, ask(h, 0x1000, Instant(at*ms)), "%d ms", at)
	}
}

// TestOneLoadThatIsRecordedTwice verifies that two records of a load count as one if they adjoin,
// but not over a gap.
func TestOneLoadThatIsRecordedTwice(t *testing.T) {
	program := &Program{ID: 7}
	h := newHistory(remember, 1000*ms)
	for _, i := range []Interval{{100 * ms, 200 * ms}, {200 * ms, 300 * ms}, {301 * ms, 400 * ms}, {400 * ms, 500 * ms}} {
		h.Load(bpf("a", 0x1000, 64, i.From).WithProgram(program, nil))
		h.Unload(h.At(0x1000), i.To)
	}
	for i, want := range map[Interval]string{
		{150 * ms, 250 * ms}: "a", {250 * ms, 350 * ms}: "unresolved", {302 * ms, 450 * ms}: "a", {299 * ms, 300 * ms}: "a",
	} {
		assert.Equal(t, want, ask(h, 0x1000, i), "%v", i)
	}
	h.Load(bpf("a", 0x1000, 64, 500*ms).WithProgram(&Program{ID: 8}, nil))
	assert.Equal(t, "ambiguous", ask(h, 0x1000, Instant(499*ms)), "the same name, but another program")
}

// TestDisplacedImage verifies that a displaced image, whose unload was not recorded, ends with the
// last certain time.
func TestDisplacedImage(t *testing.T) {
	h := newHistory(remember, 150*ms)
	h.Load(NewFunction(OriginOOL, "kprobe_insn_page", 0x1000, 0x1000, 100*ms))
	h.Load(bpf("prog", 0x1200, 0x100, 300*ms))
	h.SetCertain(400 * ms)
	h.AddBlind(Interval{From: 150 * ms, To: 300 * ms})
	for i, want := range map[Interval]string{
		Instant(100 * ms): "kprobe_insn_page", {100 * ms, 150 * ms}: "kprobe_insn_page",
		Instant(200 * ms): "unobserved", {100 * ms, 200 * ms}: "unobserved", Instant(300 * ms): "prog",
	} {
		assert.Equal(t, want, ask(h, 0x1200, i), "%v", i)
	}
	assert.Equal(t, "unresolved", ask(h, 0x1000, Present))
	assert.Equal(t, [NumOrigins]int{OriginBPF: 1}, symbols(h.Table()))
}

// TestWhatIsLoadedWasNotThereBefore verifies that an image was not loaded before the image at its
// place was unloaded, whatever its record says.
func TestWhatIsLoadedWasNotThereBefore(t *testing.T) {
	h := newHistory(remember, 3000*ms)
	h.Load(bpf("a", 0x1000, 0x100, 1000*ms))
	h.Unload(h.At(0x1000), 2000*ms)
	h.Load(bpf("late", 0x1000, 0x100, 500*ms))
	assert.Equal(t, "unresolved", ask(h, 0x1004, Instant(600*ms)))
	assert.Equal(t, "a", ask(h, 0x1004, Instant(1500*ms)))
	assert.Equal(t, "late", ask(h, 0x1004, Instant(2500*ms)))
}

// TestNoLifetimeIsEmpty verifies that an image whose records have one time existed, and was near
// the image that followed.
func TestNoLifetimeIsEmpty(t *testing.T) {
	h := newHistory(remember, 1000*ms)
	h.Load(bpf("a", 0x1000, 64, 100*ms))
	h.Unload(h.At(0x1000), 100*ms)
	h.Load(bpf("b", 0x1000, 64, 101*ms))
	assert.Equal(t, "ambiguous", ask(h, 0x1000, Instant(100*ms)))
	assert.Equal(t, "ambiguous", ask(h, 0x1000, Instant(103*ms)))
	assert.Equal(t, "b", ask(h, 0x1000, Instant(106*ms)))
}

func TestTrampolineEndsWhereAnImageBegins(t *testing.T) {
	t.Run("loaded later", func(t *testing.T) {
		h := newHistory(remember, 1000*ms)
		h.Load(trampoline("t", 0x1000, 50*ms))
		h.Load(bpf("prog", 0x1100, 0x40, 100*ms))
		assert.Equal(t, "t", ask(h, 0x10ff, Instant(60*ms)))
		assert.Equal(t, "unresolved", ask(h, 0x1100, Instant(60*ms)), "it never was longer")
		assert.Equal(t, "prog", ask(h, 0x1100, Present))
		assert.Equal(t, "unresolved", ask(h, 0x1140, Present))
		h.Unload(h.At(0x1100), 200*ms)
		h.Unload(h.At(0x1000), 300*ms)
		assert.Empty(t, h.Loaded())
		assert.Equal(t, [NumOrigins]int{}, symbols(h.Table()))
	})
	t.Run("loaded before", func(t *testing.T) {
		h := newHistory(remember, 1000*ms)
		h.Load(bpf("prog", 0x1100, 0x40, 0))
		h.Load(trampoline("t", 0x1000, 50*ms))
		assert.Equal(t, "t", ask(h, 0x10ff, Present))
		assert.Equal(t, "prog", ask(h, 0x1100, Present))
		assert.Equal(t, "unresolved", ask(h, 0x1140, Present))
	})
	t.Run("from another source", func(t *testing.T) {
		h := newHistory(remember, 1000*ms)
		h.Load(trampoline("t1", 0x0800, 50*ms))
		h.Unload(h.At(0x800), 100*ms)
		h.Load(trampoline("t2", 0x0800, 101*ms))
		s := NewSnapshot(h.Table(), NewTable(module(t, "m", 0x1000, 0x1100, Since(0))))
		assert.Equal(t, "t1", answer(s, 0x0fff, Instant(60*ms)))
		assert.Equal(t, "m_init", answer(s, 0x1000, Instant(60*ms)))
		assert.Equal(t, "m_init", answer(s, 0x1000, Instant(100*ms)))
	})
	t.Run("but not before the image is loaded", func(t *testing.T) {
		h := newHistory(remember, 1000*ms)
		h.Load(trampoline("t", 0x0800, 50*ms))
		h.Unload(h.At(0x800), 100*ms)
		s := NewSnapshot(h.Table(), NewTable(module(t, "m", 0x1000, 0x1100, Since(101*ms))))
		assert.Equal(t, "t", answer(s, 0x1000, Instant(60*ms)))
		assert.Equal(t, "m_init", answer(s, 0x1000, Instant(103*ms)), "how far it reached is not known")
	})
}

// TestReplaceByAnotherLength verifies that an image which is put in the place of another ends where the next one begins,
// and that one without addresses is not recorded.
func TestReplaceByAnotherLength(t *testing.T) {
	h := newHistory(remember, 1000*ms)
	short := trampoline("a", 0x1000, 0)
	short.End = 0x1100
	h.Load(short)
	h.Load(bpf("b", 0x1800, 0x100, 0))
	h.Replace(short, trampoline("a", 0x1000, 0))
	long := h.At(0x1000)
	assert.Equal(t, uint64(0x1800), long.End)
	assert.Equal(t, "b", ask(h, 0x1800, Instant(500*ms)))
	empty := *long
	empty.End = empty.Start
	h.Replace(long, &empty)
	assert.Nil(t, h.At(0x1000))
	assert.Len(t, h.Loaded(), 1)
}
