package symtab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func module(t testing.TB, name string, start, end uint64, valid Interval) *Module {
	t.Helper()
	return build(t, ModuleInfo{
		Name: name, BuildID: "id-" + name, Origin: OriginModule,
		Base: start, Start: start, End: end, Valid: valid,
	}, line{start, 't', name + "_init"}, line{start + 8, 't', name + "_exit"}, line{start + 12, 'd', "data"})
}

func TestTableLookup(t *testing.T) {
	table := NewTable([]*Module{
		module(t, "c", 0x3000, 0x3100, Always),
		module(t, "a", 0x1000, 0x1100, Always),
		module(t, "b", 0x1100, 0x1200, Always), // right behind a
	})
	for addr, want := range map[uint64]string{
		0x0fff: "", 0x1000: "a_init", 0x1008: "a_exit", 0x100b: "a_exit", 0x100c: "",
		0x10ff: "", 0x1100: "b_init", 0x11ff: "", 0x1200: "", 0x2fff: "", 0x3008: "c_exit",
		0x3100: "", 0: "", math.MaxUint64: "",
	} {
		sym, ok := table.Lookup(addr, Always)
		assert.Equal(t, want != "", ok, "%#x", addr)
		if ok {
			assert.Equal(t, want, sym.Name().System, "%#x", addr)
		}
	}
	for addr, want := range map[uint64]string{
		0x0fff: "", 0x1000: "a", 0x10ff: "a", 0x1100: "b", 0x11ff: "b", 0x1200: "", 0x30ff: "c", 0x3100: "",
	} {
		m, ok := table.ModuleAt(addr, Always)
		assert.Equal(t, want != "", ok, "%#x", addr)
		if ok {
			assert.Equal(t, want, m.Name, "%#x", addr)
		}
	}
	var names []string
	for _, m := range table.Modules() {
		names = append(names, m.Name)
	}
	assert.Equal(t, []string{"a", "b", "c"}, names)
}

func TestTableGivesOverlapToTheLaterStart(t *testing.T) {
	table := NewTable([]*Module{
		module(t, "wide", 0x1000, 0x3000, Always),
		module(t, "inside", 0x2000, 0x2100, Always),
	})
	m, ok := table.ModuleAt(0x2050, Always)
	require.True(t, ok)
	assert.Equal(t, "inside", m.Name)
	_, ok = table.ModuleAt(0x2200, Always)
	assert.False(t, ok, "past the later module's end")
}

func TestLookupOutsideItsTimeFindsNothing(t *testing.T) {
	const ms = int64(time.Millisecond)
	table := NewTable([]*Module{module(t, "m", 0x1000, 0x1100, Interval{From: 100 * ms, To: 200 * ms})})
	for _, tt := range []struct {
		at   Interval
		want bool
	}{
		{Interval{90 * ms, 95 * ms}, false},
		{Interval{90 * ms, 95*ms + 1}, true}, // within the tolerance
		{Interval{90 * ms, 110 * ms}, true},
		{Instant(100 * ms), true},
		{Instant(205*ms - 1), true},
		{Instant(205 * ms), false},
		{Interval{150 * ms, 150 * ms}, true}, // counts as an instant
		{Interval{300 * ms, 300 * ms}, false},
		{Always, true},
		{Now, false},
	} {
		_, ok := table.Lookup(0x1000, tt.at)
		assert.Equal(t, tt.want, ok, "%v", tt.at)
		_, ok = table.ModuleAt(0x1000, tt.at)
		assert.Equal(t, tt.want, ok, "%v", tt.at)
	}
	assert.Empty(t, table.Modules())
	assert.Equal(t, 1, table.History())
}

