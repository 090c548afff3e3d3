package rewrite

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// owned is when a function had addresses, for the oracle.
type owned struct {
	name       string
	start, end uint64
	at         symtab.Interval // certainly
	possible   symtab.Interval // as records were lost
}

// ownerAt is section 5.2 of the contract, word by word.
func ownerAt(all []owned, addr uint64, at symtab.Interval) (best *owned) {
	length := func(a, b symtab.Interval) int64 { return max(0, min(a.To, b.To)-max(a.From, b.From)) }
	var there []*owned // one after the other
	for i := range all {
		if o := &all[i]; o.start <= addr && addr < o.end {
			there = append(there, o)
		}
	}
	wide := symtab.Interval{From: at.From - 5*ms, To: at.To + 5*ms}
	var most [3]int64
	candidates := 0
	for i, o := range there {
		possible := o.possible // but not while another certainly was there
		if i > 0 {
			possible.From = max(possible.From, there[i-1].at.To)
		}
		if i+1 < len(there) {
			possible.To = min(possible.To, there[i+1].at.From)
		}
		has := [3]int64{length(o.at, at), length(o.at, wide), length(possible, wide)}
		if has[2] == 0 {
			continue
		}
		candidates++
		if has[0] > 0 {
			has[1], has[2] = 0, 0 // a tie goes to the later
		}
		if best == nil || slices.Compare(has[:], most[:]) >= 0 {
			best, most = o, has
		}
	}
	if candidates > 1 && most[0] == 0 && most[1] == 0 {
		return nil // nobody knows
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
		{name: "b", start: text + offB, end: text + offC, at: always, possible: always},
		{name: "c", start: text + offC, end: text + 0x100, at: always, possible: always},
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
			o.possible = o.at
			if r.IntN(8) == 0 || o.at.To >= nowBoot {
				o.at.To, o.possible.To = math.MaxInt64, math.MaxInt64
				all = append(all, o)
				break
			}
			var slack symtab.Slack
			if r.IntN(6) == 0 { // the record was lost, and it was missed at a resync
				lost := r.Int64N(40) * ms
				o.possible.To += lost
				slack = symtab.NewSlack(0, time.Duration(lost))
			}
			functions.Unload(f, o.at.To, slack)
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
	for seed := range uint64(1000) {
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

// FuzzTime is TestModelOfTime with more seeds.
func FuzzTime(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, 13*seed)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) { checkModelOfTime(t, rand.New(rand.NewPCG(a, b)), a) })
}

// life is for how long a function is in a place, before the next takes it.
const life = 20 * ms

// inhabitant is the name of who is in a place at some time.
func inhabitant(place uint64, at int64) string { return fmt.Sprintf("p%d_%d", place, at/life) }

// TestHistoryGrowsAndExpiresMeanwhile rewrites messages while places change hands all
// the time and what is too old is forgotten.
func TestHistoryGrowsAndExpiresMeanwhile(t *testing.T) {
	const places = 8
	ttl := time.Second
	functions := symtab.NewFunctions(symtab.History{TTL: ttl, MaxEntries: 1 << 16})
	var known atomic.Pointer[Known]
	publish := func(now int64) {
		known.Store(&Known{Snapshot: symtab.NewSnapshot(functions.Table()), Clock: realtime.Fixed(bootUnix), Now: now})
	}
	begin := nowBoot - nowBoot%life
	move := func(at int64) {
		for place := range uint64(places) {
			start := slot + place*0x40
			if f := functions.At(start); f != nil {
				functions.Unload(f, at, symtab.Slack{})
			}
			loadAt(functions, inhabitant(place, at), start, 0x40, at)
		}
		functions.Expire(at)
		publish(at)
	}
	move(begin)
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for at := begin + life; ; at += life {
			select {
			case <-stop:
				return
			default:
				move(at)
			}
		}
	})
	defer wait.Wait()
	defer close(stop)
	rewriter := New(Options{History: ttl})
	r := rand.New(rand.NewPCG(5, 6))
	right := 0
	for range 1000 {
		k := *known.Load()
		oldest := max(begin, k.Now-int64(ttl))
		m := rewritetest.NewMessage().Profile(nil, "")
		place := r.Uint64N(places)
		m.Sample(Frame{Address: slot + place*0x40 + 8, Type: "kernel"})
		stamps := []int64{max(begin, k.Now-1)} // most are not too old, else the clock was off
		for range r.IntN(4) {
			stamps = append(stamps, max(begin, k.Now-r.Int64N(int64(ttl)*9/10)))
		}
		for range r.IntN(len(stamps) + 1) {
			stamps = append(stamps, max(begin, k.Now-int64(ttl)-r.Int64N(int64(ttl)/4)))
		}
		timed(m, stamps...)
		m.LastSample().AttributeIndices().Append(m.Attribute("id", 0))
		rewriter.Rewrite(m.Profiles, k)
		for _, got := range instantsOf(m) {
			at := int64(got.stamp) - bootUnix
			want := inhabitant(place, at) + ";"
			if got.names != want {
				require.Equal(t, ";", got.names, "%d ms before now, not %s", (k.Now-at)/ms, want)
				require.LessOrEqual(t, at, oldest+life, "it is not too old")
				continue
			}
			right++
		}
	}
	assert.Positive(t, right)
}
