// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestContract_9_LinesAreLimited has a source that changes its state a thousand times and then
// rests: the last line has the final state.
func TestContract_9_LinesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.InfoLevel)
		s, quiet := newFake("s"), newFake("quiet")
		c := Start(zap.New(core), nil, s, quiet)
		changes := 0
		c.Watch(func([]Health) { changes++ })
		for i := range 1000 {
			s.publish(table(t, "f", 1), fmt.Errorf("change %d", i))
		}
		quiet.publish(table(t, "g", 2), nil)
		synctest.Wait()
		lines := log.TakeAll()
		require.Len(t, lines, messageBurst+1)
		assert.Equal(t, "change 0", lines[0].ContextMap()["error"])
		assert.Equal(t, "quiet", lines[messageBurst].ContextMap()["source"], "the limit is that of one source")
		assert.Equal(t, 1+1000+1, changes, "the status is always told")

		time.Sleep(messageInterval)
		synctest.Wait()
		lines = log.TakeAll()
		require.Len(t, lines, 1)
		assert.Equal(t, "change 999", lines[0].ContextMap()["error"])
		assert.Equal(t, int64(1000-messageBurst), lines[0].ContextMap()["changes not logged"])

		time.Sleep(time.Hour)
		require.Empty(t, log.TakeAll(), "nothing has changed")
		s.publish(table(t, "f", 1), nil)
		synctest.Wait()
		lines = log.TakeAll()
		require.Len(t, lines, 1)
		assert.Equal(t, "Kernel symbols are up to date", lines[0].Message)
		assert.NotContains(t, lines[0].ContextMap(), "changes not logged")
		c.Stop()
	})
}

// TestStopWithALineToWrite stops a cache that still has a line to log.
func TestStopWithALineToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake("s")
		c := Start(zap.NewNop(), nil, s)
		for i := range 2 * messageBurst {
			s.publish(table(t, "f", 1), fmt.Errorf("change %d", i))
		}
		synctest.Wait()
		c.Stop()
	})
}
