// SPDX-License-Identifier: Apache-2.0

package rewrite

// byAddress sorts frames by their addresses, so that what is looked up one after the other
// lies side by side in memory.
type byAddress struct {
	keys, next []uint64 // an address's offset in the upper half, the frame in the lower
}

// add adds a frame.
func (o *byAddress) add(offset uint32, frame int) {
	o.keys = append(o.keys, uint64(offset)<<32|uint64(frame))
}

// sorted calls visit for the frames in the order of their offsets, and forgets them.
//
// It is a radix sort, least significant digit first: comparing would take as long as the
// disorder costs.
func (o *byAddress) sorted(visit func(offset uint32, frame int)) {
	const (
		digitBits = 8
		digits    = 4
		mask      = 1<<digitBits - 1
	)
	o.next = resized(o.next, len(o.keys))
	var counts [digits][mask + 1]int32
	for _, key := range o.keys {
		for d := range counts {
			counts[d][key>>(32+d*digitBits)&mask]++
		}
	}
	for d := range counts {
		at := int32(0)
		for digit, count := range counts[d] {
			counts[d][digit] = at
			at += count
		}
		for _, key := range o.keys {
			digit := key >> (32 + d*digitBits) & mask
			o.next[counts[d][digit]] = key
			counts[d][digit]++
		}
		o.keys, o.next = o.next, o.keys
	}
	for _, key := range o.keys {
		visit(uint32(key>>32), int(uint32(key)))
	}
	o.keys = o.keys[:0]
}
