// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

const r = "\uFFFD"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"vfs_read":              "vfs_read",
		"Größe 1":               "Größe 1",
		"\x1b[31mred\x1b[0m":    r + "[31mred" + r + "[0m",
		"a\nb\tc\rd\x00e\x7f":   "a" + r + "b" + r + "c" + r + "d" + r + "e" + r,
		"\u202eback\u0085\xff.": r + "back" + r + r + ".",
		"\u061c\u200e\u200f\u2066\u2067\u2068\u2069\u202a\u202b\u202c\u202d": r + r + r + r + r + r + r + r + r + r + r,
	} {
		assert.Equal(t, want, Text(text))
	}
}
