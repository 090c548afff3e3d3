// SPDX-License-Identifier: Apache-2.0

package newfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "graph.svg")
	for _, mode := range []fs.FileMode{0o600, 0o644} { // new, then in place of the old one
		require.NoError(t, Write(name, []byte("content"), mode))
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, "content", string(got))
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode())
	}

	open, err := os.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, open.Close()) }()
	require.NoError(t, Write(name, []byte("other"), 0o600))
	before, err := io.ReadAll(open)
	require.NoError(t, err)
	assert.Equal(t, "content", string(before), "it is another file")

	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(name, link))
	require.ErrorContains(t, Write(link, []byte("x"), 0o600), "is a symbolic link")
	none := filepath.Join(dir, "none", "file")
	require.EqualError(t, Write(none, nil, 0o600), "open "+none+": no such file or directory")
	require.Error(t, Write(dir+"/graph.svg/file", nil, 0o600))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 2, "no temporary file is left")
	assert.NoError(t, Write(os.DevNull, []byte("x"), 0o600))
}
