// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// manyOwners returns a history in which many functions had the same address in turn, each for 7 ms.
func manyOwners(n int) *timeline.Builder {
	functions := timeline.NewBuilder(remember)
	for i := range int64(n) {
		f := loadAt(functions, fmt.Sprint("p", i), slot, 0x100, owned(i)-3*ms)
		functions.Unload(f, owned(i)+4*ms)
	}
	return functions
}

// owned returns an instant at which only owner i can have had the address.
func owned(i int64) int64 { return firstOwner + i*20*ms }

const firstOwner = nowBoot - 500_000*ms

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// allocatedBy is allocated for a function that rewrites pd. It also checks the rules for every message.
func allocatedBy(t testing.TB, pd pprofile.Profiles, f func()) uint64 {
	t.Helper()
	before := copied(pd)
	n := allocated(f)
	require.NoError(t, rewritetest.CheckRewritten(before, pd))
	return n
}

// needTime skips a test of large messages with -short (see rewritetest.Rounds).
func needTime(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: large messages take minutes under the race detector")
	}
}

// TestManyInstantsOfADeepStack: the cost of a small message is proportional to its size, even if each instant
// has another owner.
func TestManyInstantsOfADeepStack(t *testing.T) {
	needTime(t)
	const owners = 4000
	known := knownAt(t, manyOwners(owners))
	for _, tt := range []struct{ instants, depth, samples, attributes int }{
		{4000, 8, 1, 0}, {4000, 100, 1, 0}, {1000, 1000, 1, 0}, {300, 300, 1, 0},
		{4000, 32_000, 1, 0}, {100, 300, 40, 0}, {1, 300, 4000, 0}, {4000, 1, 1, 30_000}, {1, 1, 4000, 30_000},
	} {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
		d := m.Profiles.Dictionary()
		stack := m.LastSample().StackIndex()
		indices := d.StackTable().At(int(stack)).LocationIndices()
		for loc := indices.At(0); indices.Len() < tt.depth; {
			indices.Append(loc)
		}
		other := m.Attribute("x", "y")
		for range tt.attributes {
			d.LocationTable().At(int(indices.At(0))).AttributeIndices().Append(other)
			m.LastSample().AttributeIndices().Append(other)
		}
		for n := range tt.samples {
			if n > 0 {
				m.Sample()
				m.LastSample().SetStackIndex(stack)
			}
			var stamps []int64
			for i := range tt.instants {
				stamps = append(stamps, owned(int64((n*tt.instants+i)%owners)))
			}
			timed(m, stamps...)
		}
		size := uint64(len(marshal(t, m.Profiles)))
		began := time.Now()
		got := allocatedBy(t, m.Profiles, func() { rewrite.New(withHistory).Rewrite(m.Profiles, known) })
		t.Logf("%+v: %d bytes made it allocate %.1f times as much, in %v", tt, size, float64(got)/float64(size), time.Since(began))
		// Each owner with a name needs a location, a mapping, a function and attributes.
		assert.Less(t, got, 2<<20+100*size+owners*4<<10, "%+v", tt)
	}
}

// TestDividedSamplesWithManyAttributes: each part of a divided sample has all attributes of the sample, and
// that has a bounded cost, even if an earlier sample paid for the lookups.
func TestDividedSamplesWithManyAttributes(t *testing.T) {
	const instants, attributes, samples = 400, 5000, 20
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	stack, other := m.LastSample().StackIndex(), m.Attribute("x", "y")
	for n := range samples {
		if n > 0 {
			m.Sample()
			m.LastSample().SetStackIndex(stack)
			for range attributes {
				m.LastSample().AttributeIndices().Append(other)
			}
		}
		var stamps []int64
		for i := range int64(instants) {
			stamps = append(stamps, owned(i))
		}
		timed(m, stamps...)
	}
	size := uint64(len(marshal(t, m.Profiles)))
	got := allocated(func() { rewrite.New(withHistory).Rewrite(m.Profiles, knownAt(t, manyOwners(instants))) })
	t.Logf("%d bytes made it allocate %.1f times as much", size, float64(got)/float64(size))
	assert.Less(t, got, 2<<20+100*size)
	assert.Greater(t, len(rewritetest.Samples(m.Profiles)), samples, "the first is divided")
}

