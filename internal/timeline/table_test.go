// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

func module(t testing.TB, name string, start, end uint64, lifetime Interval) *Image {
	t.Helper()
	return newText(t, OriginModule, name, symtab.TextInfo{
		BuildID: "id-" + name, FileID: "file-" + name, Base: start, Start: start, End: end,
	}, lifetime, line{start, 't', name + "_init"}, line{start + 8, 't', name + "_exit"}, line{start + 12, 'd', "data"})
}

func TestAtOfATable(t *testing.T) {
	s := NewSnapshot(NewTable(
		module(t, "c", 0x3000, 0x3100, Always),
		module(t, "a", 0x1000, 0x1100, Always),
		module(t, "b", 0x1100, 0x1200, Always), // right after a
	))
	for addr, want := range map[uint64]string{
		0x0fff: "unresolved", 0x1000: "a_init", 0x1008: "a_exit", 0x100b: "a_exit", 0x100c: "a without a symbol",
		0x10ff: "a without a symbol", 0x1100: "b_init", 0x11ff: "b without a symbol", 0x1200: "unresolved",
		0x2fff: "unresolved", 0x3008: "c_exit", 0x3100: "unresolved", 0: "unresolved", math.MaxUint64: "unresolved",
	} {
		assert.Equal(t, want, answer(s, addr, Always), "%#x", addr)
	}
	var names []string
	for _, m := range s.Tables()[0].Loaded() {
		names = append(names, m.Name())
	}
	assert.Equal(t, []string{"a", "b", "c"}, names)
}

// TestModuleEndsWhereAnImageBegins verifies that a module that was announced longer than it is ends
// where another image begins.
func TestModuleEndsWhereAnImageBegins(t *testing.T) {
	long := newText(t, OriginModule, "long", symtab.TextInfo{Start: 0x1000, End: 0x3000}, Since(0),
		line{0x1000, 't', "first"}, line{0x1800, 't', "last"})
	h := newHistory(remember, 10*ms)
	h.Load(long)
	h.Load(module(t, "next", 0x2000, 0x2100, Since(5*ms)))
	s := NewSnapshot(h.Table())
	for addr, want := range map[uint64]string{
		0x1fff: "last", 0x2000: "next_init", 0x20ff: "next without a symbol", 0x2100: "unresolved", 0x2fff: "unresolved",
	} {
		assert.Equal(t, want, answer(s, addr, Present), "%#x", addr)
	}
	hit, _ := s.At(0x1900, Present)
	last := hit.Symbol
	assert.Equal(t, [2]uint64{0x1800, 0x2000}, [2]uint64{last.Start, last.End()}, "a symbol ends with its image")

	m, _ := s.Module("long", Present)
	require.NotNil(t, m)
	assert.Equal(t, uint64(0x2000), m.End)
	h.Unload(h.At(0x1000), 7*ms)
	_, reason := NewSnapshot(h.Table()).Module("long", Present)
	assert.Equal(t, ReasonUnresolved, reason)
}

// TestCoreGap verifies that what lies between the text and the init text does not belong to the
// core kernel.
func TestCoreGap(t *testing.T) {
	core := newText(t, OriginKernel, KernelName, symtab.TextInfo{
		Base: text, Start: text, End: text + 0x3000, Gap: symtab.Range{Start: text + 0x1000, End: text + 0x2000},
	}, Always, line{text, 'T', "f"}, line{text + 0x1000, 'T', "_etext"}, line{text + 0x2000, 'T', "g"})
	h := newHistory(remember, 10*ms)
	h.Load(bpf("prog", text+0x1800, 64, 0))
	s := NewSnapshot(NewTable(core), h.Table())
	for offset, want := range map[uint64]string{0xfff: "f", 0x1000: "unresolved", 0x1800: "prog", 0x2000: "g", 0x3000: "unresolved"} {
		assert.Equal(t, want, answer(s, text+offset, Present), "%#x", offset)
	}
	assert.Same(t, core, s.Core())
}

// TestNamed verifies that a name means a module only if it means one load in the queried interval.
func TestNamed(t *testing.T) {
	h := newHistory(remember, 1000*ms)
	load := func(name string, start uint64, lifetime Interval) {
		h.Load(module(t, name, start, start+0x100, Since(lifetime.From)))
		if lifetime.To != Forever {
			h.Unload(h.At(start), lifetime.To)
		}
	}
	load("m", 0x1000, Interval{100 * ms, 200 * ms})
	load("m", 0x2000, Interval{202 * ms, 300 * ms})
	load("m", 0x1000, Interval{400 * ms, 500 * ms})
	load("m", 0x1000, Interval{500 * ms, 600 * ms}) // the same build at the same address
	load("other", 0x8000, Interval{700 * ms, 800 * ms})
	load("m", 0x3000, Since(900*ms))
	h.AddBlind(Interval{From: math.MinInt64, To: 50 * ms})
	s := NewSnapshot(NewTable(newCore(t, 0x10)), h.Table())
	for _, tt := range []struct {
		during Interval
		want   uint64
		reason Reason
	}{
		{Instant(150 * ms), 0x1000, ReasonNone},
		{Instant(199 * ms), 0, ReasonAmbiguous},
		{Instant(250 * ms), 0x2000, ReasonNone},
		{Interval{350 * ms, 450 * ms}, 0, ReasonUnresolved},
		{Interval{450 * ms, 550 * ms}, 0x1000, ReasonNone},
		{Instant(40 * ms), 0, ReasonUnobserved},
		{Instant(950 * ms), 0x3000, ReasonNone},
		{Instant(1000 * ms), 0, ReasonUnobserved},
		{Present, 0x3000, ReasonNone},
	} {
		m, reason := s.Module("m", tt.during)
		assert.Equal(t, tt.reason, reason, "%v", tt.during)
		if assert.Equal(t, tt.want != 0, m != nil, "%v", tt.during) && m != nil {
			assert.Equal(t, tt.want, m.Start, "%v", tt.during)
		}
	}
	assert.True(t, s.IsModule("other"))
	assert.False(t, s.IsModule("another"))
	assert.False(t, s.IsModule(KernelName), "the core kernel is no module")
	m, ok := s.ByBuildID("id-m")
	require.True(t, ok)
	assert.Equal(t, uint64(0x3000), m.Start, "the last load")
	m, ok = s.ByFileID("file-other")
	require.True(t, ok)
	again, ok := s.ByFileID(m.LoadedFileID())
	require.True(t, ok)
	assert.Same(t, m, again)
	core, _ := s.Module(KernelName, Instant(0))
	assert.Same(t, s.Core(), core)

	h.Evict(1000*ms + int64(remember.TTL))
	_, ok = NewSnapshot(h.Table()).ByFileID("file-other")
	assert.False(t, ok, "evicted")
}

