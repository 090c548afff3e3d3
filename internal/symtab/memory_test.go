// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSizer compares the size of symbols with the memory that their text takes.
func TestSizer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		n      int
		size   uint64
		symbol func(i int) string
	}{
		{"none", 0, 0, nil},
		{"one", 1, 0x40, func(int) string { return "vfs_read" }},
		{"many", 100_000, 0x40, func(i int) string { return fmt.Sprintf("sys_call_%d", i) }},
		{"short", 1_000_000, 1, func(int) string { return "n" }},
		{"far apart", 100_000, 10_000, strconv.Itoa},
		{"large", 10_000, 1 << 17, strconv.Itoa},
		{"long names", 10_000, 16, func(i int) string { return strings.Repeat("n", 500) + strconv.Itoa(i) }},
		{"names that share nothing", 10_000, 16, func(i int) string { return strconv.Itoa(i%10) + strings.Repeat("n", 300) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const start = 0xffffffff81000000
			var b Builder
			var z Sizer
			for i := range tt.n {
				at := start + uint64(i)*tt.size
				b.AddDecided(at, at+tt.size, []byte(tt.symbol(i)), i%3 == 0)
				z.Add(tt.symbol(i))
			}
			text, err := b.Build(TextInfo{Start: start, End: start + max(1, uint64(tt.n)*tt.size)})
			require.NoError(t, err)
			assert.LessOrEqual(t, z.Least(), text.Memory())
			if tt.size <= 10_000 {
				assert.Greater(t, z.Least(), text.Memory()*9/10)
			}
		})
	}
}
