// SPDX-License-Identifier: Apache-2.0

// Package btftest writes BTF for tests, in the format of include/uapi/linux/btf.h.
package btftest

import "encoding/binary"

// File returns BTF with types and strings.
func File(types []byte, strings string) []byte {
	const header = 24 // struct btf_header
	b := make([]byte, header)
	binary.NativeEndian.PutUint16(b, 0xeb9f)
	b[2] = 1
	binary.NativeEndian.PutUint32(b[4:], header)
	binary.NativeEndian.PutUint32(b[12:], uint32(len(types)))
	binary.NativeEndian.PutUint32(b[16:], uint32(len(types)))
	binary.NativeEndian.PutUint32(b[20:], uint32(len(strings)))
	return append(append(b, types...), strings...)
}

// Type returns a struct btf_type of a kind with that many members, and the words that follow
// it.
func Type(name uint32, kind uint8, members uint32, more ...uint32) []byte {
	var b []byte
	for _, word := range append([]uint32{name, uint32(kind)<<24 | members, 0}, more...) {
		b = binary.NativeEndian.AppendUint32(b, word)
	}
	return b
}
