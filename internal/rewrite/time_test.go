// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const (
	// The kernel's clock began three hours before now, at this Unix time.
	bootUnix = 1_700_000_000_000 * ms
	nowBoot  = 3 * 3_600_000 * ms

	slot = 0xffffffffc0800000 // where functions come and go
)

// unix returns the Unix time of a time of the kernel's clock.
func unix(boot int64) uint64 { return uint64(bootUnix + boot) }

// knownAt returns the usual sources with more histories, all complete until now.
func knownAt(t testing.TB, histories ...*timeline.Builder) rewrite.Sources {
	t.Helper()
	tables := testSnapshot(t).Tables()
	for _, h := range histories {
		h.SetCertain(nowBoot)
		tables = append(tables, h.Table())
	}
	return rewrite.Sources{
		Snapshot: fixed(timeline.NewSnapshot(tables...)),
		Clock:    realtime.Fixed(bootUnix),
		Now:      nowBoot,
	}
}

var withHistory = rewrite.Options{History: 10 * time.Minute}

var remember = timeline.Limits{TTL: 10 * time.Minute, MaxEntries: 1 << 16}

func loadAt(functions *timeline.Builder, name string, start uint64, size uint32, from int64) *timeline.Image {
	functions.Load(timeline.NewFunction(timeline.OriginBPF, name, start, size, from))
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

// rewriteTimed rewrites a message, checks the rules for every message, and returns its samples and counts.
func rewriteTimed(t testing.TB, opts rewrite.Options, m *rewritetest.Message, known rewrite.Sources) ([]rewritetest.Sample, rewrite.Counts) {
	t.Helper()
	pd := m.Profiles
	require.NoError(t, rewritetest.CheckValid(pd), "before")
	_, counts := rewritten(t, rewrite.New(opts), pd, known)
	require.NoError(t, checkTyped(pd, opts))
	after := marshal(t, pd)
	rewritten(t, rewrite.New(opts), pd, known)
	require.Equal(t, after, marshal(t, pd), "contract 4.5: processing the output again changes nothing")
	return rewritetest.Samples(pd), counts
}

// story returns a history in which two functions had the same addresses, one after the other.
func story() *timeline.Builder {
	functions := timeline.NewBuilder(remember)
	a := loadAt(functions, "a", slot, 0x100, nowBoot-10_000*ms)
	functions.Unload(a, nowBoot-8_000*ms)
	b := loadAt(functions, "b", slot, 0x100, nowBoot-6_000*ms)
	functions.Unload(b, nowBoot-4_000*ms)
	return functions
}

func TestContract_5_5_SampleIsDividedByItsTimestamps(t *testing.T) {
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
	assert.Equal(t, 2, counts[rewrite.OutcomeResolved][timeline.OriginBPF])
	assert.Equal(t, 1, counts[rewrite.OutcomeResolved][timeline.OriginKernel])
	assert.Equal(t, 1, counts[rewrite.OutcomeUnresolved][timeline.OriginKernel])
}

// TestSampleWithOneValueIsNotDivided: the value may belong to any of the instants, so the sample's time is
// all of them.
func TestSampleWithOneValueIsNotDivided(t *testing.T) {
	for want, stamps := range map[string][]int64{
		"":  {nowBoot - 9_000*ms, nowBoot - 5_000*ms, nowBoot - 5_001*ms},
		"b": {nowBoot - 4_500*ms, nowBoot - 5_000*ms, nowBoot - 5_001*ms},
	} {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
		timed(m, stamps...)
		m.LastSample().Values().FromRaw([]int64{7})
		got, _ := rewriteTimed(t, withHistory, m, knownAt(t, story()))
		assert.Equal(t, [][]string{{want}}, stackNames(got))
		assert.Equal(t, []int64{7}, got[0].Values)
	}
}

// TestContract_5_4_ProfileWithoutTimestamps: only code that was loaded throughout the profile has a name.
func TestContract_5_4_ProfileWithoutTimestamps(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from, to int64 // before now
		want     string
		outcome  rewrite.Outcome
	}{
		{"while a was there", 9_500, 9_000, "a", rewrite.OutcomeResolved},
		{"a for most of it", 9_500, 7_500, "", rewrite.OutcomeUnresolved},
		{"a, and then b", 9_500, 5_500, "", rewrite.OutcomeAmbiguous},
		{"b for most of it", 8_200, 4_000, "", rewrite.OutcomeAmbiguous},
		{"from a's first instant", 9_999, 8_001, "a", rewrite.OutcomeResolved},
		{"before a's first instant", 10_001, 8_001, "", rewrite.OutcomeUnresolved},
		{"in between", 7_000, 6_500, "", rewrite.OutcomeUnresolved},
		{"after both", 3_000, 1_000, "", rewrite.OutcomeUnresolved},
		{"before both", 20_000, 11_000, "", rewrite.OutcomeUnresolved},
		{"an instant", 9_000, 9_000, "a", rewrite.OutcomeResolved},
		{"into what is not known yet", 3_000, -1_000, "", rewrite.OutcomeUnobserved},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
			profileOf(m, 0).SetTime(pcommon.Timestamp(unix(nowBoot - tt.from*ms)))
			profileOf(m, 0).SetDurationNano(uint64((tt.from - tt.to) * ms))
			got, counts := rewriteTimed(t, withHistory, m, knownAt(t, story()))
			assert.Equal(t, [][]string{{tt.want}}, stackNames(got))
			origin := timeline.OriginKernel
			if tt.want != "" {
				origin = timeline.OriginBPF
			}
			assert.Equal(t, one(tt.outcome, origin), counts)
		})
	}
}

