// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestCauseComesFirst writes records alternately into two rings, each after the previous one is
// complete, while another goroutine reads one ring after the other. Even without a window, the
// records must be returned in the order in which they were written. If a ring was read before a
// record arrived in it, a later record in the other ring must not overtake that record.
func TestCauseComesFirst(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	const n = 20_000
	rings := []*ring{memoryRing(4096, 0, 0), memoryRing(4096, 0, 0)}
	r := memoryReader(rings...)
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		last := Boottime.Now()
		for i := uint64(0); i < n && !stop.Load(); i++ {
			// The address in the record is its place in the order.
			to := rings[i*7%3%2]
			for !stop.Load() && !to.hasRoom(headerLen+24+sampleIDLen) {
				runtime.Gosched()
			}
			now := Boottime.Now()
			for now == last {
				now = Boottime.Now()
			}
			last = now
			id := string(record(0, uint32(1), uint32(1), uint64(now), uint32(0), uint32(0))[headerLen:])
			to.put(record(TypeKsymbol, i, uint32(1), uint16(1), uint16(0), "x\x00\x00\x00\x00\x00\x00\x00", id))
		}
	})
	defer writer.Wait()
	defer stop.Store(true)
	for next := uint64(0); next < n; {
		for _, rec := range r.Poll().Records { // these rings are full most of the time, and it says so
			if !assert.Equal(t, next, rec.Symbol.Addr) {
				return
			}
			next++
		}
	}
}

// TestRingThatFillsWhileItIsRead writes records while others are read, until there is no room.
// The space becomes free only when the last record has been read.
func TestRingThatFillsWhileItIsRead(t *testing.T) {
	r := memoryRing(4096, 0, 0)
	r.put(at(12))
	from := *r.tail
	require.NoError(t, r.drain(func([]byte) {
		assert.False(t, r.wasCrowded(from))
		for r.hasRoom(len(at(13))) {
			r.put(at(13))
		}
	}))
	assert.True(t, r.wasCrowded(from), "records may have been lost")
	from = *r.tail
	assert.Len(t, r.records(t), (4096-len(at(12)))/len(at(13)))
	assert.True(t, r.wasCrowded(from))
	assert.False(t, r.wasCrowded(*r.tail), "now there is room")
}

// TestFullRing: a ring without room for the largest record may have lost records, from the time
// of its last record until it was emptied.
func TestFullRing(t *testing.T) {
	const size = 4096
	largest := record(TypeKsymbol, leaf, uint32(1), uint16(1), uint16(0), longest+"\x00", id)
	lost := record(TypeLost, uint64(1), uint64(1), id)
	require.GreaterOrEqual(t, largestSymbolRecord, len(largest)+len(lost))
	for free, full := range map[int]bool{largestSymbolRecord - 8: true, largestSymbolRecord: false} {
		r := memoryRing(size, 0, 0)
		for r.put(at(12)); size-int(r.used()) > free+len(at(0)); {
			r.put(at(12))
		}
		rest := size - int(r.used()) - free // of a record of a type that is not parsed
		r.put(record(1000, strings.Repeat("\x00", rest-headerLen)))
		reader := memoryReader(r)
		before := Boottime.Now()
		b := reader.Poll()
		after := Boottime.Now()
		if full {
			require.Len(t, b.Blind, 1, "%d bytes are free", free)
			assert.True(t, b.Blind[0].Lost)
			assert.Equal(t, int64(12), b.Blind[0].From, "the time of the last record")
			assert.True(t, before < b.Blind[0].To && b.Blind[0].To <= after+1, "when it was emptied")
		} else {
			assert.Empty(t, b.Blind, "%d bytes are free", free)
		}
		assert.Zero(t, b.Lost, "how many is not known")
		assert.Empty(t, reader.Poll().Blind, "once")
	}
}

// TestLostRecord: a loss lies between the record before the LOST record, even if that was read
// long ago, and the LOST record.
func TestLostRecord(t *testing.T) {
	r := memoryRing(4096, 0, 0)
	r.trail.last, r.trail.roomyAt = 50, 1 // the time of opening; it is not known when there was room
	reader := memoryReader(r)
	r.put(lostAt(90, 2))
	b := reader.Poll()
	assert.Equal(t, []Interval{{From: 50, To: 91, Lost: true}}, b.Blind, "from when the ring was opened")
	assert.Equal(t, uint64(2), b.Lost)
	assert.Empty(t, b.Records)

	r.put(at(100))
	require.Len(t, reader.Poll().Records, 1)
	r.trail.roomyAt++ // as if a large record had not fit when it was emptied
	r.put(lostAt(200, 3))
	r.put(at(201))
	r.put(lostAt(300, 4))
	b = reader.Poll()
	assert.Equal(t, []Interval{{From: 100, To: 201, Lost: true}, {From: 201, To: 301, Lost: true}}, b.Blind)
	assert.Equal(t, uint64(7), b.Lost)
}

// TestLossThatIsAnnouncedLate: the kernel announces a loss with the next record, which can
// be long after the ring had room again. The time in between is not blind.
func TestLossThatIsAnnouncedLate(t *testing.T) {
	r := memoryRing(4096, 0, 0)
	reader := memoryReader(r)
	r.put(at(100))
	reader.Poll() // and now there is room
	emptied := Boottime.Now()
	late := emptied + int64(time.Hour)
	r.put(lostAt(late, 5))
	r.put(at(late))
	b := reader.Poll()
	require.Len(t, b.Blind, 1)
	assert.Equal(t, int64(100), b.Blind[0].From)
	assert.LessOrEqual(t, b.Blind[0].To, emptied+1)
	assert.Equal(t, uint64(5), b.Lost)
}

// TestBatch: records younger than the window come with the next batch, and Certain follows the
// clock.
func TestBatch(t *testing.T) {
	r := memoryRing(4096, 0, 0)
	r.wake = 1
	reader := memoryReader(r)
	reader.opts.Window = time.Minute
	now := Boottime.Now()
	r.put(at(now))
	r.put(at(now - int64(time.Hour)))
	b := reader.Poll()
	require.Len(t, b.Records, 1)
	assert.Equal(t, now-int64(time.Hour), b.Records[0].Time)
	assert.GreaterOrEqual(t, b.Certain, now-int64(time.Minute))
	assert.LessOrEqual(t, b.Certain, Boottime.Now()-int64(time.Minute))
	assert.True(t, reader.isReady(), "Wait waits only for held-back records")
	reader.opts.Window = 0
	b = reader.Poll()
	require.Len(t, b.Records, 1)
	assert.Equal(t, now, b.Records[0].Time)
	assert.Greater(t, b.Certain, now)
	assert.False(t, reader.isReady())
}

// TestPositionBeyondTheRing verifies that an impossible position takes no memory: it is a loss.
func TestPositionBeyondTheRing(t *testing.T) {
	r := memoryRing(4096, 0, 0)
	reader := memoryReader(r)
	r.put(at(100))
	*r.head += 1 << 62
	assert.Equal(t, uint64(1), reader.Poll().Lost)
}
