// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

const ebpfScope = "go.opentelemetry.io/ebpf-profiler"

var other = map[string]any{"host.name": "other"}

// ambiguous is c as a leaf and b as a caller.
var ambiguous = Frame{Address: text + offC, Type: "kernel"}

func stackNames(samples []rewritetest.Sample) (names [][]string) {
	for _, s := range samples {
		var n []string
		for _, f := range s.Stack {
			n = append(n, nameIn(f))
		}
		names = append(names, n)
	}
	return names
}

func TestContract_2_4_LeafAndCaller(t *testing.T) {
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(ambiguous, user).
		Sample(user, ambiguous).
		Sample(ambiguous, ambiguous, user).
		Sample(user, ambiguous).
		Sample(user)
	m.LastSample().TimestampsUnixNano().FromRaw([]uint64{1, 2})
	d := m.Profiles.Dictionary()
	locations, stacks := d.LocationTable().Len(), d.StackTable().Len()
	samples, counts := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"c", ""}, {"", "b"}, {"c", "b", ""}, {"", "b"}, {""}}, stackNames(samples))
	assert.Equal(t, locations+1, d.LocationTable().Len(), "one copy")
	assert.Equal(t, stacks+2, d.StackTable().Len(), "no stack is changed")
	assert.Equal(t, 2, counts[rewrite.OutcomeResolved][timeline.OriginKernel])
}

func TestSplitWithOneSideUnresolved(t *testing.T) {
	end := Frame{Address: text + 0x40, Type: "kernel"} // behind a: its caller, or padding
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(end, end)
	samples, counts := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"", "a"}}, stackNames(samples))
	assert.Equal(t, vmlinux(), samples[0].Stack[0].Mapping)
	assert.Equal(t, 1, counts[rewrite.OutcomeResolved][timeline.OriginKernel])
	assert.Equal(t, 1, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel])
}

func TestSplitJoinsWhatIsThere(t *testing.T) {
	// The message already has the frames that the split would make, and one of the stacks.
	asLeaf := withName(Frame{Address: offC, Type: "kernel", Mapping: vmlinux()}, "c")
	asCaller := withName(Frame{Address: offC - 1, Type: "kernel", Mapping: vmlinux()}, "b")
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(asLeaf, user).
		Sample(user, asCaller).
		Sample(ambiguous, user).
		Sample(user, ambiguous)
	d := m.Profiles.Dictionary()
	locations, stacks := d.LocationTable().Len(), d.StackTable().Len()
	samples, _ := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"c", ""}, {"", "b"}, {"c", ""}, {"", "b"}}, stackNames(samples))
	assert.Equal(t, locations, d.LocationTable().Len())
	assert.Equal(t, stacks, d.StackTable().Len())
	assert.Equal(t, samples[0], samples[2])
}

func TestSplitOfEqualLocations(t *testing.T) {
	// If a producer has the same location twice, no third and fourth one is made.
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(ambiguous, user).Sample(user, ambiguous)
	d := m.Profiles.Dictionary()
	twin := d.LocationTable().AppendEmpty()
	d.LocationTable().At(int(m.Location(ambiguous))).CopyTo(twin)
	for _, position := range []int{0, 1} {
		s := d.StackTable().AppendEmpty()
		s.LocationIndices().FromRaw([]int32{m.Location(user), m.Location(user)})
		s.LocationIndices().SetAt(position, int32(d.LocationTable().Len()-1))
		m.Sample()
		m.LastSample().SetStackIndex(int32(d.StackTable().Len() - 1))
	}
	locations := d.LocationTable().Len()
	samples, _ := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"c", ""}, {"", "b"}, {"c", ""}, {"", "b"}}, stackNames(samples))
	assert.Equal(t, locations+1, d.LocationTable().Len())
}