// TestDeepStacksHaveTheirNames: the bounds are far above the needs of real profiles, whose stacks have
// hundreds of frames, a few of them in code that comes and goes.
func TestDeepStacksHaveTheirNames(t *testing.T) {
	needTime(t)
	for _, tt := range []struct{ depth, stacks, samples int }{{1000, 1, 5000}, {300, 50, 100}, {127, 1, 10_000}} {
		m := rewritetest.NewMessage().Profile(nil, "")
		var want []string
		for k := range tt.stacks {
			frames := []Frame{{Address: slot + 8}, {Address: slot + 9}}
			for i := len(frames); i < tt.depth; i++ {
				frames = append(frames, Frame{Address: uint64(0x400000 + k<<16 + i), Type: "native"})
			}
			m.Sample(frames...)
			stack := m.LastSample().StackIndex()
			for i := range tt.samples {
				if i > 0 {
					m.Sample()
					m.LastSample().SetStackIndex(stack)
				}
				name, at := "a", nowBoot-9_000*ms
				if i%4 == 1 {
					name, at = "b", nowBoot-5_000*ms
				}
				want = append(want, name)
				timed(m, at)
			}
		}
		rewritten(t, rewrite.New(withHistory), m.Profiles, knownAt(t, story()))
		var got []string
		d := m.Profiles.Dictionary()
		for _, s := range m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
			indices := d.StackTable().At(int(s.StackIndex())).LocationIndices()
			require.Equal(t, tt.depth, indices.Len())
			leaf, caller := nameIn(rewritetest.FrameAt(d, indices.At(0))), nameIn(rewritetest.FrameAt(d, indices.At(1)))
			require.Equal(t, leaf, caller)
			got = append(got, leaf)
		}
		require.Equal(t, want, got, "%+v", tt)
	}
}

// TestOneStackTooLarge: a stack that exceeds the bound costs other stacks nothing, and leaves no unused
// entries.
func TestOneStackTooLarge(t *testing.T) {
	known := knownAt(t, manyOwners(1000))
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	d := m.Profiles.Dictionary()
	indices := d.StackTable().At(int(m.LastSample().StackIndex())).LocationIndices()
	user := m.Location(Frame{Address: 0x400000, Type: "native"})
	for indices.Len() < 20_000 { // deep, with one frame of code that comes and goes
		indices.Append(user)
	}
	var stamps []int64
	for i := range int64(1000) {
		stamps = append(stamps, owned(i))
	}
	timed(m, stamps...)
	for k := range int64(3) {
		m.Sample(Frame{Address: slot + 9})
		timed(m, owned(k))
	}
	stacks, locations := d.StackTable().Len(), d.LocationTable().Len()
	got, counts := rewriteTimed(t, withHistory, m, known)
	var leaves []string
	for _, s := range got {
		leaves = append(leaves, nameIn(s.Stack[0]))
	}
	assert.Equal(t, []string{"", "p0", "p1", "p2"}, leaves)
	assert.Equal(t, stacks+2, d.StackTable().Len(), "of the last three samples")
	assert.Equal(t, locations+2, d.LocationTable().Len())
	assert.Equal(t, 3, counts[rewrite.OutcomeResolved][timeline.OriginBPF])
}

// TestManyPartsOfASample: a divided sample takes about as much memory as before.
func TestManyPartsOfASample(t *testing.T) {
	const owners, instants = 1000, 20_000
	known := knownAt(t, manyOwners(owners))
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	var stamps []int64
	for i := range int64(instants) {
		stamps = append(stamps, owned(i%owners))
	}
	timed(m, stamps...)
	size := uint64(len(marshal(t, m.Profiles)))
	got := allocatedBy(t, m.Profiles, func() { rewrite.New(withHistory).Rewrite(m.Profiles, known) })
	t.Logf("a message of %d bytes made it allocate %d", size, got)
	assert.Less(t, got, 200*size)
	samples := rewritetest.Samples(m.Profiles)
	assert.Len(t, samples, owners)
	total := 0
	for _, s := range samples {
		total += len(s.Values)
	}
	assert.Equal(t, instants, total)
}

// TestInstantThatNeverWas: such an instant has no name, whatever the other samples of the message have.
func TestInstantThatNeverWas(t *testing.T) {
	functions := timeline.NewBuilder(remember)
	loadAt(functions, "live", slot, 0x100, nowBoot-20_000*ms)
	for _, others := range [][]int64{{nowBoot - 9_000*ms}, {nowBoot - 9_000*ms, nowBoot - 30_000*ms}} {
		m := rewritetest.NewMessage().Profile(nil, "")
		for _, at := range append(others, nowBoot+3_600_000*ms, nowBoot-8_000*ms) {
			m.Sample(Frame{Address: slot + 8})
			timed(m, at)
		}
		got, _ := rewriteTimed(t, withHistory, m, knownAt(t, functions))
		names := stackNames(got)
		assert.Equal(t, []string{""}, names[len(others)], "in an hour")
		assert.Equal(t, []string{"live"}, names[0])
		assert.Equal(t, []string{"live"}, names[len(others)+1])
	}
}

// TestOtherHostsClocks: samples of other hosts do not count as off.
func TestOtherHostsClocks(t *testing.T) {
	m := rewritetest.NewMessage().Profile(other, "").Sample(Frame{Address: slot + 8})
	timed(m, nowBoot-3_600_000*ms)
	m.Profile(nil, "").Sample(Frame{Address: slot + 8})
	timed(m, nowBoot-9_000*ms)
	m.Sample(Frame{Address: slot + 8})
	timed(m, nowBoot-3_600_000*ms, nowBoot-3_600_001*ms)
	opts := withHistory
	opts.IsForeign = isOther
	r := rewrite.New(opts)
	rewritten(t, r, m.Profiles, knownAt(t, story()))
	assert.Equal(t, [][]string{{""}, {"a"}, {""}}, stackNames(rewritetest.Samples(m.Profiles)))
	assert.Zero(t, r.ClockOff())
}
