// SPDX-License-Identifier: Apache-2.0

package admission

import (
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
	assert.Eventually(t, func() bool { return len(g.requests) == 0 && g.admitted.Load() == 0 && g.waiting.Load() == 0 },
		time.Minute, time.Millisecond)
}

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

// TestEnter verifies that requests beyond maxRequests wait for their turn, and are refused if it does not come, or if too many
// wait.
func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		for range maxRequests {
			require.NoError(t, g.enter(t.Context()))
		}
		time.AfterFunc(time.Second, g.leave)
		require.NoError(t, g.enter(t.Context()))
		start := time.Now()
		require.ErrorIs(t, g.enter(t.Context()), ErrBusy)
		assert.Equal(t, patience, time.Since(start))

		var others atomic.Int64
		for range maxWaiting {
			go func() {
				if g.enter(t.Context()) == nil {
					others.Add(1)
				}
			}()
		}
		synctest.Wait()
		start = time.Now()
		require.ErrorIs(t, g.enter(t.Context()), ErrBusy)
		assert.Zero(t, time.Since(start))
		for range maxRequests {
			g.leave()
		}
		synctest.Wait()
		assert.EqualValues(t, maxRequests, others.Load())
		time.Sleep(patience) // for the others
	})
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
