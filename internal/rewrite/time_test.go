package rewrite

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

const (
	ms = int64(time.Millisecond)

	// The kernel's clock began an hour before now, at this Unix time.
	bootUnix = 1_700_000_000_000 * ms
	nowBoot  = 3_600_000 * ms

	slot = 0xffffffffc0800000 // where functions come and go
)

// unix returns the Unix time of a time of the kernel's clock.
func unix(boot int64) uint64 { return uint64(bootUnix + boot) }

// knownAt returns what is known now, of functions beside the usual.
func knownAt(t testing.TB, functions *symtab.Functions) Known {
	t.Helper()
	return Known{
		Snapshot: symtab.NewSnapshot(append(testSnapshot(t).Tables(), functions.Table())...),
		Clock:    realtime.Fixed(bootUnix),
		Now:      nowBoot,
	}
}

var withHistory = Options{History: 10 * time.Minute}

var remember = symtab.History{TTL: 10 * time.Minute, MaxEntries: 1 << 16}

func loadAt(functions *symtab.Functions, name string, start uint64, size uint32, from int64) *symtab.Function {
	f := symtab.NewFunction(symtab.OriginBPF, name, start, size, symtab.Since(from))
	functions.Load(f)
	return functions.At(start)
}

// timed gives the last sample timestamps of the kernel's clock, and a value for each.
func timed(m *rewritetest.Message, at ...int64) {
	s := m.LastSample()
	s.Values().FromRaw(nil)
	for i, t := range at {
		s.TimestampsUnixNano().Append(unix(t))
		s.Values().Append(int64(100 + i))
	}
}

// rewriteTimed rewrites a message, checks all that must hold for any, and returns
// its samples and counts.
func rewriteTimed(t testing.TB, opts Options, m *rewritetest.Message, known Known) ([]rewritetest.Sample, Counts) {
	t.Helper()
	pd := m.Profiles
	require.NoError(t, rewritetest.CheckValid(pd), "before")
	before := copied(pd)
	_, counts := New(opts).Rewrite(pd, known)
	require.NoError(t, rewritetest.CheckValid(pd))
	require.NoError(t, rewritetest.CheckRewritten(before, pd))
	after := marshal(t, pd)
	New(opts).Rewrite(pd, known)
	require.Equal(t, after, marshal(t, pd), "4.5: processing the output again changes nothing")
	return rewritetest.Samples(pd), counts
}

// story is one of two functions that had the same addresses.
func story() *symtab.Functions {
	functions := symtab.NewFunctions(remember)
	a := loadAt(functions, "a", slot, 0x100, nowBoot-10_000*ms)
	functions.Unload(a, nowBoot-8_000*ms, symtab.Slack{})
	b := loadAt(functions, "b", slot, 0x100, nowBoot-6_000*ms)
	functions.Unload(b, nowBoot-4_000*ms, symtab.Slack{})
	return functions
}

func TestContract_5_3_SampleIsDividedByItsTimestamps(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8}, Frame{Address: text + offB + 1})
	timed(m, nowBoot-9_000*ms, nowBoot-5_000*ms, nowBoot-7_000*ms, nowBoot-8_500*ms, nowBoot-1_000*ms)
	m.LastSample().AttributeIndices().Append(m.Attribute("thread.name", "worker"))
	m.LastSample().SetLinkIndex(0)
	got, counts := rewriteTimed(t, withHistory, m, knownAt(t, story()))
	assert.Equal(t, [][]string{{"a", "b"}, {"b", "b"}, {"", "b"}}, stackNames(got))
	for i, want := range [][]int64{{100, 103}, {101}, {102, 104}} {
		assert.Equal(t, want, got[i].Values)
	}
	assert.Equal(t, []uint64{unix(nowBoot - 9_000*ms), unix(nowBoot - 8_500*ms)}, got[0].Timestamps)
	for _, s := range m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
		assert.Equal(t, 1, s.AttributeIndices().Len())
	}
	assert.Equal(t, 2, counts[OutcomeResolved][symtab.OriginBPF])
	assert.Equal(t, 1, counts[OutcomeResolved][symtab.OriginKernel])
	assert.Equal(t, 1, counts[OutcomeUnresolved][symtab.OriginKernel])
}

