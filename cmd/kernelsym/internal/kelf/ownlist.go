// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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
	offsets []byte // of the addresses, num numbers of 32 bits
	at      uint64 // address of offsets
}

// errOwnList is returned for a list in an unknown format.
var errOwnList = errors.New("the kernel's own list of symbols (kallsyms_names) is damaged or of an unknown form")

// each calls yield for all symbols in order, with their number, type and name. The name is valid
// only until yield returns.
func (l *ownList) each(yield func(i int, typ byte, name []byte)) error {
	var tokens [256][]byte
	if len(l.index) < 2*len(tokens) || len(l.offsets)/4 < l.num {
		return errOwnList
	}
	for i := range tokens {
		at := int(l.order.Uint16(l.index[2*i:]))
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

// maxName bounds the length of a name (KSYM_NAME_LEN), and of its compressed form, which is no
// longer.
const maxName = 512

// An anchor is a symbol whose address in the ELF file is known.
type anchor struct {
	name string
	addr uint64
}

// print returns the list in the format of /proc/kallsyms, with the addresses of the ELF file. A
// relocation may set the base of the offsets, so the anchors determine it.
func (l *ownList) print(anchors []anchor) ([]byte, error) {
	numbers := make(map[string]int, len(anchors))
	for _, a := range anchors {
		numbers[a.name] = -1
	}
	err := l.each(func(i int, _ byte, name []byte) {
		if number, ok := numbers[string(name)]; ok && number < 0 {
			numbers[string(name)] = i
		}
	})
	if err != nil {
		return nil, err
	}
	address, err := l.addresses(anchors, numbers)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, 0, l.num*perSymbol)
	size := 0
	err = l.each(func(i int, typ byte, name []byte) {
		if size += lineLen + len(name); size <= maxSmall {
			dst = appendLine(dst, address(i), typ, name)
		}
	})
	if err == nil && size > maxSmall {
		err = errLargeList
	}
	return dst, err
}

// addresses returns the function that maps the numbers of symbols to their addresses. It is the one
// that is right for the anchors, whose numbers are given.
func (l *ownList) addresses(anchors []anchor, numbers map[string]int) (func(i int) uint64, error) {
	if len(anchors) < 2 {
		return nil, fmt.Errorf("%w: nothing determines its addresses", errOwnList)
	}
	for _, a := range anchors {
		if numbers[a.name] < 0 {
			return nil, fmt.Errorf("%w: %s is not in it", errOwnList, a.name)
		}
	}
	offset := func(i int) uint32 { return l.order.Uint32(l.offsets[4*i:]) }
	first, from := anchors[0].addr, offset(numbers[anchors[0].name])
	for _, form := range []func(i int) uint64{
		func(i int) uint64 { return first + uint64(offset(i)) - uint64(from) },
		func(i int) uint64 { // CONFIG_KALLSYMS_ABSOLUTE_PERCPU: addresses, and complements
			if at := offset(i); int32(at) < 0 {
				return first + uint64(from) - uint64(at)
			}
			return uint64(offset(i))
		},
		func(i int) uint64 { return l.at + 4*uint64(i) + uint64(int32(offset(i))) }, // Linux 7.3: relative to the entry
	} {
		if !slices.ContainsFunc(anchors, func(a anchor) bool { return form(numbers[a.name]) != a.addr }) {
			return form, nil
		}
	}
	return nil, fmt.Errorf("%w: it has other addresses for %v", errOwnList, anchors)
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
