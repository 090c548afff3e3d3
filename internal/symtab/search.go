// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"math"
	"math/bits"
	"slices"
	"sort"
)

// symbols are the symbols of one module, sorted by address. Offsets count from
// the module's start and fit in 32 bits.
type symbols struct {
	extents []extent // one a symbol, and scanWidth times noExtent
	large   []large  // sizes that need more than 16 bits, sorted by symbol

	// index[b] is the number of symbols that start below b<<shift, so the
	// symbols that start in bucket b are index[b] up to index[b+1]. The gap of the core
	// kernel has no buckets.
	index []uint32
	shift uint8
	gap   offsets

	names names
}

// offsets are those from start up to, but not including, end.
type offsets struct{ start, end uint32 }

// without returns an offset as if there were no gap.
func (g offsets) without(offset uint32) uint32 {
	if offset >= g.end {
		offset -= g.end - g.start
	}
	return offset
}

// extent is where a symbol lies. It has 16-bit parts only so that it takes six
// bytes, and a symbol's start and size are in one cache line.
type extent struct {
	low, high uint16 // of the offset
	size      uint16 // in bytes, or largeSize
}

// largeSize says that the size is found in large.
const largeSize = 1<<16 - 1

type large struct {
	symbol, size uint32
}

// noExtent has an offset that no symbol has, nor any address that is looked up: a
// module spans less than 4 GiB.
var noExtent = extent{low: math.MaxUint16, high: math.MaxUint16}

func newExtent(offset, size uint32) extent {
	return extent{low: uint16(offset), high: uint16(offset >> 16), size: uint16(min(size, largeSize))}
}

func (e extent) offset() uint32 { return uint32(e.high)<<16 | uint32(e.low) }

// len returns the number of symbols.
func (s *symbols) len() int { return max(0, len(s.extents)-scanWidth) }

// floor returns the number of the last symbol that starts at or below offset,
// or -1 if there is none.
//
// It looks at scanWidth symbols at a time and counts how many start at or below
// offset, without a branch on each: the processor could not predict them, and a
// wrong guess costs more than all the rest.
func (s *symbols) floor(offset uint32) int {
	bucket := uint(s.gap.without(offset) >> s.shift)
	if bucket >= uint(len(s.index)) { // above the last bucket
		return s.len() - 1
	}
	at := int(s.index[bucket])
	for range maxScans {
		next := (*[scanWidth]extent)(s.extents[at:])
		n := notAbove(next[0], offset) + notAbove(next[1], offset) +
			notAbove(next[2], offset) + notAbove(next[3], offset)
		at += n
		if n < scanWidth {
			return at - 1
		}
	}
	// A crowded bucket.
	rest := s.extents[at:s.index[bucket+1]]
	return at - 1 + sort.Search(len(rest), func(i int) bool { return rest[i].offset() > offset })
}

const (
	scanWidth = 4
	maxScans  = 5
)

// notAbove returns 1 if e starts at or below offset, else 0.
func notAbove(e extent, offset uint32) int {
	return int((uint64(e.offset()) - uint64(offset) - 1) >> 63)
}

// size returns the size of symbol i in bytes.
func (s *symbols) size(i int) uint64 {
	if size := s.extents[i].size; size != largeSize {
		return uint64(size)
	}
	return s.largeSize(i)
}

func (s *symbols) largeSize(i int) uint64 {
	n, _ := slices.BinarySearchFunc(s.large, uint32(i), func(l large, i uint32) int {
		return int(int64(l.symbol) - int64(i))
	})
	return uint64(s.large[n].size)
}

// leastPerBucket says how many buckets there are at least: one for so many symbols.
const leastPerBucket = 6

// buildIndex fills the bucket index once all symbols are known: one bucket for every three to
// six of them.
func (s *symbols) buildIndex() {
	n := s.len()
	if n == 0 {
		return
	}
	last := s.gap.without(s.extents[n-1].offset())
	perBucket := uint64(last) * 3 / uint64(n)
	s.shift = uint8(min(bits.Len64(perBucket), 31))
	s.index = make([]uint32, (last>>s.shift)+2)
	bucket := uint32(0)
	for i, e := range s.extents[:n] {
		for ; bucket < s.gap.without(e.offset())>>s.shift; bucket++ {
			s.index[bucket+1] = uint32(i)
		}
	}
	s.index[bucket+1] = uint32(n)
}
