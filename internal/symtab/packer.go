// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A packer takes symbols in the order of their addresses and keeps them in
// chunks until their number is known.
type packer struct {
	n     int
	spans []span   // the chunk being filled
	full  [][]span // those before it

	names     []byte   // the chunk being filled, up to a whole record
	fullNames [][]byte // those before it
	total     int      // bytes in all of them
	recordLen int      // bytes of the last record
	blocks    []uint32 // see names
	prev      []byte   // the last name
}

// span is where a symbol lies.
type span struct {
	offset, size uint32
}

const (
	spanChunk = 1 << 12
	nameChunk = 1 << 16
)

// add packs a symbol, of no size yet, and reports whether it fits.
func (p *packer) add(offset uint32, name []byte, folded bool) bool {
	if uint64(p.total) > math.MaxUint32-maxRecord {
		return false
	}
	if len(p.spans) == cap(p.spans) {
		p.full = append(p.full, p.spans)
		p.spans = make([]span, 0, spanChunk)
	}
	p.spans = append(p.spans, span{offset: offset})

	if p.n%blockLen == 0 {
		p.blocks = append(p.blocks, uint32(p.total))
		p.prev = p.prev[:0]
	}
	shared := sharedPrefix(p.prev, name)
	p.prev = append(p.prev[:shared], name[shared:]...)

	if cap(p.names)-len(p.names) < maxRecord {
		p.fullNames = append(p.fullNames, p.names)
		p.names = make([]byte, 0, nameChunk)
	}
	end := len(p.names)
	p.recordLen = putRecord(p.names[end:cap(p.names)], name, shared, folded)
	p.names = p.names[:end+p.recordLen]
	p.total += p.recordLen
	p.n++
	return true
}

// emptied returns an empty packer that uses the memory of the last chunks again.
func (p *packer) emptied() packer {
	return packer{spans: p.spans[:0], names: p.names[:0], blocks: p.blocks[:0], prev: p.prev[:0]}
}

// lastName returns the name of the last symbol, valid until the next one is
// added.
func (p *packer) lastName() []byte { return p.prev }

// lastOffset returns the offset of the last symbol.
func (p *packer) lastOffset() uint32 { return p.spans[len(p.spans)-1].offset }

// setSize sets the size of the last symbol.
func (p *packer) setSize(size uint32) { p.spans[len(p.spans)-1].size = size }

// dropLast takes back the last call of add. The name that is added next shares
// nothing with the one before it, which is not known any more.
func (p *packer) dropLast() {
	p.n--
	if p.n%blockLen == 0 {
		p.blocks = p.blocks[:len(p.blocks)-1]
	}
	p.prev = p.prev[:0]
	p.names = p.names[:len(p.names)-p.recordLen]
	p.total -= p.recordLen
	p.spans = p.spans[:len(p.spans)-1]
}

// sharedPrefix returns how many bytes the name that follows prev in a block
// shares with it.
func sharedPrefix(prev, name []byte) int {
	n, i := min(len(prev), len(name), maxShared), 0
	for ; i+8 <= n; i += 8 {
		diff := binary.LittleEndian.Uint64(prev[i:]) ^ binary.LittleEndian.Uint64(name[i:])
		if diff != 0 {
			return i + bits.TrailingZeros64(diff)/8
		}
	}
	for i < n && prev[i] == name[i] {
		i++
	}
	return i
}

// symbols returns the packed symbols, all offsets raised by the given number. There are none
// in the gap.
func (p *packer) symbols(raise uint32, gap offsets) symbols {
	s := symbols{
		gap:     gap,
		extents: make([]extent, 0, p.n+scanWidth),
		names: names{
			packed: make([]byte, 0, p.total),
			blocks: append(make([]uint32, 0, len(p.blocks)), p.blocks...),
		},
	}
	for _, chunk := range append(p.full, p.spans) {
		for _, sp := range chunk {
			if sp.size >= largeSize {
				s.large = append(s.large, large{symbol: uint32(len(s.extents)), size: sp.size})
			}
			s.extents = append(s.extents, newExtent(sp.offset+raise, sp.size))
		}
	}
	for range scanWidth {
		s.extents = append(s.extents, noExtent)
	}
	for _, chunk := range append(p.fullNames, p.names) {
		s.names.packed = append(s.names.packed, chunk...)
	}
	s.buildIndex()
	s.names.cache.init(p.n)
	return s
}
