// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"bytes"
	"encoding/binary"
)

// A reader reads numbers and strings from memory. Reading beyond the end returns zeros and sets
// short.
type reader struct {
	data  []byte
	pos   int
	order binary.ByteOrder
	short bool
}

// next returns the next n bytes, or nil beyond the end.
func (r *reader) next(n uint64) []byte {
	if n > uint64(len(r.data)-r.pos) {
		r.short, r.pos = true, len(r.data)
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// left reports whether there is more to read.
func (r *reader) left() bool { return r.pos < len(r.data) }

// uint reads a number of n bytes: 1, 2, 3, 4 or 8.
func (r *reader) uint(n uint64) uint64 {
	b := r.next(n)
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(r.order.Uint16(b))
	case 3:
		if r.order == binary.BigEndian {
			return uint64(b[0])<<16 | uint64(b[1])<<8 | uint64(b[2])
		}
		return uint64(b[2])<<16 | uint64(b[1])<<8 | uint64(b[0])
	case 4:
		return uint64(r.order.Uint32(b))
	case 8:
		return r.order.Uint64(b)
	}
	return 0
}

// uleb reads an unsigned LEB128 number. Bits beyond 64 are lost.
func (r *reader) uleb() uint64 {
	var v uint64
	for shift := 0; r.pos < len(r.data); shift += 7 {
		b := r.data[r.pos]
		r.pos++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.short = true
	return 0
}

// sleb reads a signed LEB128 number.
func (r *reader) sleb() int64 {
	var v int64
	for shift := 0; r.pos < len(r.data); shift += 7 {
		b := r.data[r.pos]
		r.pos++
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.short = true
	return 0
}

// string reads up to and including a zero byte, which is not part of the result.
func (r *reader) string() []byte {
	n := bytes.IndexByte(r.data[r.pos:], 0)
	if n < 0 {
		r.short, r.pos = true, len(r.data)
		return nil
	}
	s := r.data[r.pos : r.pos+n]
	r.pos += n + 1
	return s
}

// length reads the length of the data that follows, and whether offsets in it have eight bytes
// (section 7.4 of DWARF 5).
func (r *reader) length() (n uint64, wide bool) {
	const escape = 0xffffffff
	if n = r.uint(4); n == escape {
		return r.uint(8), true
	}
	return n, false
}
