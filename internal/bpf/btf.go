package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrBTF says that data is not BTF as the kernel has it.
var ErrBTF = errors.New("malformed BTF")

// BTF is the types and strings of a program.
type BTF struct {
	types, strings []byte
}

const (
	btfMagic     = 0xeb9f
	btfHeaderLen = 24 // struct btf_header
	btfTypeLen   = 12 // struct btf_type
)

// ParseBTF returns the BTF in data, which it keeps: it is valid as long as that is
// not changed. It is in the machine's byte order, as the kernel takes no other.
func ParseBTF(data []byte) (*BTF, error) {
	if len(data) < btfHeaderLen || binary.NativeEndian.Uint16(data) != btfMagic {
		return nil, fmt.Errorf("%w: no header", ErrBTF)
	}
	field := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(data[i:])) }
	header := field(4)
	section := func(offset, length uint64) ([]byte, bool) {
		from := header + offset
		if from+length > uint64(len(data)) {
			return nil, false
		}
		return data[from : from+length], true
	}
	types, ok := section(field(8), field(12))
	strings, okStrings := section(field(16), field(20))
	if !ok || !okStrings {
		return nil, fmt.Errorf("%w: a section of %d bytes reaches over the end", ErrBTF, len(data))
	}
	return &BTF{types: types, strings: strings}, nil
}

// String returns the string at an offset, empty if there is none.
func (b *BTF) String(offset uint32) string {
	if uint64(offset) >= uint64(len(b.strings)) {
		return ""
	}
	s, _, ok := bytes.Cut(b.strings[offset:], []byte{0})
	if !ok {
		return ""
	}
	return string(s)
}

// FunctionNames returns the names of all functions by the numbers of their types.
// Types of a kind that is newer than this code end the list, with an error.
func (b *BTF) FunctionNames() (map[uint32]string, error) {
	names := make(map[uint32]string)
	rest := b.types
	for id := uint32(1); len(rest) > 0; id++ { // 0 is void
		if len(rest) < btfTypeLen {
			return names, fmt.Errorf("%w: type %d is cut off", ErrBTF, id)
		}
		info := binary.NativeEndian.Uint32(rest[4:])
		kind, n := info>>24&0x1f, uint64(info&0xffff)
		if kind == kindFunc {
			names[id] = b.String(binary.NativeEndian.Uint32(rest))
		}
		more, ok := moreOfType(kind, n)
		if !ok {
			return names, fmt.Errorf("%w: type %d is of kind %d", ErrBTF, id, kind)
		}
		if btfTypeLen+more > uint64(len(rest)) {
			return names, fmt.Errorf("%w: type %d is cut off", ErrBTF, id)
		}
		rest = rest[btfTypeLen+more:]
	}
	return names, nil
}

// The kinds of types that are followed by more than struct btf_type, and that of
// functions (include/uapi/linux/btf.h).
const (
	kindInt       = 1
	kindArray     = 3
	kindStruct    = 4
	kindUnion     = 5
	kindEnum      = 6
	kindFunc      = 12
	kindFuncProto = 13
	kindVar       = 14
	kindDataSec   = 15
	kindDeclTag   = 17
	kindEnum64    = 19
	kindLast      = kindEnum64
)

// moreOfType returns how many bytes follow a type of that kind that has n members.
// It reports false for a kind that is not known.
func moreOfType(kind uint32, n uint64) (more uint64, ok bool) {
	switch kind {
	case kindInt, kindVar, kindDeclTag:
		return 4, true
	case kindArray:
		return 12, true
	case kindStruct, kindUnion, kindDataSec, kindEnum64:
		return 12 * n, true
	case kindEnum, kindFuncProto:
		return 8 * n, true
	}
	return 0, kind > 0 && kind <= kindLast
}
