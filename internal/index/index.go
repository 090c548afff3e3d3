// SPDX-License-Identifier: Apache-2.0

// Package index finds the entries of a table by the hash of their content.
package index

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// An Index is an open addressing hash table of positions: the entries stay where they are. It keeps its memory
// when it is cleared. The zero value is empty. It is not safe for concurrent use.
type Index struct {
	slots []uint64 // hash in the upper half, position + 1 in the lower; 0 is free. Undefined while used is 0
	used  int
}

// Clear empties the index and keeps room for as many entries as it had: one message is like the one before. It takes no
// time, since the first entry that is added clears the slots.
func (x *Index) Clear() {
	if x.used > 0 {
		x.slots = x.slots[:min(len(x.slots), slotsFor(x.used))]
		x.used = 0
	}
}

// slotsFor returns a power of 2 that is more than twice the number of entries.
func slotsFor(n int) int { return 1 << bits.Len(uint(2*n+15)) }

// Len returns the number of entries.
func (x *Index) Len() int { return x.used }

// Find returns the position of an entry with that hash for which equal says yes.
func (x *Index) Find(hash uint64, equal func(pos int32) bool) (int32, bool) {
	if x.used == 0 {
		return 0, false
	}
	mask, short := uint32(len(x.slots)-1), folded(hash)
	for i := short & mask; x.slots[i] != 0; i = (i + 1) & mask {
		if slot := x.slots[i]; uint32(slot>>32) == short {
			if pos := int32(uint32(slot) - 1); equal(pos) {
				return pos, true
			}
		}
	}
	return 0, false
}

// Add adds an entry, unless equal says of one with that hash that it is the same.
// A table with many equal entries would make each of them take as long as all before it.
func (x *Index) Add(hash uint64, pos int32, equal func(pos int32) bool) {
	if _, ok := x.Find(hash, equal); !ok {
		x.AddNew(hash, pos)
	}
}

// AddNew adds an entry that is equal to none.
func (x *Index) AddNew(hash uint64, pos int32) {
	x.Grow(1)
	if x.used == 0 {
		clear(x.slots)
	}
	x.put(uint64(folded(hash))<<32 | uint64(uint32(pos)+1))
	x.used++
}

// folded returns the part of a hash that a slot stores.
func folded(hash uint64) uint32 { return uint32(hash>>32) ^ uint32(hash) }

// Grow makes room for n more entries: half of the slots remain free.
func (x *Index) Grow(n int) {
	switch old := x.slots; {
	case 2*(x.used+n) <= len(old):
	case x.used == 0:
		x.slots = slices.Grow(old[:0], slotsFor(n))[:slotsFor(n)]
	default:
		x.slots = make([]uint64, max(slotsFor(x.used+n), 4*len(old)))
		for _, slot := range old {
			if slot != 0 {
				x.put(slot)
			}
		}
	}
}

func (x *Index) put(slot uint64) {
	mask := uint32(len(x.slots) - 1)
	i := uint32(slot>>32) & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = slot
}

// mixSeeds keep messages from being made so that everything in them has the same hash.
var mixSeeds = [2]uint64{rand.Uint64(), rand.Uint64()}

// Mix returns the hash of h followed by v.
func Mix(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^mixSeeds[0], v^mixSeeds[1])
	return hi ^ lo
}

// Ints returns the hash of h followed by numbers.
func Ints[T ~int32](h uint64, numbers []T) uint64 {
	for ; len(numbers) >= 2; numbers = numbers[2:] { // two at a time
		h = Mix(h, uint64(uint32(numbers[0]))<<32|uint64(uint32(numbers[1])))
	}
	for _, i := range numbers {
		h = Mix(h, uint64(uint32(i)))
	}
	return h
}

var hashSeed = maphash.MakeSeed()

// String returns the hash of a string. It differs from process to process.
func String(s string) uint64 { return maphash.String(hashSeed, s) }

// Comparable returns the hash of any value that can be compared. It differs from process to process.
func Comparable[T comparable](v T) uint64 { return maphash.Comparable(hashSeed, v) }
