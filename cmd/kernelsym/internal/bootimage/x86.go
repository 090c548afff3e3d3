// SPDX-License-Identifier: Apache-2.0

package bootimage

import (
	"encoding/binary"
	"io"
	"math/bits"
)

// An x86Reader undoes the x86 filter of xz. The filter has replaced the relative targets of calls and
// jumps (the opcodes E8 and E9) by absolute ones, which repeat more often. A byte E8 or E9 that is not
// an opcode is replaced as well, so what was replaced follows from the bytes alone: a target counts if
// its highest byte is 00 or FF, and if it does not overlap with one that was left alone just before.
type x86Reader struct {
	r     io.Reader
	err   error  // of r
	buf   []byte // a part of array
	ready int    // number of bytes in buf that are final
	pos   uint32 // position of the first byte of buf that is not final
	left  uint8  // which of the three bytes before pos are opcodes that were left alone; bit 0 is the last
	array [1 << 16]byte
}

func newX86Reader(r io.Reader) *x86Reader { return &x86Reader{r: r} }

// instructionLen is the length of an opcode and its target.
const instructionLen = 5

// Read returns filtered bytes. The last four bytes of the stream contain no whole instruction.
func (x *x86Reader) Read(p []byte) (int, error) {
	for x.ready == 0 {
		if x.err != nil && len(x.buf) == 0 {
			return 0, x.err
		}
		if x.err != nil {
			x.ready = len(x.buf)
			break
		}
		x.fill()
	}
	n := copy(p, x.buf[:x.ready])
	x.buf, x.ready = x.buf[n:], x.ready-n
	return n, nil
}

// fill reads more bytes, and makes those final that do not depend on later ones.
func (x *x86Reader) fill() {
	kept := copy(x.array[:], x.buf)
	n, err := x.r.Read(x.array[kept:])
	x.buf, x.err = x.array[:kept+n], err
	for x.ready+instructionLen <= len(x.buf) {
		done := 1
		isOpcode := x.buf[x.ready]&0xfe == 0xe8
		if isOpcode && x.undo(x.buf[x.ready+1:][:instructionLen-1]) {
			done, isOpcode = instructionLen, false
		}
		x.left = x.left << done & 7
		if isOpcode {
			x.left |= 1
		}
		x.ready, x.pos = x.ready+done, x.pos+uint32(done)
	}
}

// undo restores the target of the opcode at pos. It returns false if the target was left alone.
func (x *x86Reader) undo(target []byte) bool {
	before := bits.Len8(x.left) // distance to an opcode that was left alone
	if bits.OnesCount8(x.left) > 1 || before > 0 && isSign(target[3-before]) || !isSign(target[3]) {
		return false
	}
	v := binary.LittleEndian.Uint32(target)
	for {
		v -= x.pos + instructionLen
		if before == 0 || !isSign(byte(v>>(24-8*before))) {
			break
		}
		v ^= 1<<(32-8*before) - 1
	}
	v = uint32(int32(v<<7) >> 7) // 25 bits with a sign
	binary.LittleEndian.PutUint32(target, v)
	return true
}

// isSign reports whether a byte is the highest of a number with few significant bits.
func isSign(b byte) bool { return b == 0 || b == 0xff }
