// SPDX-License-Identifier: Apache-2.0

package regularfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestOpen(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("file"), []byte("data"), 0o600))
	require.NoError(t, os.Symlink("file", at("link")))
	require.NoError(t, unix.Mkfifo(at("pipe"), 0o600))
	for _, name := range []string{"file", "link"} {
		f, err := Open(at(name))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	for _, name := range []string{".", "pipe", os.DevNull} {
		if name != os.DevNull {
			name = at(name)
		}
		_, err := Open(name)
		require.ErrorIs(t, err, ErrOther)
		require.ErrorContains(t, err, name)
	}
	_, err := Open(at("missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
