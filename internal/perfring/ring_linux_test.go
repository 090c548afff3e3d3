// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// memoryRing is a ring that is not shared with a kernel.
func memoryRing(size int, head, tail uint64) *ring {
	return &ring{data: make([]byte, size), head: &head, tail: &tail, largest: largestSymbolRecord, has: sampleFields}
}

// put writes a record in the place where the kernel would write it. It may be called while the
// ring is read.
func (r *ring) put(raw []byte) {
	head := *r.head
	for _, b := range raw {
		r.data[head&uint64(len(r.data)-1)] = b
		head++
	}
	atomic.StoreUint64(r.head, head)
}

// hasRoom reports whether that many bytes can be put.
func (r *ring) hasRoom(n int) bool {
	return *r.head+uint64(n)-atomic.LoadUint64(r.tail) <= uint64(len(r.data))
}

func (r *ring) records(t *testing.T) (all []Record) {
	t.Helper()
	require.NoError(t, r.drain(func(raw []byte) {
		rec, ok, err := parse(raw, sampleFields)
		require.NoError(t, err)
		require.True(t, ok)
		all = append(all, rec)
	}))
	assert.Equal(t, *r.head, *r.tail)
	return all
}

// TestDrainWraps has records that begin at every offset of a ring, also at positions above 32
// bits and near the largest.
func TestDrainWraps(t *testing.T) {
	for _, start := range []uint64{0, 1<<32 - 64, 1<<63 - 128} {
		for at := range uint64(64) {
			r := memoryRing(512, start+8*at, start+8*at)
			r.put(record(TypeLost, uint64(1), at, id))
			r.put(sample(uint64(2), leaf, caller))
			got := r.records(t)
			require.Len(t, got, 2)
			assert.Equal(t, at, got[0].Lost)
			assert.Equal(t, []uint64{leaf, caller}, got[1].Stack)
			assert.Empty(t, r.records(t))
		}
	}
}

func TestDrainRefusesWhatCannotBe(t *testing.T) {
	for name, spoil := range map[string]func(r *ring){
		"size 0":             func(r *ring) { binary.NativeEndian.PutUint16(r.data[6:], 0) },
		"size of no header":  func(r *ring) { binary.NativeEndian.PutUint16(r.data[6:], 4) },
		"size not aligned":   func(r *ring) { binary.NativeEndian.PutUint16(r.data[6:], 12) },
		"size beyond head":   func(r *ring) { binary.NativeEndian.PutUint16(r.data[6:], 504) },
		"head beyond a turn": func(r *ring) { *r.head += 4096 },
		"head not aligned":   func(r *ring) { *r.head -= 4; *r.tail = 508; *r.head = 512 },
	} {
		t.Run(name, func(t *testing.T) {
			r := memoryRing(512, 0, 0)
			r.put(record(TypeLost, uint64(1), uint64(1), id))
			spoil(r)
			require.ErrorIs(t, r.drain(func([]byte) {}), ErrMalformed)
			assert.Equal(t, *r.head, *r.tail, "goes on behind it")
		})
	}
}

// memoryReader returns a Reader of such rings.
func memoryReader(rings ...*ring) *Reader {
	return &Reader{
		clock: Boottime, opts: Options{Event: Symbols{}}, state: state{main: stream{rings: rings}},
		slept: func() (least, most int64) { return 0, 0 },
	}
}

// at returns a record with a time.
func at(time int64) []byte {
	id := string(record(0, uint32(1), uint32(1), uint64(time), uint32(0), uint32(0))[headerLen:])
	return record(TypeKsymbol, leaf, uint32(1), uint16(1), uint16(0), "x\x00\x00\x00\x00\x00\x00\x00", id)
}

// lostAt returns a LOST record with a time.
func lostAt(time int64, n uint64) []byte {
	id := string(record(0, uint32(1), uint32(1), uint64(time), uint32(0), uint32(0))[headerLen:])
	return record(TypeLost, uint64(1), n, id)
}

// TestMalformedRecordsCountAsLost: nothing disappears silently.
func TestMalformedRecordsCountAsLost(t *testing.T) {
	for name, spoil := range map[string]func(r *ring){
		"a record": func(r *ring) { r.put(record(TypeSample, uint64(1))) },
		"the ring": func(r *ring) { r.put([]byte{0, 0, 0, 0, 0, 0, 4, 0}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := memoryRing(4096, 0, 0)
			reader := memoryReader(r)
			r.put(at(100))
			spoil(r)
			before := Boottime.Now()
			b := reader.Poll()
			assert.Equal(t, uint64(1), b.Lost)
			require.Len(t, b.Blind, 1)
			assert.Equal(t, int64(100), b.Blind[0].From, "the time of the record before it")
			assert.GreaterOrEqual(t, b.Blind[0].To, before)
			r.put(at(200))
			b = reader.Poll()
			assert.Len(t, b.Records, 1)
			assert.Empty(t, b.Blind, "once")
		})
	}
}

// FuzzDrain: whatever the ring contains, reading it ends, and stays inside the ring.
func FuzzDrain(f *testing.F) {
	r := memoryRing(128, 0, 0)
	r.put(record(TypeLost, uint64(1), uint64(1), id))
	f.Add(r.data, *r.head, uint64(0))
	f.Add(r.data, uint64(200), uint64(100))
	f.Fuzz(func(t *testing.T, data []byte, head, tail uint64) {
		r := memoryRing(128, head, tail)
		copy(r.data, data)
		total := 0
		err := r.drain(func(raw []byte) {
			total += len(raw)
			_, _, _ = parse(raw, sampleFields)
		})
		if total > len(r.data) {
			t.Fatalf("%d bytes of a ring of %d", total, len(r.data))
		}
		if err == nil && uint64(total) != head-tail {
			t.Fatalf("%d bytes of %d, and no error", total, head-tail)
		}
		if *r.tail != head {
			t.Fatal("did not free what it read")
		}
	})
}
