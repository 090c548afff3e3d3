// SPDX-License-Identifier: Apache-2.0

package index

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestHoldsEqualEntriesOnce verifies that the index holds equal entries once. Otherwise, a table of
// equal entries, as a producer that does not look for duplicates makes, would take the square of
// its length.
func TestHoldsEqualEntriesOnce(t *testing.T) {
	values := []int{7, 8, 7, 7, 9, 7, 8}
	var x Index
	for i, v := range values {
		x.Add(Mix(0, uint64(v)), int32(i), func(pos int32) bool { return values[pos] == v })
	}
	assert.Equal(t, 3, x.Len())
	for v, want := range map[int]int32{7: 0, 8: 1, 9: 4} {
		at, ok := x.Find(Mix(0, uint64(v)), func(pos int32) bool { return values[pos] == v })
		assert.True(t, ok)
		assert.Equal(t, want, at, "the first of the equal entries")
	}
}

// TestGrows verifies that the index grows beyond its initial room, even if all entries have one
// hash.
func TestGrows(t *testing.T) {
	var x Index
	for i := range int32(100) {
		x.AddNew(42, i)
	}
	for i := range int32(100) {
		at, ok := x.Find(42, func(pos int32) bool { return pos == i })
		assert.True(t, ok)
		assert.Equal(t, i, at)
	}
	_, ok := x.Find(43, func(int32) bool { return true })
	assert.False(t, ok)
}

// TestClear verifies that an index that was cleared holds nothing of before, and that it takes no
// new memory for as many entries as it had.
func TestClear(t *testing.T) {
	const entries = 1000
	var x Index
	fill := func(hash uint64) {
		x.Clear()
		for i := range int32(entries) {
			x.AddNew(hash, i)
		}
	}
	fill(1)
	fill(2)
	_, ok := x.Find(1, func(int32) bool { return true })
	assert.False(t, ok)
	assert.Equal(t, entries, x.Len())
	assert.Zero(t, testing.AllocsPerRun(1, func() { fill(3) }))
	x.Clear()
	_, ok = x.Find(3, func(int32) bool { return true })
	assert.False(t, ok)
	assert.Zero(t, x.Len())
}
