// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// delay is a delay that a cache reported.
type delay struct {
	source string
	kind   Kind
	delay  time.Duration
}

// TestDelays verifies that the delay of changes is that of the first one that was announced, up to when they were
// applied, and that no delay is reported twice.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake("s")
		c := Start(zap.NewNop(), nil, newFake("has no changes"), s)
		defer c.Stop()
		var reported []delay
		stop := c.WatchDelays(func(source string, kind Kind, d time.Duration) {
			reported = append(reported, delay{source, kind, d})
		})
		begin := time.Now()
		time.Sleep(10 * time.Second)
		var changes Changes
		changes.Note(KindLoad, 3, begin.Add(5*time.Second))
		changes.Note(KindLoad, 1, begin.Add(2*time.Second))
		changes.Note(KindLoad, 1, begin.Add(7*time.Second))
		changes.Note(KindLoad, 1, time.Time{})
		changes.Note(KindUnload, 0, begin.Add(6*time.Second)) // counted below
		changes.Note(KindSymbols, 1, begin.Add(9*time.Second))
		changes.Note(KindUnload, 1, time.Time{})
		changes.Applied()
		time.Sleep(time.Minute) // until a table is asked for
		s.update(Update{Table: table(t, "f", 1), Changes: changes.Take()})
		s.update(Update{Table: table(t, "f", 1), Changes: changes}) // taken: there are none
		synctest.Wait()
		assert.Equal(t, []delay{{"s", KindLoad, 8 * time.Second}, {"s", KindUnload, 4 * time.Second}, {"s", KindSymbols, time.Second}}, reported)
		stop()
		changes.Note(KindLoad, 1, begin)
		changes.Counts.LostRecords, changes.Counts.Resyncs = 7, 1
		s.update(Update{Table: table(t, "f", 1), Changes: changes})
		synctest.Wait()
		assert.Len(t, reported, 3, "after stop")

		assert.Equal(t, SourceCounts{"s", Counts{
			Updates:     [NumKinds]int64{KindLoad: 7, KindUnload: 1, KindSymbols: 1},
			LostRecords: 7,
			Resyncs:     1,
		}}, c.Counts()[1])
		assert.Equal(t, SourceCounts{Source: "has no changes"}, c.Counts()[0])
		assert.Empty(t, (*Cache)(nil).Counts())
	})
}

func TestKindNames(t *testing.T) {
	assert.Equal(t, "load", KindLoad.String())
	assert.Equal(t, "symbols", KindSymbols.String())
}

// lazy publishes a table with one function each time it is refreshed.
type lazy struct {
	t         *testing.T
	running   chan struct{}
	publish   func(Update)
	refreshed atomic.Int32
}

func (*lazy) Name() string { return "lazy" }

func (l *lazy) Run(ctx context.Context, publish func(Update)) error {
	l.publish = publish
	publish(Update{Table: timeline.NewTable()})
	close(l.running)
	<-ctx.Done()
	return ctx.Err()
}

func (l *lazy) Refresh() {
	n := l.refreshed.Add(1)
	l.publish(Update{Table: table(l.t, "f", uint64(n))})
}

// TestFreshIsUpToThePresent: the snapshot that Fresh returns includes the table that a source
// publishes when it is refreshed. Snapshot refreshes nothing.
func TestFreshIsUpToThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lazy{t: t, running: make(chan struct{})}
		c := Start(zap.NewNop(), nil, newFake("other"), l)
		defer c.Stop()
		<-l.running
		assert.Empty(t, lookup(c, 1))
		assert.Zero(t, l.refreshed.Load())
		assert.Equal(t, "f", nameIn(c.Fresh(), 1))
		assert.Equal(t, "f", nameIn(c.Fresh(), 2))
		assert.Equal(t, "f", lookup(c, 2))
	})
}
