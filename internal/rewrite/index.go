// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"math/bits"
	"math/rand/v2"
)

// index finds the entries of a table by the hash of their content: an open
// addressing hash table that knows positions, not entries. It keeps its memory
// when it is reset. It must be reset before its first use.
type index struct {
	slots []uint64 // hash in the upper half, position + 1 in the lower; 0 is free
	moved []uint64 // see makeRoom
	used  int
	built bool // it holds what it should; for those who fill it on first use
}

// reset empties the index and makes room for n entries.
func (x *index) reset(n int) {
	x.slots = zeroed(x.slots, 1<<bits.Len(uint(2*n+15)))
	x.used, x.built = 0, true
}

// resetAgain empties the index and makes room for as many entries as it had: one message is
// like the one before.
func (x *index) resetAgain() { x.reset(x.used) }

func (x *index) bytes() int { return bytesOf(x.slots) + bytesOf(x.moved) }

// find returns the position of an entry with that hash for which equal says yes.
func (x *index) find(hash uint64, equal func(pos int32) bool) (int32, bool) {
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

// add adds an entry, unless equal says of one with that hash that it is the same.
// A table with many equal entries would make each of them take as long as all
// before it.
func (x *index) add(hash uint64, pos int32, equal func(pos int32) bool) {
	if _, ok := x.find(hash, equal); !ok {
		x.addNew(hash, pos)
	}
}

// addNew adds an entry that is equal to none.
func (x *index) addNew(hash uint64, pos int32) {
	x.makeRoom()
	x.put(uint64(folded(hash))<<32 | uint64(uint32(pos)+1))
	x.used++
}

// folded returns what a slot has of a hash.
func folded(hash uint64) uint32 { return uint32(hash>>32) ^ uint32(hash) }

// makeRoom keeps half of the slots free.
func (x *index) makeRoom() {
	if 2*(x.used+1) <= len(x.slots) {
		return
	}
	x.moved = x.moved[:0]
	for _, slot := range x.slots {
		if slot != 0 {
			x.moved = append(x.moved, slot)
		}
	}
	x.slots = zeroed(x.slots, 4*len(x.slots))
	for _, slot := range x.moved {
		x.put(slot)
	}
}

func (x *index) put(slot uint64) {
	mask := uint32(len(x.slots) - 1)
	i := uint32(slot>>32) & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = slot
}

// mixSeeds keep messages from being made so that everything in them has the same hash.
var mixSeeds = [2]uint64{rand.Uint64(), rand.Uint64()}

// mix returns the hash of h followed by v.
func mix(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^mixSeeds[0], v^mixSeeds[1])
	return hi ^ lo
}

// hashIndices returns the hash of h followed by indices.
func hashIndices(h uint64, indices []int32) uint64 {
	for ; len(indices) >= 2; indices = indices[2:] { // two at a time
		h = mix(h, uint64(uint32(indices[0]))<<32|uint64(uint32(indices[1])))
	}
	for _, i := range indices {
		h = mix(h, uint64(uint32(i)))
	}
	return h
}
