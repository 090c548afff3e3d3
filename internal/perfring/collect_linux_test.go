package perfring

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCauseComesFirst writes records in turn into two rings, each after the one before
// it has been, while they are read one after the other. Without any window they come
// in the order they were written: that a ring was read before a record got there must
// not let one overtake it that got into the other ring later.
func TestCauseComesFirst(t *testing.T) {
	const n = 20_000
	rings := []*ring{memoryRing(4096, 0, 0), memoryRing(4096, 0, 0)}
	r := &Reader{clock: Boottime, rings: rings}
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		last := Boottime.Now()
		for i := uint64(0); i < n && !stop.Load(); i++ {
			// An address in a record that is nothing else: its place in the order.
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
		for _, rec := range r.collect() {
			if rec.Type == TypeMissed {
				continue // these rings are full most of the time
			}
			if !assert.Equal(t, next, rec.Symbol.Addr) {
				return
			}
			next++
		}
	}
}

// TestFullRing: where the kernel does not say how many records were lost, a ring that
// the largest might not have fit into tells that some may be.
func TestFullRing(t *testing.T) {
	const size = 4096
	largest := record(TypeKsymbol, leaf, uint32(1), uint16(1), uint16(0), longest+"\x00", id)
	lost := record(TypeLost, uint64(1), uint64(1), id)
	require.GreaterOrEqual(t, largestSymbolRecord, len(largest)+len(lost))
	for free, want := range map[int][]uint32{largestSymbolRecord - 8: {3}, largestSymbolRecord: nil} {
		r := memoryRing(size, 0, 0)
		r.cpu = 3
		for left := size - free; left > 0; {
			length := min(left, 1024)
			r.put(record(TypeComm, uint32(1), uint32(1), strings.Repeat("\x00", length-headerLen-8-sampleIDLen), id))
			left -= length
		}
		reader := &Reader{clock: Boottime, rings: []*ring{r}}
		assert.Equal(t, want, missed(reader.Flush()), "%d bytes are free", free)
		assert.Empty(t, missed(reader.Flush()), "once")
	}
}
