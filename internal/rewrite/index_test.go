// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestIndexHoldsEqualEntriesOnce: else a table of equal entries, as a producer
// that does not look for duplicates makes, would take the square of its length.
func TestIndexHoldsEqualEntriesOnce(t *testing.T) {
	values := []int{7, 8, 7, 7, 9, 7, 8}
	var x index
	x.reset(0)
	for i, v := range values {
		x.add(mix(0, uint64(v)), int32(i), func(pos int32) bool { return values[pos] == v })
	}
	assert.Equal(t, 3, x.used)
	for v, want := range map[int]int32{7: 0, 8: 1, 9: 4} {
		at, ok := x.find(mix(0, uint64(v)), func(pos int32) bool { return values[pos] == v })
		assert.True(t, ok)
		assert.Equal(t, want, at, "the first")
	}
}

// TestIndexGrows adds more than there was room for, all with one hash.
func TestIndexGrows(t *testing.T) {
	var x index
	x.reset(0)
	for i := range int32(100) {
		x.addNew(42, i)
	}
	for i := range int32(100) {
		at, ok := x.find(42, func(pos int32) bool { return pos == i })
		assert.True(t, ok)
		assert.Equal(t, i, at)
	}
	_, ok := x.find(43, func(int32) bool { return true })
	assert.False(t, ok)
}
