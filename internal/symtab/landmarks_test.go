// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLandmarks verifies each address against a search of all thunks, and against its neighbors.
func TestLandmarks(t *testing.T) {
	for _, thunks := range [][]Range{
		nil, {{5, 6}}, {{5, 9}, {9, 12}, {20, 21}}, {{0, 4}, {4, 4}, {4, 8}, {16, 32}, {40, 44}},
	} {
		l := &Landmarks{Thunks: thunks, Entry: Range{25, 28}, Fred: Range{46, 47}}
		for addr := uint64(1); addr < 50; addr++ { // 0 is no kernel address
			is := slices.ContainsFunc(thunks, func(r Range) bool { return r.Contains(addr) })
			assert.Equal(t, is, l.IsThunk(addr), "%d in %v", addr, thunks)
			near := slices.ContainsFunc([]uint64{addr - 1, addr, addr + 1}, func(addr uint64) bool {
				return l.IsThunk(addr) || l.IsEntry(addr)
			})
			assert.Equal(t, near, l.IsNear(addr), "near %d in %v", addr, thunks)
		}
	}
}
