package symcache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
)

// counting is a fake that counts.
type counting struct {
	*fake
	stats Stats
}

func (c *counting) Stats() *Stats { return &c.stats }

// delay is one that a cache told.
type delay struct {
	source string
	kind   Kind
	delay  time.Duration
}

// TestDelays has a source told of changes at known times: what counts is the first
// of those that are in one table, and nothing is told twice.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{fake: newFake("s")}
		c := Start(zap.NewNop(), nil, newFake("does not count"), s)
		defer c.Stop()
		var told []delay
		stop := c.WatchDelays(func(source string, kind Kind, d time.Duration) {
			told = append(told, delay{source, kind, d})
		})
		begin := time.Now()
		time.Sleep(10 * time.Second)
		s.stats.Updated(KindLoad, 3, begin.Add(5*time.Second))
		s.stats.Updated(KindLoad, 1, begin.Add(2*time.Second))
		s.stats.Updated(KindLoad, 1, begin.Add(7*time.Second))
		s.stats.Updated(KindLoad, 1, time.Time{})
		s.stats.Updated(KindLoad, 0, begin)
		s.stats.Updated(KindSymbols, 1, begin.Add(9*time.Second))
		s.stats.Updated(KindUnload, 1, time.Time{})
		s.publish(table(t, "f", 1), nil)
		s.publish(table(t, "f", 1), nil) // without changes
		synctest.Wait()
		assert.Equal(t, []delay{{"s", KindLoad, 8 * time.Second}, {"s", KindSymbols, time.Second}}, told)
		stop()
		s.stats.Updated(KindLoad, 1, begin)
		s.publish(table(t, "f", 1), nil)
		synctest.Wait()
		assert.Len(t, told, 2, "after stop")

		s.stats.Lost(7)
		s.stats.Resynced()
		assert.Equal(t, []SourceCounts{{"s", Counts{
			Updates:     [NumKinds]int64{KindLoad: 7, KindUnload: 1, KindSymbols: 1},
			LostRecords: 7,
			Resyncs:     1,
		}}}, c.Counts())
		assert.Empty(t, (*Cache)(nil).Counts())
	})
}

func TestKindNames(t *testing.T) {
	assert.Equal(t, "load", KindLoad.String())
	assert.Equal(t, "symbols", KindSymbols.String())
	assert.Equal(t, "Kind(9)", Kind(9).String())
}
