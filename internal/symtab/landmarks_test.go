package symtab

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestIsThunk compares each address with a look at all thunks.
func TestIsThunk(t *testing.T) {
	for _, thunks := range [][]Range{
		nil, {{5, 6}}, {{5, 9}, {9, 12}, {20, 21}}, {{0, 4}, {4, 4}, {4, 8}, {16, 32}, {40, 44}},
	} {
		l := &Landmarks{Thunks: thunks}
		for addr := range uint64(50) {
			is := slices.ContainsFunc(thunks, func(r Range) bool { return r.Contains(addr) })
			assert.Equal(t, is, l.IsThunk(addr), "%d in %v", addr, thunks)
		}
	}
}