// TestSampleWithOneValueIsNotDivided: nobody knows of which instant the value is.
func TestSampleWithOneValueIsNotDivided(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	timed(m, nowBoot-9_000*ms, nowBoot-5_000*ms, nowBoot-5_001*ms)
	m.LastSample().Values().FromRaw([]int64{7})
	got, _ := rewriteTimed(t, withHistory, m, knownAt(t, story()))
	assert.Equal(t, [][]string{{"b"}}, stackNames(got), "as most of its instants")
	assert.Equal(t, []int64{7}, got[0].Values)
}

func TestContract_5_1_ProfileWithoutTimestamps(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from, to int64 // before now
		want     string
	}{
		{"while a was there", 9_500, 9_000, "a"},
		{"a for most of it", 9_500, 5_500, "a"},
		{"b for most of it", 8_200, 4_000, "b"},
		{"a tie goes to the later", 10_000, 4_000, "b"},
		{"in between", 7_000, 6_500, ""},
		{"after both", 3_000, 1_000, ""},
		{"before both", 20_000, 11_000, ""},
		{"an instant", 9_000, 9_000, "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
			profile := m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
			profile.SetTime(pcommon.Timestamp(unix(nowBoot - tt.from*ms)))
			profile.SetDurationNano(uint64((tt.from - tt.to) * ms))
			got, _ := rewriteTimed(t, withHistory, m, knownAt(t, story()))
			assert.Equal(t, [][]string{{tt.want}}, stackNames(got))
		})
	}
}

// TestOffClocks: times that cannot be this machine's count as the time before the
// profile came.
func TestOffClocks(t *testing.T) {
	functions := story()
	loadAt(functions, "c", slot, 0x100, nowBoot-3_000*ms) // is there now
	known := knownAt(t, functions)
	const hour = 3_600_000 * ms
	for _, tt := range []struct {
		name   string
		stamps []int64
		header int64
		want   [][]string
		off    int64
	}{
		{"ours", []int64{nowBoot - 9_000*ms}, nowBoot - 9_500*ms, [][]string{{"a"}}, 0},
		{"an hour ago", []int64{nowBoot - hour, nowBoot - hour + ms}, nowBoot - hour, [][]string{{"c"}}, 1},
		{"in an hour", []int64{nowBoot + hour}, nowBoot + hour, [][]string{{"c"}}, 1},
		{"one in an hour", []int64{nowBoot - 9_000*ms, nowBoot - 9_001*ms, nowBoot + hour}, nowBoot - 9_500*ms, [][]string{{"a"}, {""}}, 0},
		{"timestamp 0", []int64{-bootUnix}, nowBoot - 9_500*ms, [][]string{{"a"}}, 0},
		{"nothing at all", nil, -bootUnix, [][]string{{"c"}}, 1},
		{"no number at all", []int64{math.MaxInt64}, math.MaxInt64 - bootUnix, [][]string{{"c"}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
			timed(m, tt.stamps...)
			profile := m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
			profile.SetTime(pcommon.Timestamp(unix(tt.header)))
			r := New(withHistory)
			r.Rewrite(m.Profiles, known)
			assert.Equal(t, tt.want, stackNames(rewritetest.Samples(m.Profiles)))
			assert.Equal(t, tt.off, r.ClockOff())
		})
	}
}

// TestClockThatWasSetBack: a time that it showed twice has an answer if that is the
// same for both.
func TestClockThatWasSetBack(t *testing.T) {
	functions := story()
	boot, offset := nowBoot-9_000*ms, bootUnix
	tracker := realtime.NewTracker(time.Hour, func() (int64, int64) { return boot, offset })
	boot = nowBoot - 6_000*ms
	offset -= 4_000 * ms
	tracker.Now()
	known := knownAt(t, functions)
	boot = nowBoot
	known.Now, known.Clock = tracker.Now()
	for _, tt := range []struct {
		unix uint64
		want string
	}{
		{unix(nowBoot - 9_500*ms), ""},  // once: while a was there, or four seconds later b
		{unix(nowBoot - 10_500*ms), ""}, // nobody
		{unix(nowBoot - 8_000*ms - 4_000*ms - 1), ""},
	} {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
		m.LastSample().TimestampsUnixNano().Append(tt.unix)
		got, _ := rewriteTimed(t, withHistory, m, known)
		assert.Equal(t, [][]string{{tt.want}}, stackNames(got))
	}
	// Set back by four seconds, it showed what it now shows of b while a was there.
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	m.LastSample().TimestampsUnixNano().Append(unix(nowBoot - 5_000*ms - 4_000*ms))
	got, _ := rewriteTimed(t, withHistory, m, known)
	assert.Equal(t, [][]string{{""}}, stackNames(got), "a or b")
	m = rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: text + offB + 1})
	m.LastSample().TimestampsUnixNano().Append(unix(nowBoot - 9_000*ms))
	got, _ = rewriteTimed(t, withHistory, m, known)
	assert.Equal(t, [][]string{{"b"}}, stackNames(got), "the core is always there")
}