// TestContract_5_4_Guard: a program can run on for some milliseconds after its unload is recorded, so times
// near that are not certain.
func TestContract_5_4_Guard(t *testing.T) {
	const change = nowBoot - 5_000*ms
	functions := timeline.NewBuilder(remember)
	functions.Unload(loadAt(functions, "a", slot, 0x100, change-1_000*ms), change)
	loadAt(functions, "b", slot, 0x100, change+2*ms)
	for at, want := range map[int64]string{
		change - 4*ms:   "a",
		change - 2*ms:   "",
		change + ms:     "",
		change + 4*ms:   "",
		change + 6*ms:   "b",
		change - 999*ms: "a",
	} {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
		timed(m, at)
		got, counts := rewriteTimed(t, withHistory, m, knownAt(t, functions))
		assert.Equal(t, [][]string{{want}}, stackNames(got), "%d ms after the change", (at-change)/ms)
		if want == "" && at != change+ms {
			assert.Equal(t, one(rewrite.OutcomeAmbiguous, timeline.OriginKernel), counts)
		}
	}
}

// TestContract_5_4_BlindTime: code that was certainly loaded throughout has a name although records may be
// missing. Other code has none and counts as unobserved.
func TestContract_5_4_BlindTime(t *testing.T) {
	functions := timeline.NewBuilder(remember)
	loadAt(functions, "throughout", slot, 0x100, nowBoot-10_000*ms)
	functions.Unload(loadAt(functions, "before", slot+0x100, 0x100, nowBoot-10_000*ms), nowBoot-6_000*ms)
	loadAt(functions, "after", slot+0x200, 0x100, nowBoot-4_000*ms)
	functions.AddBlind(timeline.Interval{From: nowBoot - 6_000*ms, To: nowBoot - 4_000*ms})
	m := rewritetest.NewMessage().Profile(nil, "").
		Sample(Frame{Address: slot + 8}, Frame{Address: slot + 0x108}, Frame{Address: slot + 0x208})
	timed(m, nowBoot-5_000*ms)
	got, counts := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	assert.Equal(t, [][]string{{"throughout", "", ""}}, stackNames(got))
	assert.Equal(t, 2, counts[rewrite.OutcomeUnobserved][timeline.OriginKernel])
	assert.Equal(t, 1, counts[rewrite.OutcomeResolved][timeline.OriginBPF])
}

