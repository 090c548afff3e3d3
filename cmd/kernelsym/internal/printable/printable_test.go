// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const r = "\uFFFD"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"vfs_read":              "vfs_read",
		"Größe 1":               "Größe 1",
		"\x1b[31mred\x1b[0m":    r + "[31mred" + r + "[0m",
		"a\nb\tc\rd\x00e\x7f":   "a" + r + "b" + r + "c" + r + "d" + r + "e" + r,
		"\u202eback\u0085\xff.": r + "back" + r + r + ".",
	} {
		assert.Equal(t, want, Text(text))
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	n, err := io.WriteString(Writer(&out), "Error:\tone\n\x1b]0;title\x07\rtwo\n")
	require.NoError(t, err)
	assert.Equal(t, 26, n)
	assert.Equal(t, "Error:\tone\n"+r+"]0;title"+r+r+"two\n", out.String())

	broken, w := io.Pipe()
	require.NoError(t, broken.CloseWithError(errors.New("gone")))
	_, err = io.WriteString(Writer(w), "x")
	assert.ErrorContains(t, err, "gone")
}
