// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// TestFilesOfOtherUsers has a directory, one above it, or a pack that belongs to another user.
func TestFilesOfOtherUsers(t *testing.T) {
	const other = 12345
	for _, tt := range []struct {
		name string
		of   func(dir string) string // what belongs to the other user
	}{
		{"the directory", func(dir string) string { return dir }},
		{"of fetched packs", func(dir string) string { return filepath.Join(dir, fetchedDir) }},
		{"above it", filepath.Dir},
		{"a pack", func(dir string) string { return filepath.Join(dir, first+pack.Ext) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(ownDir(t), "below")
			put(t, dir, first, packOf(t, first))
			require.NoError(t, os.Mkdir(filepath.Join(dir, fetchedDir), 0o755))
			path := tt.of(dir)
			err := os.Chown(path, other, -1)
			if errors.Is(err, os.ErrPermission) {
				t.Skipf("not root (%v): files of other users are not tested", err)
			}
			require.NoError(t, err)
			_, err = Read(dir, first)
			require.ErrorContains(t, err, path+" belongs to user 12345, not to root or to the user of this process")
			assert.Equal(t, Insecure, ReasonOf(err))

			require.NoError(t, os.Chown(path, 0, -1))
			_, err = Read(dir, first)
			assert.NoError(t, err)
		})
	}
}