// TestOffClocks: times that cannot come from this machine's clock give no names of code that comes and goes,
// and are counted.
func TestOffClocks(t *testing.T) {
	functions := story()
	loadAt(functions, "c", slot, 0x100, nowBoot-3_000*ms) // loaded now
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
		{"an hour ago", []int64{nowBoot - hour, nowBoot - hour + ms}, nowBoot - hour, [][]string{{""}}, 1},
		{"before the boot", []int64{-hour}, -hour, [][]string{{""}}, 1},
		{"in an hour", []int64{nowBoot + hour}, nowBoot + hour, [][]string{{""}}, 1},
		{"one in an hour", []int64{nowBoot - 9_000*ms, nowBoot - 9_001*ms, nowBoot + hour}, nowBoot - 9_500*ms, [][]string{{"a"}, {""}}, 0},
		{"timestamp 0", []int64{-bootUnix}, nowBoot - 9_500*ms, [][]string{{""}}, 1},
		{"nothing at all", nil, -bootUnix, [][]string{{""}}, 0},
		{"no number at all", []int64{math.MaxInt64}, math.MaxInt64 - bootUnix, [][]string{{""}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
			timed(m, tt.stamps...)
			profileOf(m, 0).SetTime(pcommon.Timestamp(unix(tt.header)))
			r := rewrite.New(withHistory)
			rewritten(t, r, m.Profiles, known)
			assert.Equal(t, tt.want, stackNames(rewritetest.Samples(m.Profiles)))
			assert.Equal(t, tt.off, r.ClockOff())
		})
	}
}

// TestClockThatWasSetBack: a time that the clock showed twice has an answer if both give the same one.
func TestClockThatWasSetBack(t *testing.T) {
	functions := story()
	boot, offset := nowBoot-9_000*ms, bootUnix
	tracker := realtime.NewTracker(time.Hour, func() realtime.Reading { return realtime.Reading{Boot: boot, Offset: offset} })
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
		{unix(nowBoot - 9_500*ms), ""},  // shown while a was loaded, and four seconds later, with b
		{unix(nowBoot - 10_500*ms), ""}, // neither
		{unix(nowBoot - 8_000*ms - 4_000*ms - 1), ""},
	} {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
		m.LastSample().TimestampsUnixNano().Append(tt.unix)
		got, _ := rewriteTimed(t, withHistory, m, known)
		assert.Equal(t, [][]string{{tt.want}}, stackNames(got))
	}
	// Set back by four seconds, the clock showed the same times twice: with a loaded, and with b.
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	m.LastSample().TimestampsUnixNano().Append(unix(nowBoot - 5_000*ms - 4_000*ms))
	got, _ := rewriteTimed(t, withHistory, m, known)
	assert.Equal(t, [][]string{{""}}, stackNames(got), "a or b")
	m = rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: text + offB + 1})
	m.LastSample().TimestampsUnixNano().Append(unix(nowBoot - 9_000*ms))
	got, _ = rewriteTimed(t, withHistory, m, known)
	assert.Equal(t, [][]string{{"b"}}, stackNames(got), "the core is always there")
}

// TestContract_5_3_ForgottenSteps: the wall clock was set back by 30 s more than an hour ago, and is set
// again now. A sample from before the first step saw a. Converted with the present offset, its time would be
// b's.
func TestContract_5_3_ForgottenSteps(t *testing.T) {
	const second = 1000 * ms
	start := nowBoot - (3600+4000+10)*second
	boot, offset := start, bootUnix
	tracker := realtime.NewTracker(time.Hour, func() realtime.Reading { return realtime.Reading{Boot: boot, Offset: offset} })
	pass := func(seconds int64) (clock *realtime.Clock) {
		for end := boot + seconds*second; boot < end; {
			boot += 10 * second
			_, clock = tracker.Now()
		}
		return clock
	}
	pass(3600)
	at := boot - 600*second
	unix := uint64(at + offset)
	offset -= 30 * second
	pass(4000)
	offset += second
	clock := pass(10)
	functions := timeline.NewBuilder(remember)
	functions.AddBlind(timeline.Interval{From: -1 << 63, To: start})
	functions.Unload(loadAt(functions, "a", slot, 0x100, at-10*second), at+10*second)
	functions.Evict(boot)
	loadAt(functions, "b", slot, 0x100, at+20*second)
	known := knownAt(t, functions)
	known.Clock = clock
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8}, Frame{Address: text + offB + 1})
	m.LastSample().TimestampsUnixNano().Append(unix)
	got, _ := rewriteTimed(t, withHistory, m, known)
	assert.Equal(t, [][]string{{"", "b"}}, stackNames(got), "the core is always there")
}

