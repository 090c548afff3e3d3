// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"reflect"
	"sync/atomic"
)

// Memory returns the bytes that what the table knows takes, of each origin, that
// of unloaded code included. It is a sum of the sizes of what is stored, without
// what the allocator rounds up, and without the readable names that lookups keep
// for a while.
func (t *Table) Memory() [NumOrigins]int64 { return t.counts.memory }

// sizeOf returns the bytes of n values.
func sizeOf[T any](n int) int64 { return int64(reflect.TypeFor[T]().Size()) * int64(n) }

// interned is about what the package unique takes for a string, beside it: an entry
// in a trie and a weak pointer, as measured with Go 1.26.
const interned = 190

// memory returns the bytes that the image takes, with its place in the tree. What the functions
// of a program share is counted with each of them, the names of files are not.
func (m *Image) memory() int64 {
	n := sizeOf[Image](1) + sizeOf[segment](1) + sizeOf[uint64](1) + int64(len(m.Name())) + interned
	if m.Program != nil {
		n += sizeOf[Program](1)
	}
	if l := m.Lines; l != nil {
		n += sizeOf[Lines](1) + sizeOf[lineRecord](cap(l.records)) + sizeOf[uint64](cap(l.files))
	}
	if m.Text != nil {
		s := &m.symbols
		n += sizeOf[Text](1) +
			sizeOf[extent](cap(s.extents)) + sizeOf[large](cap(s.large)) + sizeOf[uint32](cap(s.index)) +
			int64(cap(s.names.packed)) + sizeOf[uint32](cap(s.names.blocks)) +
			sizeOf[atomic.Pointer[Name]](cap(s.names.cache.slots))
	}
	return n
}
