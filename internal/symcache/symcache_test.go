// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a source that does what it is told.
type fake struct {
	name string
	runs atomic.Int32
	do   chan func(publish func(Update)) error // a result ends the run, if not errGoOn

	ended chan error // the causes of ended contexts
}

var errGoOn = errors.New("go on")

func newFake(name string) *fake {
	return &fake{name: name, do: make(chan func(func(Update)) error), ended: make(chan error, 100)}
}

func (f *fake) Name() string { return f.name }

func (f *fake) Run(ctx context.Context, publish func(Update)) error {
	f.runs.Add(1)
	for {
		select {
		case <-ctx.Done():
			f.ended <- context.Cause(ctx)
			return ctx.Err()
		case do := <-f.do:
			if err := do(publish); !errors.Is(err, errGoOn) {
				return err
			}
		}
	}
}

func (f *fake) publish(t *timeline.Table, degraded error) {
	f.update(Update{Table: t, Degraded: degraded})
}

func (f *fake) update(u Update) {
	f.do <- func(publish func(Update)) error {
		publish(u)
		return errGoOn
	}
}

func (f *fake) fail(err error) {
	f.do <- func(func(Update)) error { return err }
}

// table returns a table with one symbol, named name, at addr.
func table(t *testing.T, name string, addr uint64) *timeline.Table {
	t.Helper()
	return timeline.NewTable(timelinetest.NewImage(t,
		timelinetest.Text{Origin: timeline.OriginModule, Name: "m", Start: addr, End: addr + 1}, timelinetest.Symbol{Name: name}))
}

func lookup(c *Cache, addr uint64) string {
	return nameIn(c.Snapshot(), addr)
}

func nameIn(s *timeline.Snapshot, addr uint64) string {
	hit, _ := s.At(addr, timeline.Present)
	if hit.Image == nil {
		return ""
	}
	return hit.Name().System
}

func TestSnapshotHoldsTheLastTableOfEachSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake("a"), newFake("b")
		c := Start(zap.NewNop(), nil, a, b)
		defer c.Stop()
		assert.Empty(t, lookup(c, 1))

		a.publish(table(t, "a1", 1), nil)
		synctest.Wait()
		before := c.Snapshot()
		assert.Equal(t, "a1", lookup(c, 1))

		b.publish(table(t, "b1", 2), nil)
		a.publish(table(t, "a2", 1), nil)
		synctest.Wait()
		assert.Equal(t, "a2", lookup(c, 1))
		assert.Equal(t, "b1", lookup(c, 2))

		assert.Equal(t, "a1", nameIn(before, 1), "a snapshot stays what it was")
	})
}

func TestContract_6_2_FailureKeepsTheLastTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake("s")
		c := Start(zap.NewNop(), nil, s)
		defer c.Stop()
		s.publish(table(t, "f", 1), nil)
		s.fail(errors.New("broken"))
		synctest.Wait()
		assert.Equal(t, "f", lookup(c, 1))
		assert.Equal(t, StateDegraded, c.Health()[0].State)
		require.EqualError(t, c.Health()[0].Err, "broken")
	})
}

func TestSourceIsRunAgainWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake("s")
		c := Start(zap.NewNop(), nil, s)
		defer c.Stop()
		begin := time.Now()
		var delays []time.Duration
		for range 12 {
			s.fail(errors.New("broken")) // waits until it is run again
			delays = append(delays, time.Since(begin))
			begin = time.Now()
		}
		assert.Zero(t, delays[0])
		for i, d := range delays[1:] {
			// Half of it either way by chance.
			want := min(minRetry<<i, maxRetry)
			assert.GreaterOrEqual(t, d, want/2, "retry %d", i)
			assert.LessOrEqual(t, d, want*3/2, "retry %d", i)
		}

		// A publication resets the delay.
		s.publish(table(t, "f", 1), nil)
		s.fail(errors.New("broken"))
		begin = time.Now()
		s.publish(table(t, "f", 1), nil)
		assert.LessOrEqual(t, time.Since(begin), minRetry*3/2)
	})
}

func TestHealthIsReportedOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		s, other := newFake("s"), newFake("other")
		c := Start(zap.New(core), nil, s, other)
		defer c.Stop()

		var seen []Health
		stop := c.Watch(func(h []Health) { seen = append(seen, h[0]) })
		denied := errors.New("denied")
		s.fail(denied)
		s.fail(errors.New("denied")) // no change
		s.publish(table(t, "f", 1), nil)
		s.publish(table(t, "g", 1), nil) // no change
		s.publish(table(t, "g", 1), denied)
		s.publish(table(t, "g", 1), nil)
		s.fail(nil)
		synctest.Wait()
		stop()
		s.publish(table(t, "g", 1), nil) // not seen any more
		synctest.Wait()

		want := []Health{
			{"s", StateStarting, nil},
			{"s", StateDown, denied},
			{"s", StateUp, nil},
			{"s", StateDegraded, denied},
			{"s", StateUp, nil},
			{"s", StateDegraded, errStopped},
		}
		assert.Equal(t, want, seen)
		assert.Equal(t, []Health{{"s", StateUp, nil}, {"other", StateStarting, nil}}, c.Health())
		assert.Equal(t, len(want)-1+1, logs.Len(), "a line a change")
	})
}