func TestForeignResources(t *testing.T) {
	plain := Frame{Address: text + offA + 1, Type: "kernel"}
	user := Frame{Address: 1, Type: "native"}
	opts := rewrite.Options{IsForeign: isOther}

	t.Run("all", func(t *testing.T) {
		m := rewritetest.NewMessage().Profile(other, "scope").Sample(plain, user).Sample(ambiguous, plain)
		before := marshal(t, m.Profiles)
		_, counts := run(t, opts, m.Profiles)
		assert.Equal(t, before, marshal(t, m.Profiles))
		assert.Equal(t, 2, counts[rewrite.OutcomeForeign][timeline.OriginKernel])
	})
	t.Run("shared stacks", func(t *testing.T) {
		m := rewritetest.NewMessage()
		m.Profile(nil, "scope").Sample(plain, user).Sample(ambiguous, plain)
		m.Profile(other, "scope").Sample(plain, user).Sample(ambiguous, plain)
		samples, counts := run(t, opts, m.Profiles)
		assert.Equal(t, [][]string{{"a", ""}, {"c", "a"}, {"", ""}, {"", ""}}, stackNames(samples))
		assert.Equal(t, []Frame{plain, user}, samples[2].Stack)
		assert.Equal(t, []Frame{ambiguous, plain}, samples[3].Stack)
		for i, want := range []int32{1, 2} {
			assert.Equal(t, want, profileOf(m, 1).Samples().At(i).StackIndex(), "the other host's stacks are what they were")
		}
		assert.Equal(t, 2, counts[rewrite.OutcomeForeign][timeline.OriginKernel])
		assert.Equal(t, 3, counts[rewrite.OutcomeResolved][timeline.OriginKernel], "one of them is looked up at two addresses")
	})
	t.Run("own stacks", func(t *testing.T) {
		m := rewritetest.NewMessage()
		m.Profile(nil, "scope").Sample(plain, user)
		m.Profile(other, "scope").Sample(plain)
		stacks := m.Profiles.Dictionary().StackTable().Len()
		samples, _ := run(t, opts, m.Profiles)
		assert.Equal(t, [][]string{{"a", ""}, {""}}, stackNames(samples))
		assert.Equal(t, stacks+1, m.Profiles.Dictionary().StackTable().Len(), "no stack is changed")
	})
}

func TestOneStackWithUsersOfEveryKind(t *testing.T) {
	// At the last byte of b, the name is b for a leaf or a caller, but c for a leaf from which 1 was
	// subtracted.
	end := Frame{Address: text + offC - 1, Type: "kernel"}
	m := rewritetest.NewMessage()
	m.Profile(nil, "scope").Sample(end, end)
	m.Profile(nil, ebpfScope).Sample(end, end)
	m.Profile(other, "scope").Sample(end, end)
	samples, _ := run(t, rewrite.Options{IsForeign: isOther}, m.Profiles)
	assert.Equal(t, [][]string{{"b", "b"}, {"c", "b"}, {"", ""}}, stackNames(samples))
}

// TestSplitJoinsNothingThatChangesYet has a second frame that equals the copy of the first until it is
// rewritten itself.
func TestSplitJoinsNothingThatChangesYet(t *testing.T) {
	end := Frame{Address: text + 0x40, Type: "kernel"} // padding behind a for a leaf
	relative := Frame{Address: 0x40, Type: "kernel", Mapping: &Mapping{File: "vmlinux", Limit: textSize}}
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(end, user).
		Sample(user, end).
		Sample(user, relative)
	locations := m.Profiles.Dictionary().LocationTable().Len()
	samples, _ := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"", ""}, {"", "a"}, {"", "a"}}, stackNames(samples))
	assert.Equal(t, samples[1], samples[2])
	assert.Equal(t, locations, m.Profiles.Dictionary().LocationTable().Len())
}

// TestLastAddress subtracts 1 from a relative address of 0, as a producer may: adding 1 again must not lead
// to the first symbol.
func TestLastAddress(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, ebpfScope).
		Sample(Frame{Address: ext4 + 0x110, Type: "kernel"}).
		Sample(Frame{Address: 1<<64 - 1, Type: "kernel"})
	samples, _ := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"ext4_write"}, {""}}, stackNames(samples))
}

// TestStackThatAnotherMovesTo has a stack that another user's stack is rewritten to, and that is itself
// rewritten for its own user.
func TestStackThatAnotherMovesTo(t *testing.T) {
	end := Frame{Address: text + offC - 1, Type: "kernel"}
	asOther := withName(Frame{Address: offC - 1, Type: "kernel", Mapping: vmlinux()}, "b")
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage()
	m.Profile(nil, "scope").Sample(end, user).Sample(asOther, user)
	m.Profile(nil, ebpfScope).Sample(end, user)
	samples, _ := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"b", ""}, {"b", ""}, {"c", ""}}, stackNames(samples))
}