func TestExpired(t *testing.T) {
	functions := symtab.NewFunctions(symtab.History{TTL: time.Minute, MaxEntries: 1})
	for _, name := range []string{"a", "b"} {
		f := loadAt(functions, name, slot, 0x100, nowBoot-20_000*ms)
		functions.Unload(f, nowBoot-5_000*ms, symtab.Slack{})
	}
	functions.Expire(nowBoot)
	loadAt(functions, "elsewhere", slot+0x1000, 0x100, nowBoot-20_000*ms)
	m := rewritetest.NewMessage().Profile(nil, "").
		Sample(Frame{Address: slot + 8}).Sample(Frame{Address: slot + 0x1008}).Sample(Frame{Address: slot + 0x2000})
	for i := range 3 {
		m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().At(i).
			TimestampsUnixNano().Append(unix(nowBoot - 15_000*ms))
	}
	got, counts := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	assert.Equal(t, [][]string{{""}, {"elsewhere"}, {""}}, stackNames(got))
	assert.Equal(t, 1, counts[OutcomeExpired][symtab.OriginKernel])
	assert.Equal(t, 1, counts[OutcomeUnresolved][symtab.OriginKernel])
}

// TestClockSteps: whatever happens to the wall clock, a sample never gets the name
// of what was there at another time.
func TestClockSteps(t *testing.T) {
	const hour = 3_600_000 * ms
	for name, tt := range map[string]struct{ set, suspend int64 }{
		"an hour forward":   {set: hour},
		"an hour back":      {set: -hour},
		"two seconds back":  {set: -2000 * ms},
		"two seconds ahead": {set: 2000 * ms},
		"suspended":         {suspend: 120_000 * ms},
		"set and suspended": {set: -1000 * ms, suspend: 60_000 * ms},
		"nothing":           {},
	} {
		t.Run(name, func(t *testing.T) {
			functions := symtab.NewFunctions(remember)
			boot, offset := nowBoot, bootUnix
			tracker := realtime.NewTracker(time.Hour, func() (int64, int64) { return boot, offset })
			type sample struct {
				unix uint64
				want string
			}
			var samples []sample
			var f *symtab.Function
			for i := range 60 {
				if i == 30 {
					boot += tt.suspend
					offset += tt.set
				}
				now := fmt.Sprint("f", i)
				f = loadAt(functions, now, slot, 0x100, boot)
				for range 10 {
					boot += 50 * ms
					samples = append(samples, sample{uint64(boot + offset), now})
				}
				boot += 6 * ms
				functions.Unload(f, boot, symtab.Slack{})
				if i%2 == 1 {
					tracker.Now()
				}
			}
			known := knownAt(t, functions)
			known.Now, known.Clock = tracker.Now()
			m := rewritetest.NewMessage().Profile(nil, "")
			for i, s := range samples {
				m.Sample(Frame{Address: slot + 8})
				m.LastSample().TimestampsUnixNano().Append(s.unix)
				m.LastSample().AttributeIndices().Append(m.Attribute("id", int64(i)))
			}
			rewriteTimed(t, withHistory, m, known)
			right := 0
			for _, got := range instantsOf(m) {
				want := samples[got.sample].want + ";"
				if got.names == want {
					right++
				} else {
					require.Equal(t, ";", got.names, "sample %d of %s", got.sample, want)
				}
			}
			t.Logf("%d of %d samples are named", right, len(samples))
			assert.Greater(t, right, len(samples)*8/10)
		})
	}
}

