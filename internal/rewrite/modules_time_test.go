package rewrite

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestModulesThatTookEachOthersPlace: frames of modules are those of the module that
// was there, with its build, also where it has no symbol.
func TestModulesThatTookEachOthersPlace(t *testing.T) {
	lived := func(name, buildID string, base uint64, valid symtab.Interval) *symtab.Module {
		return testModule(t, symtab.ModuleInfo{
			Name: name, Origin: symtab.OriginModule, BuildID: buildID, Base: base, Start: slot, End: slot + 0x100,
		}, func(add func(uint64, string)) {
			add(0x20, name+"_read")
			add(0x80, name+"_write")
		}).Lived(valid, symtab.Slack{})
	}
	first := lived("first", "aa01", slot, symtab.Interval{From: nowBoot - 9_000*ms, To: nowBoot - 6_000*ms})
	second := lived("second", "bb02", slot+0x10, symtab.Since(nowBoot-5_000*ms))
	known := Known{
		Snapshot: symtab.NewSnapshot(append(testSnapshot(t).Tables(), symtab.NewTable([]*symtab.Module{second, first}))...),
		Clock:    realtime.Fixed(bootUnix),
		Now:      nowBoot,
	}
	inFirst, inSecond := nowBoot-8_000*ms, nowBoot-3_000*ms
	m := rewritetest.NewMessage().Profile(nil, "").
		Sample(Frame{Address: slot + 0x24}, Frame{Address: text + offB + 1}, Frame{Address: slot + 0x80})
	timed(m, inFirst, inSecond, nowBoot-5_500*ms)
	m.Sample(Frame{Address: slot + 0x12}) // in no symbol
	timed(m, inFirst, inSecond)
	got, _ := rewriteTimed(t, withHistory, m, known)

	mapping := func(name, id string, limit uint64) *Mapping {
		return &Mapping{File: name, Limit: limit, BuildID: id, FileID: buildid.FileID(id)}
	}
	firstMapping, secondMapping := mapping("first", "aa01", 0x100), mapping("second", "bb02", 0xf0)
	core := named(Frame{Address: offB + 1, Type: "kernel", Mapping: vmlinux()}, "b")
	frame := func(addr uint64, m *Mapping, name string) Frame {
		f := Frame{Address: addr, Type: "kernel", Mapping: m}
		if name != "" {
			f = named(f, name)
		}
		return f
	}
	assert.Equal(t, [][]Frame{
		{frame(0x24, firstMapping, "first_read"), core, frame(0x80, firstMapping, "first_read")},
		{frame(0x12, firstMapping, "")},
		{frame(0x14, secondMapping, "second_read"), core, frame(0x70, secondMapping, "second_read")},
		{{Address: slot + 0x24}, core, {Address: slot + 0x80}}, // nobody's
		{frame(0x2, secondMapping, "")},
	}, stacks(got))
}

// TestModuleOfTheHistoryByItsBuild: a frame relative to a module that is gone is the
// same code at any time, if the build says which.
func TestModuleOfTheHistoryByItsBuild(t *testing.T) {
	build := func(id, symbol string, base uint64, valid symtab.Interval) *symtab.Module {
		return testModule(t, symtab.ModuleInfo{
			Name: "again", Origin: symtab.OriginModule, BuildID: id, Base: base, Start: base, End: base + 0x100,
		}, func(add func(uint64, string)) { add(0, symbol) }).Lived(valid, symtab.Slack{})
	}
	gone := build("aa01", "old", slot, symtab.Interval{From: nowBoot - 9_000*ms, To: nowBoot - 6_000*ms})
	there := build("bb02", "new", slot+0x1000, symtab.Since(nowBoot-5_000*ms))
	snapshot := symtab.NewSnapshot(append(testSnapshot(t).Tables(), symtab.NewTable([]*symtab.Module{there, gone}))...)
	m := rewritetest.NewMessage().Profile(nil, "").
		Sample(Frame{Address: 8, Mapping: &Mapping{File: "/x/again.ko", BuildID: "aa01"}}).
		Sample(Frame{Address: 8, Mapping: &Mapping{File: "/x/again.ko", BuildID: "bb02"}}).
		Sample(Frame{Address: 8, Mapping: &Mapping{File: "/x/again.ko"}}) // either
	got, counts := rewriteTimed(t, withHistory, m, Known{Snapshot: snapshot, Clock: realtime.Fixed(bootUnix), Now: nowBoot})
	assert.Equal(t, [][]string{{"old"}, {"new"}, {""}}, stackNames(got))
	assert.Equal(t, 1, counts[OutcomeUnresolved][symtab.OriginKernel])
}

func stacks(samples []rewritetest.Sample) (all [][]Frame) {
	for _, s := range samples {
		all = append(all, s.Stack)
	}
	return all
}