func TestStackThatNoSampleHas(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: 1, Type: "native"}).Sample(ambiguous, ambiguous)
	unused := m.LastSample().StackIndex()
	m.LastSample().SetStackIndex(0)
	m.Location(Frame{Address: text + offB + 1})
	before := marshal(t, m.Profiles)
	_, counts := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, before, marshal(t, m.Profiles), "unused entries stay as they are")
	assert.Zero(t, counts)

	// The stack without samples shares its frame with a sample's stack. The frame belongs to the sample
	// alone, so it is not copied.
	m.Sample(Frame{Address: 1, Type: "native"}, ambiguous)
	d := m.Profiles.Dictionary()
	locations, stacks := d.LocationTable().Len(), d.StackTable().Len()
	got, _ := run(t, rewrite.Options{}, m.Profiles)
	assert.Equal(t, "b", nameIn(got[2].Stack[1]))
	assert.Equal(t, locations, d.LocationTable().Len())
	assert.Equal(t, stacks, d.StackTable().Len())
	assert.Equal(t, 2, d.StackTable().At(int(unused)).LocationIndices().Len())
}

// TestContract_5_5_LoadsThatReadTheSame: a sample with timestamps in two loads of one program is not divided
// if its stack gets the same frames from both.
func TestContract_5_5_LoadsThatReadTheSame(t *testing.T) {
	functions := timeline.NewBuilder(remember)
	for _, from := range []int64{nowBoot - 9_000*ms, nowBoot - 5_000*ms} {
		m := timeline.NewFunction(timeline.OriginBPF, "bpf_prog_0123456789abcdef_x", slot, 0x100, from).WithProgram(&timeline.Program{ID: 7}, nil)
		functions.Load(m)
		functions.Unload(functions.At(slot), from+2_000*ms)
	}
	m := rewritetest.NewMessage().Profile(nil, "").Sample(
		Frame{Address: 1, Type: "native"}, Frame{Address: slot + 8, Type: "kernel"},
		Frame{Address: slot + 8, Type: "kernel", Lines: []Line{{Name: "UNKNOWN"}}})
	timed(m, nowBoot-8_000*ms, nowBoot-4_000*ms)
	got, counts := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	assert.Len(t, got, 1)
	assert.Equal(t, "bpf_prog_0123456789abcdef_x", nameIn(got[0].Stack[2]))
	assert.Equal(t, 2, counts[rewrite.OutcomeResolved][timeline.OriginBPF], "each frame counts once")
}

// TestLoadsThatReadTheSameCountOnce, and so do the results of their packs, even if another load splits the
// frame.
func TestLoadsThatReadTheSameCountOnce(t *testing.T) {
	modules := timeline.NewBuilder(remember)
	for i, id := range []string{ext4ID, "0123456789abcdef", ext4ID} {
		from := nowBoot - 9_000*ms + int64(i)*3_000*ms
		modules.Load(timelinetest.NewImage(t, timelinetest.Text{
			Name: "mod", Origin: timeline.OriginModule, BuildID: id, Base: slot, Start: slot, End: slot + 0x400, Lifetime: timeline.Since(from),
		}, timelinetest.Symbol{Name: "f"}))
		modules.Unload(modules.At(slot), from+1_000*ms)
	}
	for want, at := range map[int][]int64{1: {8_500, 2_500}, 2: {8_500, 5_500, 2_500}} {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
		timed(m, nowBoot-at[0]*ms, nowBoot-at[1]*ms, nowBoot-at[len(at)-1]*ms)
		locations := m.Profiles.Dictionary().LocationTable().Len()
		opts := withHistory
		opts.DebugInfo = true
		result := rewrite.New(opts).Rewrite(m.Profiles, knownAt(t, modules))
		assert.Equal(t, want-1, m.Profiles.Dictionary().LocationTable().Len()-locations)
		assert.Equal(t, want, result.Counts[rewrite.OutcomeResolved][timeline.OriginModule])
		assert.Equal(t, want, result.Packs[inline.GaveNothing])
	}
}
