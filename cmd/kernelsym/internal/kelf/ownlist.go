// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// An ownList is the list of symbols that a kernel carries for itself, and prints as /proc/kallsyms.
// scripts/kallsyms.c writes it into the read-only data. This package knows the formats of Linux
// 5.10 to 7.3. Names are compressed: each byte stands for a token, which is a piece of text.
type ownList struct {
	order   binary.ByteOrder
	num     int
	names   []byte // for each symbol a length, as uvarint, and that many bytes
	tokens  []byte // pieces of text, each followed by a zero byte
	index   []byte // the offset in tokens for each byte, 256 numbers of 16 bits
	offsets []byte // stand for the addresses, num numbers of 32 bits
}

// errOwnList is returned for a list in an unknown format.
var errOwnList = errors.New("the kernel's own list of symbols (kallsyms_names) is damaged or of an unknown form")

// each calls yield for all symbols in order, with their number, type and name. The name is valid
// only until yield returns.
func (l *ownList) each(yield func(i int, typ byte, name []byte)) error {
	var tokens [256][]byte
	if len(l.index) < 2*len(tokens) {
		return errOwnList
	}
	for i := range tokens {
		at := l.tokenAt(byte(i))
		if at >= len(l.tokens) {
			return errOwnList
		}
		end := bytes.IndexByte(l.tokens[at:], 0)
		if end < 0 {
			return errOwnList
		}
		tokens[i] = l.tokens[at : at+end]
	}
	var text []byte // the type, then the name
	rest := l.names
	for i := range l.num {
		n, width := binary.Uvarint(rest)
		if width <= 0 || n > uint64(len(rest)-width) || n > maxName {
			return errOwnList
		}
		text = text[:0]
		for _, b := range rest[width : width+int(n)] {
			if text = append(text, tokens[b]...); len(text) > 1+maxName {
				return errOwnList
			}
		}
		if len(text) < 2 || bytes.IndexByte(text, '\n') >= 0 {
			return errOwnList
		}
		yield(i, text[0], text[1:])
		rest = rest[width+int(n):]
	}
	return nil
}

// tokenAt returns the offset of the token for a byte.
func (l *ownList) tokenAt(b byte) int { return int(l.order.Uint16(l.index[2*int(b):])) }

// maxName bounds the length of a name (KSYM_NAME_LEN), and of its compressed form, which is no
// longer.
const maxName = 512

// An anchor is a symbol whose address is known.
type anchor struct {
	name string
	addr uint64
}

// print returns the list in the format of /proc/kallsyms, with the addresses that the anchors have.
// The offsets alone do not give them, because a relocation may set their base.
func (l *ownList) print(anchors ...anchor) ([]byte, error) {
	if len(anchors) == 0 {
		return nil, fmt.Errorf("%w: nothing determines its addresses", errOwnList)
	}
	f, err := l.form()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(anchors))
	for i, a := range anchors {
		names[i] = a.name
	}
	numbers, err := l.find(names...)
	if err != nil {
		return nil, err
	}
	base := anchors[0].addr - f.at(l, 0, numbers[0])
	for i, a := range anchors {
		if f.at(l, base, numbers[i]) != a.addr {
			return nil, fmt.Errorf("%w: it has other addresses for %v", errOwnList, anchors)
		}
	}
	dst := make([]byte, 0, l.num*perSymbol)
	size := 0
	err = l.each(func(i int, typ byte, name []byte) {
		if size += lineLen + len(name); size <= maxSmall {
			dst = appendLine(dst, f.at(l, base, i), typ, name)
		}
	})
	if err == nil && size > maxSmall {
		err = errLargeList
	}
	return dst, err
}

// find returns the number of the first symbol with each name. It is an error if there is none.
func (l *ownList) find(names ...string) ([]int, error) {
	numbers := make([]int, len(names))
	for i := range numbers {
		numbers[i] = -1
	}
	err := l.each(func(n int, _ byte, name []byte) {
		for i := range names {
			if numbers[i] < 0 && string(name) == names[i] {
				numbers[i] = n
			}
		}
	})
	if i := slices.Index(numbers, -1); err == nil && i >= 0 {
		err = fmt.Errorf("%w: %s is not in it", errOwnList, names[i])
	}
	return numbers, err
}

// distances returns the addresses of symbols minus that of the first one.
func (l *ownList) distances(names ...string) ([]uint64, error) {
	f, err := l.form()
	if err != nil {
		return nil, err
	}
	numbers, err := l.find(names...)
	if err != nil {
		return nil, err
	}
	distances := make([]uint64, len(names))
	for i, n := range numbers {
		distances[i] = f.at(l, 0, n) - f.at(l, 0, numbers[0])
	}
	return distances, nil
}

// A form is a way in which offsets stand for addresses (scripts/kallsyms.c).
type form struct {
	// at returns the address of symbol number i, given the base.
	at func(l *ownList, base uint64, i int) uint64
	// fromLowest is whether the base is the lowest address that is relative to it, and not the address
	// of the offsets, which is above that of code.
	fromLowest bool
}

var forms = []form{
	{ // The distance from the base.
		func(l *ownList, base uint64, i int) uint64 { return base + uint64(l.offset(i)) }, true,
	},
	{ // CONFIG_KALLSYMS_ABSOLUTE_PERCPU of x86: the complement of that distance, or an absolute address.
		func(l *ownList, base uint64, i int) uint64 {
			if off := l.offset(i); int32(off) < 0 {
				return base + uint64(^off)
			}
			return uint64(l.offset(i))
		}, true,
	},
	{ // Linux 7: the distance from the place of the offset.
		func(l *ownList, base uint64, i int) uint64 { return base + 4*uint64(i) + uint64(int32(l.offset(i))) }, false,
	},
}

func (l *ownList) offset(i int) uint32 { return l.order.Uint32(l.offsets[4*i:]) }

// form returns the form of the offsets. It is the only one in which the addresses are in order, as in
// any list, and in which the base is where that form has it.
func (l *ownList) form() (*form, error) {
	if len(l.offsets)/4 < l.num {
		return nil, errOwnList
	}
	var found *form
	for i := range forms {
		switch f := &forms[i]; {
		case !l.has(f):
		case found != nil:
			return nil, fmt.Errorf("%w: its addresses have two forms", errOwnList)
		default:
			found = f
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%w: its addresses are not in order", errOwnList)
	}
	return found, nil
}

// has reports whether the offsets can have a form.
func (l *ownList) has(f *form) bool {
	const base = 1 << 63
	last, lowest := uint64(0), uint64(0)
	for i := range l.num {
		addr := f.at(l, base, i)
		if addr < last {
			return false
		}
		last = addr
		if lowest == 0 && addr > math.MaxUint32 { // it is not absolute
			lowest = addr
		}
	}
	return (lowest == base) == f.fromLowest
}

// perSymbol is the approximate length in bytes of a line of /proc/kallsyms.
const perSymbol = 48

// lineLen is the length in bytes of a line without its name.
const lineLen = 16 + len(" T ") + len("\n")

// appendLine appends a line of /proc/kallsyms.
func appendLine[name []byte | string](dst []byte, addr uint64, typ byte, n name) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[addr>>shift&15])
	}
	dst = append(dst, ' ', typ, ' ')
	dst = append(dst, n...)
	return append(dst, '\n')
}