func TestEmptySnapshots(t *testing.T) {
	for _, s := range []*Snapshot{nil, NewSnapshot(), NewSnapshot(nil, NewTable())} {
		hit, same := s.At(text, Always)
		assert.Equal(t, Hit{Reason: ReasonUnresolved}, hit)
		assert.Equal(t, Always, same)
		m, reason := s.Module(KernelName, Always)
		assert.Nil(t, m)
		assert.Equal(t, ReasonUnresolved, reason)
		_, ok := s.ByBuildID("")
		assert.False(t, ok)
		_, ok = s.ByFileID("")
		assert.False(t, ok)
		assert.False(t, s.IsModule(""))
		assert.Nil(t, s.Core())
		assert.NotNil(t, s.Landmarks())
	}
	assert.Equal(t, "unobserved", answer(NewSnapshot(NewBuilder(remember).Table()), text, Instant(0)), "nothing is certain")
}

// TestAtDoesNotAllocate verifies that a lookup does not allocate, whatever the answer.
func TestAtDoesNotAllocate(t *testing.T) {
	core := newCore(t, 1<<14)
	h := newHistory(remember, 1000*ms)
	for i := range int64(100) {
		h.Load(bpf(strconv.FormatInt(i%7, 10), 0x1000, 64, 10*i*ms))
		h.Unload(h.At(0x1000), (10*i+6)*ms)
	}
	h.Load(trampoline("t", 0x800, 0))
	h.AddBlind(Interval{From: 500 * ms, To: 600 * ms})
	s := NewSnapshot(NewTable(core), h.Table(), NewTable(module(t, "m", 0x1000, 0x1100, Since(300*ms))))
	addr, at := uint64(text), int64(0)
	reasons := map[Reason]bool{}
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		s.At(addr, Always)
		for _, a := range []uint64{0x900, 0x1000, 0x1050, 0x4000} {
			hit, _ := s.At(a, Interval{at, at + 2*ms})
			reasons[hit.Reason] = true
		}
		addr += 37
		at += ms
	}))
	assert.Len(t, reasons, 4, "all kinds of answers")
}

func TestOriginNames(t *testing.T) {
	assert.Equal(t, "kernel", OriginKernel.String())
	assert.Equal(t, "ool", OriginOOL.String())
}

// TestLookUpsOfReusedAddresses verifies that a lookup visits few images, however many images had
// the address in the queried interval.
func TestLookUpsOfReusedAddresses(t *testing.T) {
	const many = 1000
	for _, origin := range []Origin{OriginBPF, OriginTrampoline} {
		h := NewBuilder(Limits{TTL: time.Hour, MaxEntries: many})
		for i := range int64(many) {
			h.Load(NewFunction(origin, fmt.Sprint("f", i), 0x1000, 0x1000, i*int64(time.Second)))
			h.Unload(h.At(0x1000), i*int64(time.Second)+int64(time.Millisecond))
		}
		h.SetCertain(Forever)
		s := NewSnapshot(h.Table())
		c := s.choose(0x1800, Always)
		assert.Equal(t, "ambiguous", answer(s, 0x1800, Always))
		assert.LessOrEqual(t, c.seen, maxSeen+1)
		once := Instant(500 * int64(time.Second))
		assert.Equal(t, "f500", answer(s, 0x1800, once))
		assert.Equal(t, origin == OriginTrampoline, s.MayBeTrampoline(0x17ff, 0x1802))
	}
}

// TestLookUpsOfCodeThatIsLoadedAgain verifies the same if all images have one name, and none was
// loaded for all of that time.
func TestLookUpsOfCodeThatIsLoadedAgain(t *testing.T) {
	const many, each = 1000, int64(time.Second)
	h := NewBuilder(Limits{TTL: time.Hour, MaxEntries: many})
	for i := range int64(many) {
		h.Load(NewFunction(OriginTrampoline, "again", 0x1000, 0x1000, i*each))
		h.Unload(h.At(0x1000), i*each+each/2)
	}
	h.SetCertain(Forever)
	s := NewSnapshot(h.Table())
	all := Interval{From: each / 4, To: many * each}
	c := s.choose(0x1800, all)
	assert.Equal(t, "unresolved", answer(s, 0x1800, all))
	assert.LessOrEqual(t, c.seen, maxSeen+1)
	assert.Equal(t, "again", answer(s, 0x1800, Interval{From: 500*each + 1, To: 500*each + each/4}))
}