// TestCallerBehindNobodyKnowsWhom: that nobody knows whose the byte before a function
// is does not mean that it is padding.
func TestCallerBehindNobodyKnowsWhom(t *testing.T) {
	functions := symtab.NewFunctions(remember)
	load := func(name string, start uint64, size uint32, from, to int64) {
		f := loadAt(functions, name, start, size, nowBoot-from*ms)
		functions.Unload(f, nowBoot-to*ms, symtab.Slack{})
	}
	load("f1", slot, 0x100, 10_000, 7_000)
	load("f2", slot+0x80, 0x80, 6_500, 1_000)
	loadAt(functions, "next", slot+0x100, 0x100, nowBoot-20_000*ms)
	// The wall clock was set back, so that the time of the sample was twice.
	boot, offset := nowBoot-9_000*ms, bootUnix
	tracker := realtime.NewTracker(time.Hour, func() (int64, int64) { return boot, offset })
	boot, offset = nowBoot-6_000*ms, offset-4_000*ms
	tracker.Now()
	known := knownAt(t, functions)
	boot = nowBoot
	known.Now, known.Clock = tracker.Now()
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: 1, Type: "native"}, Frame{Address: slot + 0x100, Type: "kernel"})
	timed(m, nowBoot-8_500*ms)
	New(withHistory).Rewrite(m.Profiles, known)
	assert.Equal(t, [][]string{{"", ""}}, stackNames(rewritetest.Samples(m.Profiles)))
}

// TestCallerAtAFunctionBehindAModule: where a module ends is a guess, and what begins
// behind its symbols is no part of it.
func TestCallerAtAFunctionBehindAModule(t *testing.T) {
	const base = 0xffffffffc0900000
	module := testModule(t, symtab.ModuleInfo{Name: "m", Origin: symtab.OriginModule, BuildID: "aa", Base: base, Start: base, End: base + 0x3000},
		func(add func(uint64, string)) {
			add(0, "m_first")
			add(0x100, "__pfx_m")
		})
	functions := symtab.NewFunctions(remember)
	loadAt(functions, "bpf_prog_0011223344556677_x", base+0x1000, 0x100, nowBoot-100_000*ms)
	known := knownAt(t, functions)
	known.Snapshot = symtab.NewSnapshot(append(known.Snapshot.Tables(), symtab.NewTable([]*symtab.Module{module}))...)
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: text + offB + 1}, Frame{Address: base + 0x1000})
	timed(m, nowBoot-9_000*ms)
	got, _ := rewriteTimed(t, withHistory, m, known)
	assert.Equal(t, [][]string{{"b", "bpf_prog_0011223344556677_x"}}, stackNames(got))
}

// TestLeafOfTheEBPFProfilerAtTheFirstByte: the profiler has taken 1 off, and the address
// of the function is nobody's business all the same.
func TestLeafOfTheEBPFProfilerAtTheFirstByte(t *testing.T) {
	functions := symtab.NewFunctions(remember)
	loadAt(functions, "bpf_prog_0123456789abcdef_x", slot, 0x100, nowBoot-10_000*ms)
	m := rewritetest.NewMessage().Profile(nil, ebpfScope).Sample(Frame{Address: slot - 1, Type: "kernel"})
	timed(m, nowBoot-1000*ms)
	got, _ := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	f := got[0].Stack[0]
	assert.Equal(t, "bpf_prog_0123456789abcdef_x", nameOf(f))
	assert.Zero(t, f.Address)
	assert.Equal(t, uint64(0x100), f.Mapping.Limit)
}

// TestManyTimedSamplesAreNotKept: what a message of many samples took is not held for
// the next.
func TestManyTimedSamplesAreNotKept(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	stack := m.LastSample().StackIndex()
	var stamps []int64
	for range maxKept + 1 {
		stamps = append(stamps, nowBoot-9_000*ms)
	}
	timed(m, stamps...)
	m.Sample()
	m.LastSample().SetStackIndex(stack)
	timed(m, nowBoot-5_000*ms)
	r := New(withHistory)
	r.Rewrite(m.Profiles, knownAt(t, story()))
	assert.Empty(t, r.idle)
}
