// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// TestContract_3_2_BehindTheLastSymbol: the last symbol of the core kernel or of a module ends with its
// image, whatever was looked up before, and in any order.
func TestContract_3_2_BehindTheLastSymbol(t *testing.T) {
	const module = text + textSize // right behind the core, to 0x400, with a function behind
	functions := timeline.NewBuilder(remember)
	loadAt(functions, "bpf_prog_"+progTag, module+0x400, 0x40, nowBoot-10_000*ms)
	gone := loadAt(functions, "bpf_prog_"+subTag, module+0x440, 0x40, nowBoot-10_000*ms)
	functions.Unload(gone, nowBoot-5_000*ms)
	modules := timeline.NewTable(timelinetest.NewImage(t, timelinetest.Text{
		Name: "m", Origin: timeline.OriginModule, BuildID: ext4ID, Base: module, Start: module, End: module + 0x400,
	}, timelinetest.Symbol{Name: "m_only"}))
	known := knownAt(t, functions)
	known.Snapshot = fixed(timeline.NewSnapshot(testSnapshot(t).Tables()[0], modules, functions.Table()))
	want := map[uint64]string{
		text + textSize - 1: "last", module: "m_only", module + 0x3ff: "m_only",
		module + 0x400: "bpf_prog_" + progTag, module + 0x43f: "bpf_prog_" + progTag, module + 0x440: "", module + 0x480: "",
	}
	var addrs []uint64
	for addr := range want {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	for range 2 {
		m := rewritetest.NewMessage().Profile(nil, "scope")
		for _, addr := range addrs {
			m.Sample(Frame{Address: addr})
			timed(m, nowBoot-1_000*ms)
		}
		got, _ := rewriteTimed(t, withHistory, m, known)
		for i, addr := range addrs {
			assert.Equal(t, want[addr], nameIn(got[i].Stack[0]), "%#x", addr)
		}
		slices.Reverse(addrs)
	}
}

// TestContract_5_4_ImagesThatOverlap: an address that two sources claim is ambiguous.
func TestContract_5_4_ImagesThatOverlap(t *testing.T) {
	functions := timeline.NewBuilder(remember)
	loadAt(functions, "bpf_prog_"+progTag, ext4+0x400, 0x40, nowBoot-10_000*ms)
	m := rewritetest.NewMessage().Profile(nil, "").
		Sample(Frame{Address: ext4 + 0x3ff}, Frame{Address: ext4 + 0x408}, Frame{Address: ext4 + 0x448})
	timed(m, nowBoot-1_000*ms)
	got, counts := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	assert.Equal(t, [][]string{{"ext4_write", "", "ext4_write"}}, stackNames(got))
	assert.Equal(t, Frame{Address: ext4 + 0x408, Type: "kernel"}, got[0].Stack[1])
	assert.Equal(t, 1, counts[rewrite.OutcomeAmbiguous][timeline.OriginKernel])
}

// TestManyGoneFunctions: functions that were unloaded behind the end of a module add no cost to its frames.
// They cost frames at their own addresses no more than one answer for each time at which the frame was used.
func TestManyGoneFunctions(t *testing.T) {
	const gone, frames = 4000, 5000
	functions := timeline.NewBuilder(remember)
	for i := range int64(gone) {
		f := loadAt(functions, "bpf_prog_"+progTag, ext4+ext4Size, 0x1000, firstOwner+i*40*ms)
		functions.Unload(f, firstOwner+i*40*ms+20*ms)
	}
	for _, tt := range []struct {
		name  string
		at    uint64
		stamp int64
		want  string
		every int64 // ns, from sample to sample
	}{
		{"in the module", ext4 + 0x100, firstOwner, "ext4_write", 20 * ms},
		{"where they were, later", ext4 + ext4Size, nowBoot - 100_000*ms, "", 20 * ms},
		{"where they were, then", ext4 + ext4Size, firstOwner + 400*ms + 10*ms, "bpf_prog_" + progTag, 1},
		{"where they were, in between", ext4 + ext4Size, firstOwner + 400*ms + 30*ms, "", 1},
	} {
		m := rewritetest.NewMessage().Profile(nil, "")
		h := hostileOf(m)
		for i := range frames {
			h(tt.at + uint64(i)%0x600)
			m.LastSample().TimestampsUnixNano().Append(unix(tt.stamp + int64(i)*tt.every))
		}
		known := knownAt(t, functions)
		wire := uint64(len(marshal(t, m.Profiles)))
		locations := m.Profiles.Dictionary().LocationTable().Len()
		got := allocatedBy(t, m.Profiles, func() { rewrite.New(withHistory).Rewrite(m.Profiles, known) })
		assert.Less(t, got, 1<<20+20*wire, tt.name)
		assert.Equal(t, locations, m.Profiles.Dictionary().LocationTable().Len(), "%s: no frame was split", tt.name)
		for i := range int32(frames) {
			assert.Equal(t, tt.want, nameIn(rewritetest.FrameAt(m.Profiles.Dictionary(), i+1)), tt.name)
		}
	}
}

// hostileOf adds samples, each with its own location, without reusing entries.
func hostileOf(m *rewritetest.Message) func(addr uint64) {
	d := m.Profiles.Dictionary()
	return func(addr uint64) {
		loc := d.LocationTable().AppendEmpty()
		loc.SetAddress(addr)
		d.StackTable().AppendEmpty().LocationIndices().Append(int32(d.LocationTable().Len() - 1))
		s := profileOf(m, 0).Samples().AppendEmpty()
		s.SetStackIndex(int32(d.StackTable().Len() - 1))
	}
}

// TestManyFramesOfManyOwners verifies that a frame which thousands of samples share is split once for each image
// that had its address.
func TestManyFramesOfManyOwners(t *testing.T) {
	const owners, samples = 200, 5000
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	stack := m.LastSample().StackIndex()
	for i := range int64(samples) {
		if i > 0 {
			m.Sample()
			m.LastSample().SetStackIndex(stack)
		}
		timed(m, owned(i%owners))
	}
	rewrite.New(withHistory).Rewrite(m.Profiles, knownAt(t, manyOwners(owners)))
	d := m.Profiles.Dictionary()
	assert.Equal(t, owners+1, d.LocationTable().Len(), "one for each answer, and entry 0")
	assert.Equal(t, owners+1, d.StackTable().Len(), "one for each answer, and entry 0")
}

// TestContract_2_3_FirstByteBehindBlindTime: a frame at a function's first byte was interrupted there if the
// byte before it belonged to no image. In blind time, that is not known.
func TestContract_2_3_FirstByteBehindBlindTime(t *testing.T) {
	functions := timeline.NewBuilder(remember)
	loadAt(functions, "target", slot+0x100, 0x100, nowBoot-20_000*ms)
	functions.AddBlind(timeline.Interval{From: nowBoot - 6_000*ms, To: nowBoot - 4_000*ms})
	m := rewritetest.NewMessage().Profile(nil, "")
	for _, at := range []int64{nowBoot - 8_000*ms, nowBoot - 5_000*ms, nowBoot - 2_000*ms} {
		m.Sample(Frame{Address: 1, Type: "native"}, Frame{Address: slot + 0x100, Type: "kernel"})
		timed(m, at)
	}
	got, counts := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	assert.Equal(t, [][]string{{"", "target"}, {"", ""}, {"", "target"}}, stackNames(got))
	assert.Equal(t, 1, counts[rewrite.OutcomeUnobserved][timeline.OriginKernel])
}

// TestContract_2_3_FirstByteBehindCodeThatWent: the same if code lay before the function for a part of the
// time, or was unloaded at about that time: the frame may be a caller in that code.
func TestContract_2_3_FirstByteBehindCodeThatWent(t *testing.T) {
	const went = nowBoot - 5_000*ms
	functions := timeline.NewBuilder(remember)
	before := loadAt(functions, "before", slot, 0x100, nowBoot-20_000*ms)
	loadAt(functions, "target", slot+0x100, 0x100, nowBoot-20_000*ms)
	functions.Unload(before, went)
	newMessage := func() *rewritetest.Message {
		return rewritetest.NewMessage().Profile(nil, "").
			Sample(Frame{Address: 1, Type: "native"}, Frame{Address: slot + 0x100, Type: "kernel"})
	}
	for at, want := range map[int64]string{went - 10*ms: "before", went - ms: "before", went + ms: "", went + 10*ms: "target"} {
		m := newMessage()
		timed(m, at)
		got, _ := rewriteTimed(t, withHistory, m, knownAt(t, functions))
		assert.Equal(t, [][]string{{"", want}}, stackNames(got), "%d ms after it went", (at-went)/ms)
	}
	m := newMessage() // without timestamps
	profileOf(m, 0).SetTime(pcommon.Timestamp(unix(went - 1_000*ms)))
	profileOf(m, 0).SetDurationNano(uint64(2_000 * ms))
	got, _ := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	assert.Equal(t, [][]string{{"", ""}}, stackNames(got))
}