// TestContract_2_1_AnotherBoot verifies that a profile from before this boot is left alone: the kernel was loaded elsewhere.
func TestContract_2_1_AnotherBoot(t *testing.T) {
	const second = 1000 * ms
	for _, tt := range []struct {
		name          string
		time, stamp   int64 // on the clock of this boot; 0 if there is none
		isAnotherBoot bool
	}{
		{"by its time", -60 * second, -59 * second, true},
		{"by its timestamp", 0, -59 * second, true},
		{"by its time, without timestamps", -60 * second, 0, true},
		{"now", nowBoot - second, nowBoot - second, false},
		{"at the start", -second / 2, second / 2, false}, // it took a second
		{"without a time", 0, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: text + offB + 1, Type: "kernel"})
			profile := m.LastProfile()
			profile.SetTime(0)
			if tt.time != 0 {
				profile.SetTime(pcommon.Timestamp(unix(tt.time)))
				profile.SetDurationNano(uint64(second))
			}
			if tt.stamp != 0 {
				timed(m, tt.stamp)
			}
			before := marshal(t, m.Profiles)
			got, counts := rewriteTimed(t, rewrite.Options{}, m, knownAt(t))
			if tt.isAnotherBoot {
				assert.Equal(t, before, marshal(t, m.Profiles))
				assert.Equal(t, 1, counts[rewrite.OutcomeForeign][timeline.OriginKernel])
			} else {
				assert.Equal(t, [][]string{{"b"}}, stackNames(got))
			}
		})
	}
}

// TestEvicted: forgotten images leave blind time, in which only code that was certainly loaded has a name.
func TestEvicted(t *testing.T) {
	functions := timeline.NewBuilder(timeline.Limits{TTL: time.Minute, MaxEntries: 1})
	for i, name := range []string{"first", "second"} {
		f := loadAt(functions, name, slot+uint64(i)*0x100, 0x100, nowBoot-20_000*ms)
		functions.Unload(f, nowBoot-int64(6-i)*1_000*ms)
	}
	loadAt(functions, "elsewhere", slot+0x1000, 0x100, nowBoot-20_000*ms)
	functions.Evict(nowBoot)
	m := rewritetest.NewMessage().Profile(nil, "")
	for _, addr := range []uint64{slot + 8, slot + 0x108, slot + 0x1008, slot + 0x2000} {
		m.Sample(Frame{Address: addr})
		timed(m, nowBoot-15_000*ms)
	}
	got, counts := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	assert.Equal(t, [][]string{{""}, {"second"}, {"elsewhere"}, {""}}, stackNames(got))
	assert.Equal(t, 2, counts[rewrite.OutcomeUnobserved][timeline.OriginKernel])
	assert.Equal(t, 2, counts[rewrite.OutcomeResolved][timeline.OriginBPF])
}

// TestClockSteps: whatever happens to the wall clock, a sample never gets the name of code that was loaded at
// another time.
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
			functions := timeline.NewBuilder(remember)
			boot, offset := nowBoot, bootUnix
			tracker := realtime.NewTracker(time.Hour, func() realtime.Reading { return realtime.Reading{Boot: boot, Offset: offset} })
			type sample struct {
				unix uint64
				want string
			}
			var samples []sample
			var f *timeline.Image
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
				functions.Unload(f, boot)
				boot += 6 * ms
				if i%2 == 1 {
					tracker.Now()
				}
			}
			boot += 10_000 * ms
			functions.SetCertain(boot)
			known := rewrite.Sources{Snapshot: fixed(timeline.NewSnapshot(functions.Table()))}
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
			if tt.set == 0 {
				assert.Greater(t, right, len(samples)*8/10)
			}
		})
	}
}

