// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"maps"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A testGate is a gate of a process with a certain amount of used memory.
type testGate struct {
	*Gate
	memory  atomic.Int64 // in use, with garbage
	garbage atomic.Int64
	refused atomic.Int64 // number of refusals
}

// newTestGate returns a gate for 1,000 kB, and 600 kB for each message.
func newTestGate() *testGate {
	g := new(testGate)
	g.Gate = newGate(1_000_000, 600_000, func(error) { g.refused.Add(1) })
	g.used = g.memory.Load
	g.collect = func() { g.memory.Add(-g.garbage.Swap(0)) }
	return g
}

// assertEmpty verifies that no request is left.
func (g *testGate) assertEmpty(t *testing.T) {
	t.Helper()
	assert.Eventually(t, func() bool { return g.admitted.Load() == 0 && g.turns() == 0 && g.waiting() == 0 },
		time.Minute, time.Millisecond)
}

// turns returns the number of requests that are received or handled.
func (g *testGate) turns() int {
	g.queue.mu.Lock()
	defer g.queue.mu.Unlock()
	return maxRequests - g.queue.turns.left
}

// waiting returns the number of requests that wait.
func (g *testGate) waiting() int {
	g.queue.mu.Lock()
	defer g.queue.mu.Unlock()
	return maxWaiting - g.queue.places.left
}

// fill gives the turns that one host can have to another one.
func (g *testGate) fill(t *testing.T, host string) (leave func()) {
	t.Helper()
	for range oneHostTurns {
		require.NoError(t, g.enter(t.Context(), host))
	}
	return func() {
		for range oneHostTurns {
			g.leave(host)
		}
	}
}

// What one host can have.
const (
	oneHostTurns   = 3
	oneHostWaiting = 256
)

// TestAdmit verifies when messages are admitted: while used memory, admitted messages and the new one stay below the limit.
func TestAdmit(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		used, garbage, others     int64
		freed, released, cost     int64 // freed and released after a second
		wantErr                   error
		wantWaits, wantCollection bool
	}{
		{name: "memory left", used: 300_000, others: 200_000, cost: 500_000},
		{name: "too large for any time", cost: 600_001, wantErr: ErrTooLarge},
		{name: "garbage", used: 900_000, garbage: 500_000, cost: 600_000, wantCollection: true},
		{name: "another message ends", used: 100_000, others: 600_000, cost: 400_000, released: 600_000, wantWaits: true},
		{name: "an exporter frees memory", used: 900_000, freed: 500_000, cost: 600_000, wantWaits: true, wantCollection: true},
		{name: "no memory", used: 900_000, cost: 600_000, wantErr: ErrBusy, wantWaits: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTestGate()
				g.memory.Store(tt.used)
				g.garbage.Store(tt.garbage)
				g.admitted.Store(tt.others)
				time.AfterFunc(time.Second, func() {
					g.garbage.Add(tt.freed)
					g.release(tt.released)
				})
				start := time.Now()
				require.ErrorIs(t, g.admit(tt.cost), tt.wantErr)
				assert.Equal(t, tt.wantWaits, time.Since(start) >= time.Second)
				assert.LessOrEqual(t, time.Since(start), 2*patience)
				if tt.wantErr == nil {
					assert.LessOrEqual(t, g.memory.Load()+g.admitted.Load(), g.limit)
				}
				if tt.wantCollection {
					assert.Less(t, g.memory.Load(), tt.used)
				}
				time.Sleep(time.Second) // for the function above
			})
		})
	}
}

// TestAdmitWhileFull verifies that, once a message has waited in vain, only one message waits and others are
// refused at once, until one is admitted.
func TestAdmitWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		g.memory.Store(g.limit)
		require.ErrorIs(t, g.admit(1), ErrBusy)
		waits := make(chan error)
		go func() { waits <- g.admit(1) }()
		synctest.Wait()
		start := time.Now()
		require.ErrorIs(t, g.admit(1), ErrBusy)
		assert.Zero(t, time.Since(start))
		g.memory.Store(0)
		require.NoError(t, <-waits)
		require.NoError(t, g.admit(1))
		assert.False(t, g.full.Load())
	})
}

