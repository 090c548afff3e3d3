// SPDX-License-Identifier: Apache-2.0

package pack

import "unicode/utf8"

// decoder reads a section from beginning to end. After the first malformed record, failed is
// set and everything it returns is 0.
type decoder struct {
	data   string
	at     int
	failed bool
}

func (d *decoder) fail() { d.failed, d.at = true, len(d.data) }

// left returns the number of unread bytes.
func (d *decoder) left() int { return len(d.data) - d.at }

// uint reads a varint of at most 32 bits.
func (d *decoder) uint() uint32 {
	if d.at < len(d.data) && d.data[d.at] < 0x80 { // most are this short
		d.at++
		return uint32(d.data[d.at-1])
	}
	return d.longUint()
}

func (d *decoder) longUint() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		if d.at >= len(d.data) {
			break
		}
		b := d.data[d.at]
		d.at++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	d.fail()
	return 0
}

// int reads a signed varint, of at most 32 bits in zigzag form.
func (d *decoder) int() int32 { return unzigzag(d.uint()) }

func (d *decoder) uint64() uint64 {
	const size = 8
	if d.left() < size {
		d.fail()
		return 0
	}
	v := uint64(fixed(d.data, d.at)) | uint64(fixed(d.data, d.at+4))<<32
	d.at += size
	return v
}

// string reads a string.
func (d *decoder) string() string {
	n := int(d.uint())
	if n > d.left() || n > maxString {
		d.fail()
		return ""
	}
	s := d.data[d.at : d.at+n]
	if !utf8.ValidString(s) {
		d.fail()
		return ""
	}
	d.at += n
	return s
}

// fixed returns the 32 bits at an offset, which are stored least significant byte first.
func fixed(s string, at int) uint32 {
	s = s[at : at+4]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// uvarint returns the varint at an offset, and the offset after it. The section must have been
// checked.
func uvarint(s string, at int) (v uint32, next int) {
	b := s[at]
	if b < 0x80 {
		return uint32(b), at + 1
	}
	return longUvarint(s, at)
}

func longUvarint(s string, at int) (v uint32, next int) {
	for shift := 0; ; shift += 7 {
		b := s[at]
		at++
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v, at
		}
	}
}

// skip returns the offset after n varints.
func skip(s string, at, n int) int {
	for ; n > 0; at++ {
		if s[at] < 0x80 {
			n--
		}
	}
	return at
}

func zigzag(v int32) uint32   { return uint32(v<<1) ^ uint32(v>>31) }
func unzigzag(v uint32) int32 { return int32(v>>1) ^ -int32(v&1) }
