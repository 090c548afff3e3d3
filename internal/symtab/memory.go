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

// A Sizer computes how much memory the symbols of a [Text] take, without building it. Its zero value has no symbols.
type Sizer struct {
	symbols int
	records int // bytes of the names' records

	last, name []byte // the last name, and memory for the next one
}

// Add adds the name of a symbol. Symbols come in the order in which a [Builder] gets them.
func (z *Sizer) Add(name string) {
	if z.symbols%blockLen == 0 {
		z.last = z.last[:0]
	}
	z.symbols++
	z.name = append(z.name[:0], name...)
	shared := sharedPrefix(z.last, z.name)
	z.last, z.name = z.name, z.last
	z.records += headLen(len(name)-shared) + len(name) - shared
}

// Least returns a lower bound of [Text.Memory], which is at most a tenth larger, apart from eight bytes for each symbol of
// 64 KiB or more.
func (z *Sizer) Least() int64 {
	return sizeOf[Text](1) + sizeOf[extent](z.symbols+scanWidth) + sizeOf[uint32](z.symbols/leastPerBucket) +
		int64(z.records) + sizeOf[uint32]((z.symbols+blockLen-1)/blockLen) +
		sizeOf[atomic.Pointer[Name]](cacheSize(z.symbols))
}

// Memory returns the number of bytes that the lines take, without the names of files. A nil Lines takes
// none.
func (l *Lines) Memory() int64 {
	if l == nil {
		return 0
	}
	return sizeOf[Lines](1) + sizeOf[lineRecord](cap(l.records)) + sizeOf[uint64](cap(l.files))
}

// Retained returns the number of bytes that the lines keep from being freed: [Lines.Memory], and the names of files, which
// they may share with others.
func (l *Lines) Retained() int64 {
	n := l.Memory()
	if l != nil {
		for _, file := range l.files {
			n += int64(len(file.Value()))
		}
	}
	return n
}
