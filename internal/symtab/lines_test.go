// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"crypto/sha256"
	"encoding/hex"
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

// TestContract_4_3_DigestOfLines verifies what is hashed, byte by byte, in whatever order lines and files were added.
func TestContract_4_3_DigestOfLines(t *testing.T) {
	a, b, none := unique.Make("a.c"), unique.Make("b\u00fc.h"), unique.Make("")
	var builder LinesBuilder
	builder.Add(0x1234, 12<<10|3, b)
	builder.Add(0x40, 11<<10|5, a)
	builder.Add(0x44, 11<<10|5, a) // the same position
	builder.Add(8, 10<<10|1, b)    // not the last at its offset
	builder.Add(8, 10<<10|1, a)
	builder.Add(0x10, 10<<10|2, a)
	builder.Add(0x20, 7<<10|9, none)
	builder.Add(0x30, 7<<10|9, none) // the same position
	sum := sha256.Sum256([]byte("" +
		"\x08\x00\x00\x00" + "\x01\x28\x00\x00" + "\x01\x00\x00\x00" + "a.c\x00" +
		"\x10\x00\x00\x00" + "\x02\x28\x00\x00" + "\x01\x00\x00\x00" +
		"\x20\x00\x00\x00" + "\x09\x1c\x00\x00" + "\x02\x00\x00\x00" + "\x00" +
		"\x40\x00\x00\x00" + "\x05\x2c\x00\x00" + "\x01\x00\x00\x00" +
		"\x34\x12\x00\x00" + "\x03\x30\x00\x00" + "\x03\x00\x00\x00" + "b\xc3\xbc.h\x00"))
	assert.Equal(t, hex.EncodeToString(sum[:16]), builder.Build().Digest())
	assert.Empty(t, builder.Build().Digest())
}

// TestContract_4_3_OtherLinesOtherDigest verifies that a name of a file cannot stand for a line, nor the number of a file for
// an offset.
func TestContract_4_3_OtherLinesOtherDigest(t *testing.T) {
	a, word := unique.Make("a.c"), unique.Make("ccc") // with its zero byte, four bytes
	var oneFile, twoFiles LinesBuilder
	for _, b := range []*LinesBuilder{&oneFile, &twoFiles} {
		b.Add(0, 1<<10, a)
	}
	oneFile.Add(1, 2<<10, a)
	oneFile.Add(2, 'c'<<16|'c'<<8|'c', a)
	twoFiles.Add(1, 2<<10, word)
	assert.NotEqual(t, oneFile.Build().Digest(), twoFiles.Build().Digest())
}
