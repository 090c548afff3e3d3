// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// TestModulesThatTookEachOthersPlace: a frame belongs to the module that was loaded at the time, with its
// build, even in a place without a symbol.
func TestModulesThatTookEachOthersPlace(t *testing.T) {
	modules := timeline.NewBuilder(remember)
	load := func(name, buildID string, base uint64, from int64) {
		modules.Load(timelinetest.NewImage(t, timelinetest.Text{
			Name: name, Origin: timeline.OriginModule, BuildID: buildID, Base: base, Start: slot, End: slot + 0x100,
			Lifetime: timeline.Since(from),
		}, []timelinetest.Symbol{
			{Offset: 0x20, Name: name + "_read"},
			{Offset: 0x80, Name: name + "_write"},
		}...))
	}
	load("first", "aa01", slot, nowBoot-9_000*ms)
	modules.Unload(modules.At(slot), nowBoot-6_000*ms)
	load("second", "bb02", slot+0x10, nowBoot-5_000*ms)
	known := knownAt(t, modules)
	inFirst, inSecond := nowBoot-8_000*ms, nowBoot-3_000*ms
	m := rewritetest.NewMessage().Profile(nil, "").
		Sample(Frame{Address: slot + 0x24}, Frame{Address: text + offB + 1}, Frame{Address: slot + 0x80})
	timed(m, inFirst, inSecond, nowBoot-5_500*ms)
	m.Sample(Frame{Address: slot + 0x12}) // in no symbol
	timed(m, inFirst, inSecond)
	got, _ := rewriteTimed(t, withHistory, m, known)

	mapping := func(name, id string) *Mapping {
		return &Mapping{File: name, BuildID: id, FileID: buildid.FileID(id)}
	}
	firstMapping, secondMapping := mapping("first", "aa01"), mapping("second", "bb02")
	core := withName(Frame{Address: offB, Type: "kernel", Mapping: vmlinux()}, "b")
	frame := func(addr uint64, m *Mapping, name string) Frame {
		f := Frame{Address: addr, Type: "kernel", Mapping: m}
		if name != "" {
			f = withName(f, name)
		}
		return f
	}
	assert.Equal(t, [][]Frame{
		{frame(0x24, firstMapping, "first_read"), core, frame(0x7f, firstMapping, "first_read")},
		{frame(0x12, firstMapping, "")},
		{frame(0x14, secondMapping, "second_read"), core, frame(0x6f, secondMapping, "second_read")},
		{frame(slot+0x24, nil, ""), core, frame(slot+0x80, nil, "")}, // in no module
		{frame(0x2, secondMapping, "")},
	}, stacks(got))
}

// TestModuleOfTheHistoryByItsBuild: a frame relative to an unloaded module is the same code at any time, if
// its build is given.
func TestModuleOfTheHistoryByItsBuild(t *testing.T) {
	known := knownAt(t, twoLoads(t, "aa01", "bb02"))
	m := rewritetest.NewMessage().Profile(nil, "").
		Sample(Frame{Address: 8, Mapping: &Mapping{File: "/x/again.ko", BuildID: "aa01"}}).
		Sample(Frame{Address: 8, Mapping: &Mapping{File: "/x/again.ko", BuildID: "bb02"}}).
		Sample(Frame{Address: 8, Type: "kernel", Mapping: &Mapping{File: "again", FileID: buildid.FileID("aa01")}}).
		Sample(Frame{Address: 8, Mapping: &Mapping{File: "/x/again.ko"}}) // either
	got, counts := rewriteTimed(t, withHistory, m, known)
	assert.Equal(t, [][]string{{"old"}, {"new"}, {"old"}, {""}}, stackNames(got))
	assert.Equal(t, 1, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel])
}

// twoLoads returns the history of a module that was loaded, unloaded, and loaded with other code.
func twoLoads(t *testing.T, oldID, newID string) *timeline.Builder {
	t.Helper()
	modules := timeline.NewBuilder(remember)
	load := func(id, symbol string, base uint64, from int64) {
		modules.Load(timelinetest.NewImage(t, timelinetest.Text{
			Name: "again", Origin: timeline.OriginModule, BuildID: id, Base: base, Start: base, End: base + 0x100,
			Lifetime: timeline.Since(from),
		}, timelinetest.Symbol{Name: symbol}))
	}
	load(oldID, "old", slot, nowBoot-9_000*ms)
	modules.Unload(modules.At(slot), nowBoot-6_000*ms)
	load(newID, "new", slot+0x1000, nowBoot-5_000*ms)
	return modules
}

// TestContract_2_1_NameOfTwoLoads: a module's name means the load at the time of the sample, and none if
// there were two.
func TestContract_2_1_NameOfTwoLoads(t *testing.T) {
	for _, id := range []string{"", "aa01"} {
		newID := strings.ReplaceAll(id, "a", "b")
		for _, typ := range []string{"", "kernel"} {
			for _, tt := range []struct {
				ago  []int64 // ms
				want string
			}{
				{[]int64{8_000}, "old"},
				{[]int64{2_000}, "new"},
				{[]int64{5_500}, ""},
				{[]int64{20_000}, ""},
			} {
				m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: 8, Type: typ, Mapping: &Mapping{File: "[again]"}})
				timed(m, nowBoot-tt.ago[0]*ms)
				got, _ := rewriteTimed(t, withHistory, m, knownAt(t, twoLoads(t, id, newID)))
				assert.Equal(t, [][]string{{tt.want}}, stackNames(got), "%d ms ago", tt.ago)
				assert.Equal(t, "kernel", got[0].Stack[0].Type)
				assert.Equal(t, uint64(8), got[0].Stack[0].Address)
			}
			m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: 8, Type: typ, Mapping: &Mapping{File: "again.ko"}})
			timed(m, nowBoot-8_000*ms, nowBoot-2_000*ms, nowBoot-5_500*ms)
			got, _ := rewriteTimed(t, withHistory, m, knownAt(t, twoLoads(t, id, newID)))
			assert.Equal(t, [][]string{{"old"}, {"new"}, {""}}, stackNames(got))

			m = rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: 8, Type: typ, Mapping: &Mapping{File: "again.ko"}})
			profileOf(m, 0).SetTime(pcommon.Timestamp(unix(nowBoot - 8_000*ms)))
			profileOf(m, 0).SetDurationNano(uint64(6_000 * ms))
			got, counts := rewriteTimed(t, withHistory, m, knownAt(t, twoLoads(t, id, newID)))
			assert.Equal(t, [][]string{{""}}, stackNames(got))
			assert.Equal(t, one(rewrite.OutcomeAmbiguous, timeline.OriginKernel), counts)
		}
	}
}

func stacks(samples []rewritetest.Sample) (all [][]Frame) {
	for _, s := range samples {
		all = append(all, s.Stack)
	}
	return all
}