func TestNilCache(t *testing.T) {
	var c *Cache
	assert.Nil(t, c.Snapshot())
	assert.Nil(t, c.Fresh())
	assert.Nil(t, c.Health())
}

func TestStateNames(t *testing.T) {
	assert.Equal(t, "starting", StateStarting.String())
	assert.Equal(t, "down", StateDown.String())
}

func TestWaitReadyWaitsForEachSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake("a"), newFake("b")
		c := Start(zap.NewNop(), nil, a, b)
		defer c.Stop()
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a.publish(table(t, "f", 1), nil)
		c.WaitReady(limited)
		require.Error(t, limited.Err(), "the other has not published yet")

		go b.fail(errors.New("broken")) // waiting longer would not help
		c.WaitReady(t.Context())
		assert.Equal(t, []State{StateUp, StateDown}, []State{c.Health()[0].State, c.Health()[1].State})
	})
}

func TestWithoutSourcesACacheIsReady(t *testing.T) {
	c := Start(zap.NewNop(), nil)
	defer c.Stop()
	c.WaitReady(t.Context())
}

// shared is a registry and the sources it has started.
type shared struct {
	Registry[string, *Cache]
	sources []*fake
	logs    *observer.ObservedLogs
	logger  *zap.Logger
}

func newShared() *shared {
	core, logs := observer.New(zap.InfoLevel)
	return &shared{logs: logs, logger: zap.New(core)}
}

func (r *shared) acquire(key string) (*Cache, func()) {
	return r.Acquire(key, r.logger, func() *Cache {
		s := newFake(key)
		r.sources = append(r.sources, s)
		return Start(r.logger, nil, s)
	})
}

func TestRegistryShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newShared()
		a, releaseA := r.acquire("key")
		b, releaseB := r.acquire("key")
		other, releaseOther := r.acquire("other")
		assert.Same(t, a, b)
		assert.NotSame(t, a, other)
		releaseA()
		r.sources[0].publish(table(t, "f", 1), nil) // still runs
		releaseB()
		synctest.Wait()
		assert.Empty(t, r.sources[0].ended)
		releaseOther()
		time.Sleep(keepUnused)
		synctest.Wait()
	})
}

// TestContract_6_4_ACacheOutlivesItsLastUser for a minute, during which it runs on.
func TestContract_6_4_ACacheOutlivesItsLastUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newShared()
		first, release := r.acquire("key")
		r.sources[0].publish(table(t, "f", 1), nil)
		release()
		time.Sleep(keepUnused - time.Second)
		r.sources[0].publish(table(t, "g", 1), nil)
		synctest.Wait()

		of := r.logs
		core, logs := observer.New(zap.InfoLevel)
		r.logger = zap.New(core)
		again, release := r.acquire("key")
		assert.Same(t, first, again)
		assert.Equal(t, "g", lookup(again, 1), "nothing is missed")
		time.Sleep(time.Hour)
		r.sources[0].publish(table(t, "h", 1), errors.New("messages go to the new user"))
		synctest.Wait()
		assert.Equal(t, []int{1, 1}, []int{of.Len(), logs.Len()})
		release()
		time.Sleep(keepUnused - time.Second)
		assert.Empty(t, r.sources[0].ended)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, context.Canceled, <-r.sources[0].ended)

		second, release := r.acquire("key")
		assert.NotSame(t, first, second)
		release()
		r.StopUnused()
		assert.Equal(t, context.Canceled, <-r.sources[1].ended)
		assert.Empty(t, r.shared)
		first.Stop()           // once more
		time.Sleep(keepUnused) // the timer finds nothing to stop
	})
}

func TestRegistryOfManyUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newShared()
		var users sync.WaitGroup
		for i := range 50 {
			users.Go(func() {
				cache, release := r.acquire([]string{"a", "b", "c"}[i%3])
				cache.Snapshot()
				time.Sleep(time.Duration(i%5) * time.Second)
				release()
			})
		}
		users.Wait()
		time.Sleep(keepUnused)
		synctest.Wait()
		assert.Empty(t, r.shared)
	})
}
