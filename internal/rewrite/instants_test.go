// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// instantNames are the names of a stack at an instant of a sample.
type instantNames struct {
	sample int64
	stamp  uint64
	names  string
}

// instantsOf returns the names at all instants of a message whose samples have an
// attribute "id".
func instantsOf(m *rewritetest.Message) (got []instantNames) {
	d := m.Profiles.Dictionary()
	for _, rp := range m.Profiles.ResourceProfiles().All() {
		for _, s := range rp.ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
			i := instantNames{sample: d.AttributeTable().At(int(s.AttributeIndices().At(0))).Value().Int()}
			for _, loc := range d.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
				i.names += nameIn(rewritetest.FrameAt(d, loc)) + ";"
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

// life is how long a function has an address before the next one takes it.
const life = 20 * ms

// inhabitant returns the name of the function that has an address at a time.
func inhabitant(place uint64, at int64) string { return fmt.Sprintf("p%d_%d", place, at/life) }

// TestHistoryGrowsAndIsEvictedMeanwhile rewrites messages while addresses keep changing hands and old entries
// are evicted.
func TestHistoryGrowsAndIsEvictedMeanwhile(t *testing.T) {
	const places = 8
	ttl := time.Second
	functions := timeline.NewBuilder(timeline.Limits{TTL: ttl, MaxEntries: 1 << 16})
	var known atomic.Pointer[rewrite.Sources]
	begin := nowBoot - nowBoot%life
	move := func(at int64) {
		for place := range uint64(places) {
			start := slot + place*0x40
			if f := functions.At(start); f != nil {
				functions.Unload(f, at)
			}
			loadAt(functions, inhabitant(place, at), start, 0x40, at)
		}
		functions.Evict(at)
		functions.SetCertain(at)
		known.Store(&rewrite.Sources{Snapshot: fixed(timeline.NewSnapshot(functions.Table())), Clock: realtime.Fixed(bootUnix), Now: at})
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
	rewriter := rewrite.New(rewrite.Options{History: ttl})
	r := rand.New(rand.NewPCG(5, 6))
	right := 0
	for range 1000 {
		k := *known.Load()
		oldest := max(begin, k.Now-int64(ttl))
		m := rewritetest.NewMessage().Profile(nil, "")
		place := r.Uint64N(places)
		m.Sample(Frame{Address: slot + place*0x40 + 8, Type: "kernel"})
		var stamps []int64
		for range 1 + r.IntN(4) {
			stamps = append(stamps, max(begin, k.Now-r.Int64N(int64(ttl)*5/4)))
		}
		timed(m, stamps...)
		m.LastSample().AttributeIndices().Append(m.Attribute("id", 0))
		rewritten(t, rewriter, m.Profiles, k)
		for _, got := range instantsOf(m) {
			at := int64(got.stamp) - bootUnix
			if want := inhabitant(place, at) + ";"; got.names == want {
				right++
				continue
			}
			require.Equal(t, ";", got.names, "%d ms before now", (k.Now-at)/ms)
			nearAChange := at%life < 6*ms || at%life > life-6*ms
			require.True(t, nearAChange || at < oldest+life || at >= k.Now, "%d ms before now, %d in its life", (k.Now-at)/ms, at%life/ms)
		}
	}
	assert.Positive(t, right)
}
