// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzParseQuery verifies that any word is a query or an error, and that a query means the same as
// its word.
func FuzzParseQuery(f *testing.F) {
	for _, word := range []string{"ffffffff81000054", "1-2", "vmlinux+0x54", "a+1/2", "a-1", "f*", "", "+", "[", "a+1/0"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		q, err := parseQuery(word)
		assert.Equal(t, word, q.text)
		if err != nil {
			return
		}
		switch q.kind {
		case queryRange:
			assert.Less(t, q.addr, q.end)
		case queryOffset:
			assert.NotEmpty(t, q.name)
			assert.True(t, strings.HasPrefix(word, q.name))
			_, _, _ = q.startAndLength()
		case queryName:
			assert.Equal(t, word, q.name)
		case queryAddress:
			addr, err := ParseAddress(word)
			require.NoError(t, err)
			assert.Equal(t, addr, q.addr)
		}
	})
}
