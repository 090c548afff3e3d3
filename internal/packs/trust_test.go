// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLinksToDirectories verifies that a link on the way to the packs is followed only where others cannot replace it.
func TestLinksToDirectories(t *testing.T) {
	for _, tt := range []struct {
		name string
		mode os.FileMode // of the directory with the link
		link func(top string) (from, to string)
		says string // empty: it is followed
	}{
		{"to the directory", 0o755, func(top string) (string, string) { return "open/packs", top + "/real/packs" }, ""},
		{"to one above it", 0o755, func(string) (string, string) { return "open/real", "../real" }, ""},
		{"that others can replace", 0o777, func(top string) (string, string) { return "open/packs", top + "/real/packs" }, "is a link in a directory that is writable"},
		{"in a sticky directory", 0o777 | os.ModeSticky, func(string) (string, string) { return "open/real", "../real" }, "is a link in a directory that is writable"},
		{"in a circle", 0o755, func(string) (string, string) { return "open/real", "../open/real" }, "too many links"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := ownDir(t)
			put(t, filepath.Join(top, "real", "packs"), first, packOf(t, first))
			from, to := tt.link(top)
			require.NoError(t, os.Mkdir(filepath.Join(top, "open"), 0o755))
			require.NoError(t, os.Symlink(to, filepath.Join(top, from)))
			require.NoError(t, os.Chmod(filepath.Join(top, "open"), tt.mode))
			dir := filepath.Join(top, from)
			if filepath.Base(dir) == "real" {
				dir = filepath.Join(dir, "packs")
			}
			_, err := Read(dir, first)
			if tt.says == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.says)
			}
		})
	}
}

// TestVolumes has packs in a directory of its own below one that everybody can write to, as in Kubernetes.
func TestVolumes(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky} {
		dir := ownDir(t)
		put(t, filepath.Join(dir, "below"), first, packOf(t, first))
		require.NoError(t, os.Chmod(dir, mode))
		_, err := Read(filepath.Join(dir, "below"), first)
		assert.NoError(t, err)
	}
}
