// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// A finder finds the kernel's own list of symbols in an image without symbols. The parts of the list
// follow each other, each of them aligned:
//
//	offsets, base, number, names, markers, tokens, index              Linux 5.10
//	offsets, base, number, names, markers, sequence, tokens, index    Linux 6.1
//	number, names, markers, tokens, index, offsets, base, sequence    Linux 6.12
//	number, names, markers, tokens, index, offsets, sequence          Linux 7
//
// The search begins at the tokens of the digits, which stand for themselves. The rest is no guess:
//
//   - the 256 numbers of the index are the offsets of the 256 tokens before it;
//   - as many names as the number says reach up to the markers, which are the offsets of every 256th
//     name, and between the markers and the tokens is nothing, or the sequence of three bytes for
//     each symbol;
//   - exactly one of the two places has as many offsets that are in order, in exactly one form.
type finder struct {
	image []byte
	order binary.ByteOrder
	align int // of the parts: 8, or 4 in Linux 7
	steps int // numbers, names and tokens that may still be read
}

// maxSteps bounds the numbers, names and tokens that are read in search of a list. Linux 7.3 has 200,000 names. Their number
// is at most the 3 millionth that is read, or the 12 millionth if the search tries another alignment first.
const maxSteps = 1 << 25

// maxNames bounds the distance in bytes from the number to the tokens. The largest kernels have 10 MB.
const maxNames = 1 << 26

// The tokens of the digits.
var digits = []byte("0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00")

// findOwnList returns the list in an image. The error wraps ErrNoList if there is none, or several.
func findOwnList(image []byte, order binary.ByteOrder) (*ownList, error) {
	f := finder{image: image, order: order, steps: maxSteps}
	var found *ownList
	for at := 0; ; at++ {
		next := bytes.Index(image[at:], digits)
		if next < 0 {
			break
		}
		at += next
		for _, f.align = range []int{8, 4} {
			l := f.listAround(at)
			if l == nil {
				continue
			}
			if found != nil {
				return nil, fmt.Errorf("%w: the image has several", ErrNoList)
			}
			found = l
			break
		}
	}
	switch {
	case f.steps == 0:
		return nil, fmt.Errorf("%w: the image has too much that could be one", ErrNoList)
	case found == nil:
		return nil, fmt.Errorf("%w: was it built without CONFIG_KALLSYMS?", ErrNoList)
	}
	return found, nil
}

// listAround returns the list that has the tokens of the digits at a place, or nil (contract 10.4).
func (f *finder) listAround(place int) *ownList {
	l := &ownList{order: f.order}
	start, index := f.tokens(l, place)
	if start < 0 {
		return nil
	}
	number := f.names(l, start)
	if number < 0 {
		return nil
	}
	found := 0
	length := f.up(4 * l.num)
	for _, at := range []int{number - f.up(8) - length, f.up(index + len(l.index))} {
		if at < 0 || at+length > len(f.image) {
			continue
		}
		candidate := *l
		candidate.offsets = f.image[at : at+4*l.num]
		if _, err := candidate.form(); err == nil {
			l, found = &candidate, found+1
		}
	}
	if found != 1 {
		return nil
	}
	return l
}

// up aligns a place.
func (f *finder) up(at int) int { return (at + f.align - 1) &^ (f.align - 1) }

func (f *finder) uint32(at int) int { return int(f.order.Uint32(f.image[at:])) }

// step counts a step, and reports whether it may be made.
func (f *finder) step() bool {
	f.steps = max(f.steps-1, 0)
	return f.steps > 0
}

// tokens sets the tokens and the index of a list, and returns where they begin. start is negative if
// they are none.
func (f *finder) tokens(l *ownList, digits int) (start, index int) {
	end := digits
	for range 256 - '0' {
		if !f.step() {
			return -1, 0
		}
		n := bytes.IndexByte(f.image[end:min(end+maxTokens, len(f.image))], 0)
		if n < 0 {
			return -1, 0
		}
		end += n + 1
	}
	index = f.up(end)
	if index+512 > len(f.image) {
		return -1, 0
	}
	l.index = f.image[index : index+512]
	start = digits - l.tokenAt('0')
	if start < 0 {
		return -1, 0
	}
	l.tokens = f.image[start:end]
	at := 0
	for i := range 256 {
		if at != l.tokenAt(byte(i)) || at >= len(l.tokens) {
			return -1, 0
		}
		at += bytes.IndexByte(l.tokens[at:], 0) + 1
	}
	if at != len(l.tokens) {
		return -1, 0
	}
	return start, index
}

// names sets the number and the names of a list, and returns where the number is. It is negative if
// there are none before the tokens.
func (f *finder) names(l *ownList, tokens int) (number int) {
	isType := [256]bool{} // whether the name of a symbol can begin with a token: with the symbol's type
	for i := range isType {
		c := l.tokens[l.tokenAt(byte(i))] | 0x20
		isType[i] = 'a' <= c && c <= 'z'
	}
	for number = (tokens - 1) &^ (f.align - 1); number >= max(0, tokens-maxNames); number -= f.align {
		if !f.step() {
			return -1
		}
		l.num = f.uint32(number)
		names := f.up(number + 4)
		if l.num == 0 || l.num > maxSymbols || names+2*l.num > tokens {
			continue
		}
		if end := f.chain(names, tokens, l.num, &isType); end > 0 {
			l.names = f.image[names:end]
			return number
		}
	}
	return -1
}

// chain follows n names from a place on, and returns where they end. It returns 0 if that is not
// followed by their markers, and these by the tokens.
func (f *finder) chain(names, tokens, n int, isType *[256]bool) (end int) {
	var markers []int
	at := names
	for i := range n {
		if !f.step() {
			return 0
		}
		if i%256 == 0 {
			markers = append(markers, at-names)
		}
		length, width := binary.Uvarint(f.image[at:min(at+2, tokens)])
		if width <= 0 || length == 0 || length > maxName || at+width+int(length) > tokens || !isType[f.image[at+width]] {
			return 0
		}
		at += width + int(length)
	}
	end, at = at, f.up(at)
	if at+4*len(markers) > tokens {
		return 0
	}
	for _, marker := range markers {
		if f.uint32(at) != marker {
			return 0
		}
		at += 4
	}
	if at = f.up(at); at != tokens && f.up(at+3*n) != tokens {
		return 0
	}
	return end
}