// TestCallerBehindNobodyKnowsWhom: if the owner of the byte before a function is unknown, that byte is not
// taken for padding.
func TestCallerBehindNobodyKnowsWhom(t *testing.T) {
	functions := timeline.NewBuilder(remember)
	load := func(name string, start uint64, size uint32, from, to int64) {
		f := loadAt(functions, name, start, size, nowBoot-from*ms)
		functions.Unload(f, nowBoot-to*ms)
	}
	load("f1", slot, 0x100, 10_000, 7_000)
	load("f2", slot+0x80, 0x80, 6_500, 1_000)
	loadAt(functions, "next", slot+0x100, 0x100, nowBoot-20_000*ms)
	// The wall clock was set back, so it showed the time of the sample twice.
	boot, offset := nowBoot-9_000*ms, bootUnix
	tracker := realtime.NewTracker(time.Hour, func() realtime.Reading { return realtime.Reading{Boot: boot, Offset: offset} })
	boot, offset = nowBoot-6_000*ms, offset-4_000*ms
	tracker.Now()
	known := knownAt(t, functions)
	boot = nowBoot
	known.Now, known.Clock = tracker.Now()
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: 1, Type: "native"}, Frame{Address: slot + 0x100, Type: "kernel"})
	timed(m, nowBoot-8_500*ms)
	rewritten(t, rewrite.New(withHistory), m.Profiles, known)
	assert.Equal(t, [][]string{{"", ""}}, stackNames(rewritetest.Samples(m.Profiles)))
}

// TestLeafOfTheEBPFProfilerAtTheFirstByte: the profiler has subtracted 1, so the address lies outside the
// function and has no relative form.
func TestLeafOfTheEBPFProfilerAtTheFirstByte(t *testing.T) {
	functions := timeline.NewBuilder(remember)
	loadAt(functions, "bpf_prog_0123456789abcdef_x", slot, 0x100, nowBoot-10_000*ms)
	m := rewritetest.NewMessage().Profile(nil, ebpfScope).Sample(Frame{Address: slot - 1, Type: "kernel"})
	timed(m, nowBoot-1000*ms)
	got, _ := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	f := got[0].Stack[0]
	assert.Equal(t, "bpf_prog_0123456789abcdef_x", nameIn(f))
	assert.Equal(t, uint64(slot-1), f.Address)
	assert.Equal(t, &Mapping{File: "[bpf]"}, f.Mapping)
}

// TestManyTimedSamplesAreNotKept verifies that the memory for a message with many samples is not kept for the
// next one.
func TestManyTimedSamplesAreNotKept(t *testing.T) {
	const instants = 1 << 20
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	stack := m.LastSample().StackIndex()
	var stamps []int64
	for range instants {
		stamps = append(stamps, nowBoot-9_000*ms)
	}
	timed(m, stamps...)
	m.Sample()
	m.LastSample().SetStackIndex(stack)
	timed(m, nowBoot-5_000*ms)
	r, sources := rewrite.New(withHistory), knownAt(t, story())
	twin := pprofile.NewProfiles()
	m.Profiles.CopyTo(twin)
	r.Rewrite(m.Profiles, sources)
	assert.Greater(t, allocated(func() { r.Rewrite(twin, sources) }), uint64(instants))
}

// TestTimesThatNoClockShowed: a sample with such a time gets the same name whether or not other samples come
// with it.
func TestTimesThatNoClockShowed(t *testing.T) {
	const sec = 1000 * ms
	boot, offset := nowBoot-3000*sec, bootUnix
	tracker := realtime.NewTracker(time.Hour, func() realtime.Reading { return realtime.Reading{Boot: boot, Offset: offset} })
	run := func(d int64) (c *realtime.Clock) {
		for end := boot + d; boot < end; {
			boot += 10 * sec
			_, c = tracker.Now()
		}
		return c
	}
	run(2400 * sec)
	set := boot
	offset += 3600 * sec
	clock := run(600 * sec)
	functions := timeline.NewBuilder(remember)
	loadAt(functions, "prog", slot, 0x100, set-120*sec)
	known := knownAt(t, functions)
	known.Clock = clock
	last := func(stamps ...int64) string {
		m := rewritetest.NewMessage().Profile(nil, "")
		for _, stamp := range stamps {
			m.Sample(Frame{Address: slot + 8})
			m.LastSample().TimestampsUnixNano().Append(uint64(stamp))
		}
		got, _ := rewriteTimed(t, withHistory, m, known)
		return nameIn(got[len(got)-1].Stack[0])
	}
	never := set + 400*sec + bootUnix
	assert.Equal(t, last(never), last(set-60*sec+bootUnix, never))
}
