// SPDX-License-Identifier: Apache-2.0

package otlp

import "github.com/kernelsym/kernelsym/internal/index"

// An interner finds the entries of a table by their content. Entries that came with the message are original; the
// others were appended. One index has both, each since it was first needed:
//
//	in the table       0  1  2  …  n-1      n        n+1      n+2  …
//	                   └── original ──┘     └────── appended ──────
//	in the index       since Intern was     since Intern
//	                   first asked for      appended it
//	                   a content that may
//	                   be original
//
// A message for which nothing is interned pays nothing. A message whose new functions all have new names, as most
// have, does not pay for its original functions.
type interner[K any] struct {
	byContent   index.Index
	original    int32 // the number of original entries
	hasOriginal bool  // they are in the index
}

// entries is a table whose entries have contents of type K.
type entries[K any] interface {
	// content returns the content of an original entry. isFindable is false if the entry must not be found, because it
	// means none or may mean none (see contract 1.6), and if no content that is interned can be equal to it.
	content(i int32) (k K, isFindable bool)

	has(i int32, k K) bool // whether an entry has a content
	hash(k K) uint64       // the same for equal contents
	append(k K) int32      // returns the index of the new entry
}

// open begins with a message that has a number of original entries.
func (x *interner[K]) open(original int) {
	x.byContent.Clear()
	x.original, x.hasOriginal = int32(original), false
}

// intern returns the index of the entry with a content, and appends one if there is none. mayBeOriginal is false for a
// content that refers to an appended entry of another table: no original entry does.
func (x *interner[K]) intern(t entries[K], k K, mayBeOriginal bool) (at int32, appended bool) {
	if mayBeOriginal && !x.hasOriginal {
		x.addOriginal(t)
	}
	hash := t.hash(k)
	if at, ok := x.byContent.Find(hash, func(i int32) bool { return t.has(i, k) }); ok {
		return at, false
	}
	at = t.append(k)
	x.byContent.AddNew(hash, at)
	return at, true
}

func (x *interner[K]) addOriginal(t entries[K]) {
	x.hasOriginal = true
	x.byContent.Grow(int(x.original))
	for i := range x.original {
		x.add(t, i)
	}
}

// add lets intern find an original entry. Of several equal entries, only the first one is found. If the index had all of
// them, a table of equal entries would take the square of its length.
func (x *interner[K]) add(t entries[K], i int32) {
	if k, isFindable := t.content(i); isFindable {
		x.byContent.Add(t.hash(k), i, func(other int32) bool { return t.has(other, k) })
	}
}