// TestModulesOfTheSameName: which one a name means is a question of when.
func TestModulesOfTheSameName(t *testing.T) {
	was := module(t, "m", 0x1000, 0x1100, Interval{From: 10, To: 20})
	again := module(t, "m", 0x2000, 0x2100, Interval{From: 30, To: 40})
	is := module(t, "m", 0x3000, 0x3100, Since(50))
	other := *is
	other.BuildID = "another"
	for _, tt := range []struct {
		modules []*Module
		want    *Module
		unique  bool
	}{
		{[]*Module{was, again, is}, is, true},
		{[]*Module{again, was}, again, true},
		{[]*Module{was, &other, again}, &other, false},
	} {
		m, unique, ok := NewSnapshot(NewTable(tt.modules)).ModuleByName("m")
		require.True(t, ok)
		assert.Same(t, tt.want, m)
		assert.Equal(t, tt.unique, unique)
	}
	m, ok := NewSnapshot(NewTable([]*Module{was, &other})).ModuleByBuildID("id-m")
	require.True(t, ok)
	assert.Same(t, was, m)
	assert.Equal(t, was.Lived(Since(9), Slack{Before: 1}).Valid, Since(9))
}

func TestEmptyTable(t *testing.T) {
	table := NewTable(nil)
	_, ok := table.Lookup(0x1000, Always)
	assert.False(t, ok)
	assert.Empty(t, table.Modules())
}

func TestSnapshot(t *testing.T) {
	a, b := module(t, "a", 0x1000, 0x1100, Always), module(t, "b", 0x2000, 0x2100, Always)
	s := NewSnapshot(NewTable([]*Module{a}), nil, NewTable([]*Module{b}))
	require.Len(t, s.Tables(), 2)

	for addr, want := range map[uint64]*Module{0x1000: a, 0x2000: b} {
		sym, ok := s.Lookup(addr, Always)
		require.True(t, ok)
		assert.Same(t, want, sym.Module)
		m, ok := s.ModuleAt(addr+0x20, Always)
		require.True(t, ok)
		assert.Same(t, want, m)
		m, unique, ok := s.ModuleByName(want.Name)
		require.True(t, ok)
		assert.True(t, unique)
		assert.Same(t, want, m)
		m, ok = s.ModuleByBuildID(want.BuildID)
		require.True(t, ok)
		assert.Same(t, want, m)
	}
	for _, ok := range []bool{
		found(s.Lookup(0x3000, Always)), found(s.ModuleAt(0x3000, Always)),
		isNamed(s.ModuleByName("")), found(s.ModuleByBuildID("")),
	} {
		assert.False(t, ok)
	}
}

func TestNilSnapshotKnowsNothing(t *testing.T) {
	var s *Snapshot
	for _, ok := range []bool{
		found(s.Lookup(text, Always)), found(s.ModuleAt(text, Always)),
		isNamed(s.ModuleByName(KernelName)), found(s.ModuleByBuildID("00")),
	} {
		assert.False(t, ok)
	}
}

func isNamed(_ *Module, _, ok bool) bool { return ok }

func found[T any](_ T, ok bool) bool { return ok }

// TestLookupInCrowdedBucket has half of the symbols in one bucket of the index,
// which is as wide as the average demands.
func TestLookupInCrowdedBucket(t *testing.T) {
	var lines []line
	for i := range uint64(1000) {
		lines = append(lines, line{text + i, 't', fmt.Sprintf("dense_%d", i)})
	}
	for i := range uint64(1000) {
		lines = append(lines, line{text + 1<<20 + i<<10, 't', fmt.Sprintf("sparse_%d", i)})
	}
	m := build(t, kernelInfo(1<<22), lines...)
	require.Greater(t, m.symbols.index[1], uint32(scanWidth*maxScans))
}

func TestLookupDoesNotAllocate(t *testing.T) {
	m := build(t, kernelInfo(1<<20), randomLines(rand.New(rand.NewPCG(1, 1)), 1000, 100)...)
	s := NewSnapshot(NewTable([]*Module{m}))
	addr := uint64(text)
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		s.Lookup(addr, Always)
		s.ModuleAt(addr, Always)
		addr += 37
	}))
}

func TestOriginNames(t *testing.T) {
	assert.Equal(t, "kernel", OriginKernel.String())
	assert.Equal(t, "ool", OriginOOL.String())
	assert.Equal(t, "Origin(200)", Origin(200).String())
}
