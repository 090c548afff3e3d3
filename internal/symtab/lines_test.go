// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"math"
	"testing"
	"unique"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	var b LinesBuilder
	b.Add(0x20, 12<<10|3, unique.Make("b.h"))
	b.Add(0x10, 10<<10|1, unique.Make("a.c"))
	b.Add(0x18, 10<<10|1, unique.Make("a.c")) // adds nothing
	b.Add(0x20, 13<<10|4, unique.Make("b.h")) // the last one counts
	lines := b.Build()
	require.Equal(t, 2, lines.Len())
	for offset, want := range map[uint32]Position{
		0x10: {"a.c", 10, 1}, 0x1f: {"a.c", 10, 1}, 0x20: {"b.h", 13, 4}, math.MaxUint32: {"b.h", 13, 4},
	} {
		number, ok := lines.Find(offset)
		require.True(t, ok)
		assert.Equal(t, want, lines.Position(number))
	}
	_, ok := lines.Find(0xf)
	assert.False(t, ok)
	assert.Nil(t, b.Build())
	_, ok = (*Lines)(nil).Find(0)
	assert.False(t, ok)
}
