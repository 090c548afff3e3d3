// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"reflect"
	"sync/atomic"
)

// sizeOf returns the bytes of n values.
func sizeOf[T any](n int) int64 { return int64(reflect.TypeFor[T]().Size()) * int64(n) }

// Memory returns the number of bytes that the text and its symbols take, without the readable names that
// lookups cache.
func (t *Text) Memory() int64 {
	s := &t.symbols
	aliases := sizeOf[alias](cap(t.aliases))
	for _, a := range t.aliases {
		aliases += int64(len(a.name))
	}
	return sizeOf[Text](1) + aliases +
		sizeOf[extent](cap(s.extents)) + sizeOf[large](cap(s.large)) + sizeOf[uint32](cap(s.index)) +
		int64(cap(s.names.packed)) + sizeOf[uint32](cap(s.names.blocks)) +
		sizeOf[atomic.Pointer[Name]](cap(s.names.cache.slots))
}

// Memory returns the number of bytes that the lines take, without the names of files. A nil Lines takes
// none.
func (l *Lines) Memory() int64 {
	if l == nil {
		return 0
	}
	return sizeOf[Lines](1) + sizeOf[lineRecord](cap(l.records)) + sizeOf[uint64](cap(l.files))
}
