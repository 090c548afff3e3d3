// SPDX-License-Identifier: Apache-2.0

package rewrite

import "github.com/kernelsym/kernelsym/internal/scratch"

// A sorter sorts positions by keys. It is a radix sort, least significant digit first, and stable. It skips the
// digits in which all keys are equal: the addresses and times of one message have most in common.
type sorter struct {
	items, next []sortItem
}

type sortItem struct {
	key      uint64
	position int32
}

// sorted returns the positions from 0 to n-1 in the order of their keys. They are valid until the next call.
func (s *sorter) sorted(n int, key func(position int) uint64) []sortItem {
	s.items, s.next = scratch.Resized(s.items, n), scratch.Resized(s.next, n)
	differing := uint64(0)
	for i := range s.items {
		s.items[i] = sortItem{key(i), int32(i)}
		differing |= s.items[i].key ^ s.items[0].key
	}
	for shift := 0; differing>>shift != 0; shift += 8 {
		if uint8(differing>>shift) != 0 {
			s.sortByDigit(shift)
		}
	}
	return s.items
}

// sortByDigit sorts the items by the eight bits of their keys from shift on.
func (s *sorter) sortByDigit(shift int) {
	var places [1 << 8]int32
	for i := range s.items {
		places[uint8(s.items[i].key>>shift)]++
	}
	at := int32(0)
	for d, count := range places {
		places[d] = at
		at += count
	}
	for _, item := range s.items {
		place := &places[uint8(item.key>>shift)]
		s.next[*place] = item
		*place++
	}
	s.items, s.next = s.next, s.items
}
