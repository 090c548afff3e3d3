package rewrite

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	return f
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
		f := loadAt(functions, name, slot, 0x100, nowBoot-int64(len(functions.All())+10)*1000*ms)
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

// owned is when a function had addresses, for the oracle.
type owned struct {
	name       string
	start, end uint64
	at         symtab.Interval
}

// ownerAt is section 5.2 of the contract, word by word.
func ownerAt(all []owned, addr uint64, at symtab.Interval) (best *owned) {
	length := func(a, b symtab.Interval) int64 { return max(0, min(a.To, b.To)-max(a.From, b.From)) }
	wide := symtab.Interval{From: at.From - 5*ms, To: at.To + 5*ms}
	var most, near int64
	for i := range all {
		o := &all[i]
		if addr < o.start || addr >= o.end || length(o.at, wide) == 0 {
			continue
		}
		if l, n := length(o.at, at), length(o.at, wide); l > most || l == most && (l > 0 || n >= near) {
			best, most, near = o, l, n
		}
	}
	return best
}

// expectedAt is the name of a frame at an instant.
func expectedAt(all []owned, addr uint64, position int, scope string, at symtab.Interval) string {
	look := addr
	switch {
	case position > 0:
		look = addr - 1
	case scope == ebpfScope:
		look = addr + 1
	}
	if o := ownerAt(all, look, at); o != nil {
		return o.name
	}
	if position > 0 {
		if o := ownerAt(all, addr, at); o != nil && o.start == addr {
			return o.name
		}
	}
	return ""
}

// randomHistory loads and unloads functions in a few places, always with the same
// addresses and now and then with others.
func randomHistory(r *rand.Rand) (*symtab.Functions, []owned) {
	functions := symtab.NewFunctions(remember)
	always := symtab.Interval{From: 0, To: math.MaxInt64}
	all := []owned{
		{name: "b", start: text + offB, end: text + offC, at: always},
		{name: "c", start: text + offC, end: text + 0x100, at: always},
	}
	for place := range 3 {
		at := nowBoot - 300*ms
		for at < nowBoot {
			o := owned{name: fmt.Sprintf("f%d_%d", place, len(all)), start: slot + uint64(place)*0x40}
			o.end = o.start + 0x40
			if r.IntN(4) == 0 {
				o.end -= 0x10
			}
			o.at = symtab.Interval{From: at, To: at + r.Int64N(100)*ms + 1}
			f := loadAt(functions, o.name, o.start, uint32(o.end-o.start), at)
			if r.IntN(8) == 0 || o.at.To >= nowBoot {
				o.at.To = math.MaxInt64
				all = append(all, o)
				break
			}
			functions.Unload(f, o.at.To, symtab.Slack{})
			all = append(all, o)
			at = o.at.To
			if r.IntN(2) == 0 {
				at += r.Int64N(20) * ms
			}
		}
	}
	return functions, all
}

// instantNames are the names of a stack at an instant of a sample.
type instantNames struct {
	sample int64
	stamp  uint64
	names  string
}

// TestModelOfTime rewrites random messages with a random history, and holds every
// instant of every sample against the oracle.
func TestModelOfTime(t *testing.T) {
	for seed := range uint64(3000) {
		checkModelOfTime(t, rand.New(rand.NewPCG(seed, 11)), seed)
	}
}

func checkModelOfTime(t *testing.T, r *rand.Rand, seed uint64) {
	t.Helper()
	functions, all := randomHistory(r)
	var frames []uint64
	for range 5 {
		frames = append(frames, slot+uint64(r.IntN(4))*0x40+uint64(r.IntN(4))*0x10)
	}
	frames = append(frames, text+offB, text+offB+4, text+offC)
	m := rewritetest.NewMessage()
	var want []instantNames
	id := int64(0)
	for p := range 1 + r.IntN(3) {
		scope := []string{"scope", ebpfScope}[r.IntN(2)]
		m.Profile(nil, scope)
		profile := m.Profiles.ResourceProfiles().At(p).ScopeProfiles().At(0).Profiles().At(0)
		header := symtab.Interval{From: nowBoot - r.Int64N(350)*ms, To: nowBoot}
		header.To = header.From + max(1, r.Int64N(100)*ms*int64(r.IntN(2)))
		profile.SetTime(pcommon.Timestamp(unix(header.From)))
		profile.SetDurationNano(uint64(header.To - header.From))
		for range r.IntN(6) {
			var stack []Frame
			var addrs []uint64
			for range 1 + r.IntN(3) {
				addr := frames[r.IntN(len(frames))]
				stack, addrs = append(stack, Frame{Address: addr, Type: "kernel"}), append(addrs, addr)
			}
			m.Sample(stack...)
			names := func(at symtab.Interval) (s string) {
				for position, addr := range addrs {
					s += expectedAt(all, addr, position, scope, at) + ";"
				}
				return s
			}
			id++
			s := m.LastSample()
			s.AttributeIndices().Append(m.Attribute("id", id))
			var stamps []int64
			for range r.IntN(4) {
				stamps = append(stamps, nowBoot-r.Int64N(300*1000)*1000)
			}
			s.Values().FromRaw(nil)
			for _, at := range stamps {
				s.TimestampsUnixNano().Append(unix(at))
				want = append(want, instantNames{id, unix(at), names(symtab.Instant(at))})
			}
			if len(stamps) == 0 {
				s.Values().Append(1)
				want = append(want, instantNames{id, 0, names(header)})
			}
		}
	}
	rewriteTimed(t, withHistory, m, knownAt(t, functions))
	require.ElementsMatch(t, want, instantsOf(m), "seed %d: %+v", seed, all)
}

// instantsOf returns the names at all instants of a message whose samples have an
// attribute "id".
func instantsOf(m *rewritetest.Message) (got []instantNames) {
	d := m.Profiles.Dictionary()
	for _, rp := range m.Profiles.ResourceProfiles().All() {
		for _, s := range rp.ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
			i := instantNames{sample: d.AttributeTable().At(int(s.AttributeIndices().At(0))).Value().Int()}
			for _, loc := range d.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
				i.names += nameOf(rewritetest.FrameAt(d, loc)) + ";"
			}
			stamps := s.TimestampsUnixNano().AsRaw()
			if len(stamps) == 0 {
				stamps = []uint64{0}
			}
			for _, i.stamp = range slices.All(stamps) {
				got = append(got, i)
			}
		}
	}
	return got
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
