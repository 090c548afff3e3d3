// SPDX-License-Identifier: Apache-2.0

// Package btf reads the names in BTF, the kernel's type information. bpf(2) returns the BTF of
// BPF programs; /sys/kernel/btf has the BTF of the kernel and its modules. Its layout is that
// of include/uapi/linux/btf.h. Linux 7.4 is expected to add the kinds 20 to 22, and to use 24
// bits for the number of members and 7 for the kind, instead of 16 and 5. Kernels without this
// have zeros in the new bits.
package btf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// ErrMalformed says that data is not BTF in the kernel's format, or is newer than this package.
var ErrMalformed = errors.New("malformed BTF")

// BTF holds types and strings. It is immutable.
type BTF struct {
	types, strings []byte

	base        *BTF   // its types and strings come first; nil if there is none
	firstType   uint32 // number of the first type in types
	firstString uint32 // offset of the first string in strings
}

// A Type is one type.
type Type struct {
	ID      uint32 // its number
	Kind    Kind
	Members uint32 // how many members, parameters or sites follow
	More    []byte // the bytes that follow struct btf_type

	name uint32
}

const (
	magic     = 0xeb9f
	version   = 1
	headerLen = 24 // struct btf_header; newer kernels append fields
	typeLen   = 12 // struct btf_type
)

// Parse returns the BTF in data. It keeps data, which must not change while the BTF is in use.
// The byte order must be the machine's: the kernel accepts no other.
func Parse(data []byte) (*BTF, error) {
	return parse(data, &BTF{firstType: 1}) // type 0 is void
}

// ParseSplit returns the BTF in data, which continues the types and strings of base. It keeps
// both.
func ParseSplit(data []byte, base *BTF) (*BTF, error) {
	split := &BTF{base: base, firstType: base.firstType, firstString: base.firstString + uint32(len(base.strings))}
	for t, err := range base.Types() {
		if err != nil {
			return nil, fmt.Errorf("its base: %w", err)
		}
		split.firstType = t.ID + 1
	}
	return parse(data, split)
}

// parse sets the types and strings of b from data.
func parse(data []byte, b *BTF) (*BTF, error) {
	if len(data) < headerLen || binary.NativeEndian.Uint16(data) != magic {
		return nil, fmt.Errorf("%w: no header", ErrMalformed)
	}
	field := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(data[i:])) }
	header := field(4)
	switch {
	case data[2] != version:
		return nil, fmt.Errorf("%w: version %d", ErrMalformed, data[2])
	case data[3] != 0: // the kernel refuses them, too
		return nil, fmt.Errorf("%w: flags %#x", ErrMalformed, data[3])
	case header < headerLen:
		return nil, fmt.Errorf("%w: a header of %d bytes", ErrMalformed, header)
	}
	section := func(offset, length uint64) ([]byte, bool) {
		from := header + offset
		if from+length > uint64(len(data)) {
			return nil, false
		}
		return data[from : from+length], true
	}
	var ok, okStrings bool
	b.types, ok = section(field(8), field(12))
	b.strings, okStrings = section(field(16), field(20))
	if !ok || !okStrings {
		return nil, fmt.Errorf("%w: a section of %d bytes extends past the end", ErrMalformed, len(data))
	}
	return b, nil
}

// MaxString is the length of the longest string that String returns: PATH_MAX of include/uapi/linux/limits.h.
const MaxString = 4096

// String returns the string that begins at an offset, or an empty string if none does, or a longer one than MaxString. So
// all strings of a BTF together are no longer than its section of strings. The kernel also accepts offsets into the middle
// of a string as the names of files. No known compiler or library writes such offsets.
func (b *BTF) String(offset uint32) string {
	section, offset := b.section(offset)
	if offset > 0 && uint64(offset) <= uint64(len(section)) && section[offset-1] != 0 {
		return ""
	}
	return stringAt(section, offset)
}

// Name returns the name of a type of b, empty if it has none. The name may be the end of another string, as for the kernel.
func (b *BTF) Name(t Type) string { return stringAt(b.section(t.name)) }

// section returns the section of strings that has an offset, and the offset in it.
func (b *BTF) section(offset uint32) (strings []byte, in uint32) {
	for offset < b.firstString {
		b = b.base
	}
	return b.strings, offset - b.firstString
}

// stringAt returns the bytes from an offset on, up to a zero. It returns an empty string if they are too many.
func stringAt(section []byte, offset uint32) string {
	if uint64(offset) >= uint64(len(section)) {
		return ""
	}
	rest := section[offset:]
	end := bytes.IndexByte(rest[:min(len(rest), MaxString+1)], 0)
	return string(rest[:max(0, end)])
}

// Base returns the BTF that b continues, nil if it stands alone.
func (b *BTF) Base() *BTF { return b.base }

// Types returns the types of b, but not of its base. A type that is malformed, or of a kind
// newer than this package, ends the sequence with an error.
func (b *BTF) Types() iter.Seq2[Type, error] {
	return func(yield func(Type, error) bool) {
		rest := b.types
		for id := b.firstType; len(rest) > 0; id++ {
			t, err := parseType(rest, id)
			if !yield(t, err) || err != nil {
				return
			}
			rest = rest[typeLen+len(t.More):]
		}
	}
}

func parseType(data []byte, id uint32) (Type, error) {
	if len(data) < typeLen {
		return Type{}, fmt.Errorf("%w: type %d is cut off", ErrMalformed, id)
	}
	info := binary.NativeEndian.Uint32(data[4:])
	t := Type{
		ID: id, Kind: Kind(info >> 24 & 0x7f), Members: info & 0xff_ffff,
		name: binary.NativeEndian.Uint32(data),
	}
	more, ok := t.Kind.more(uint64(t.Members))
	if !ok {
		return Type{}, fmt.Errorf("%w: type %d is of kind %d, which is not known", ErrMalformed, id, t.Kind)
	}
	if more > uint64(len(data)-typeLen) {
		return Type{}, fmt.Errorf("%w: type %d is cut off", ErrMalformed, id)
	}
	t.More = data[typeLen : typeLen+more]
	return t, nil
}

// Functions are the functions of a BTF. They take 8 bytes each, and refer to the BTF for the names.
type Functions struct {
	of  *BTF
	all []function // in the order of their types
}

type function struct{ typeID, name uint32 }

// Functions returns the functions of b, but not of its base. With an error, it also returns the functions before the
// malformed type.
func (b *BTF) Functions() (Functions, error) {
	f := Functions{of: b}
	for t, err := range b.Types() {
		if err != nil {
			return f, err
		}
		if t.Kind == KindFunc {
			f.all = append(f.all, function{t.ID, t.name})
		}
	}
	return f, nil
}

// Name returns the name of the function with that number as a type. It reports false if there is none.
func (f Functions) Name(typeID uint32) (name string, ok bool) {
	i, ok := slices.BinarySearchFunc(f.all, typeID, func(f function, typeID uint32) int { return cmp.Compare(f.typeID, typeID) })
	if !ok {
		return "", false
	}
	return stringAt(f.of.section(f.all[i].name)), true
}

// All yields the numbers and the names of the functions.
func (f Functions) All() iter.Seq2[uint32, string] {
	return func(yield func(uint32, string) bool) {
		for _, is := range f.all {
			if !yield(is.typeID, stringAt(f.of.section(is.name))) {
				return
			}
		}
	}
}