// TestEnter verifies that requests beyond those that a host may have wait for their turn, and are refused if it does not come,
// or if too many wait.
func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		leave := g.fill(t, "a")
		time.AfterFunc(time.Second, func() { g.leave("a") })
		require.NoError(t, g.enter(t.Context(), "a"))
		start := time.Now()
		require.ErrorIs(t, g.enter(t.Context(), "a"), ErrBusy)
		assert.Equal(t, patience, time.Since(start))

		var others atomic.Int64
		for range oneHostWaiting {
			go func() {
				if g.enter(t.Context(), "a") == nil {
					others.Add(1)
				}
			}()
		}
		synctest.Wait()
		start = time.Now()
		require.ErrorIs(t, g.enter(t.Context(), "a"), ErrBusy)
		assert.Zero(t, time.Since(start))
		leave()
		synctest.Wait()
		assert.EqualValues(t, oneHostTurns, others.Load())
		time.Sleep(2 * patience) // for the others
		leave()
		g.assertEmpty(t)
	})
}

// TestOneHostKeepsNoneFromOthers verifies that others get turns while a host has as many turns and places as it can and ends
// none, also those who come after a second such host.
func TestOneHostKeepsNoneFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		g.fill(t, "a")
		for range oneHostWaiting {
			require.True(t, g.queue.reserve("a"))
			g.queue.wait("a")
		}
		require.False(t, g.queue.reserve("a"))
		for range 100 {
			require.NoError(t, g.enter(t.Context(), "b"))
			g.leave("b")
		}

		require.NoError(t, g.enter(t.Context(), "b"))
		g.queue.reserveAnyway("b")
		b := g.queue.wait("b")
		g.queue.reserveAnyway("c")
		c := g.queue.wait("c")
		g.leave("a")
		<-c.turn
		assert.Equal(t, map[string]int{"a": 2, "b": 1, "c": 1}, g.queue.turns.taken)
		assert.True(t, g.queue.quit(b))
	})
}

// TestTurnAtTheEnd verifies that a turn is not lost that a request gets when it stops waiting.
func TestTurnAtTheEnd(t *testing.T) {
	q := newQueue(1, 2)
	require.True(t, q.reserve("a"))
	require.True(t, q.reserve("a"))
	first, second := q.wait("a"), q.wait("a")
	<-first.turn
	q.end("a")
	<-second.turn
	assert.False(t, q.quit(second))
	q.end("a")
	assert.Equal(t, newShare(1), q.turns)
	assert.Equal(t, newShare(2), q.places)
}

// TestShare verifies that no host can have all, that a host without any can have what is left, and the numbers of the contract.
func TestShare(t *testing.T) {
	for n := 3; n <= maxWaiting; n++ {
		s, hosts := newShare(n), 0
		for ; s.left > 0; hosts++ {
			host := string(rune('a' + hosts))
			require.True(t, s.allows(host))
			for s.allows(host) {
				s.take(host)
			}
		}
		assert.GreaterOrEqual(t, hosts, 2, n)
		for host, had := range maps.Clone(s.taken) {
			for range had {
				s.giveBack(host)
			}
		}
		assert.Equal(t, newShare(n), s)
	}
	turns, places := newShare(maxRequests), newShare(maxWaiting)
	for s, want := range map[*share]int{&turns: oneHostTurns, &places: oneHostWaiting} {
		for s.allows("a") {
			s.take("a")
		}
		assert.Equal(t, want, s.taken["a"])
	}
}

// TestNew verifies that a gate needs a memory limit above what it leaves, and that memory in use is measured.
func TestNew(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(400 << 20))
	_, err := New(380<<20, 30<<20, nil)
	require.ErrorContains(t, err, "together: 400 MiB")
	g, err := New(160<<20, 48<<20, nil)
	require.NoError(t, err)
	assert.EqualValues(t, 240<<20, g.limit)
	before := g.used()
	block := make([]byte, 64<<20)
	block[len(block)-1] = 1
	assert.Greater(t, g.used(), before+48<<20)
	assert.Len(t, block, 64<<20)
}
