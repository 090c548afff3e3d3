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
	const (
		digitBits = 8
		digits    = 64 / digitBits
		mask      = 1<<digitBits - 1
	)
	s.items, s.next = scratch.Resized(s.items, n), scratch.Resized(s.next, n)
	var counts [digits][mask + 1]int32
	for i := range s.items {
		k := key(i)
		s.items[i] = sortItem{k, int32(i)}
		for d := range counts {
			counts[d][k>>(d*digitBits)&mask]++
		}
	}
	for d := range counts {
		if n == 0 || counts[d][s.items[0].key>>(d*digitBits)&mask] == int32(n) {
			continue
		}
		at := int32(0)
		for digit, count := range counts[d] {
			counts[d][digit] = at
			at += count
		}
		for _, item := range s.items {
			digit := item.key >> (d * digitBits) & mask
			s.next[counts[d][digit]] = item
			counts[d][digit]++
		}
		s.items, s.next = s.next, s.items
	}
	return s.items
}
