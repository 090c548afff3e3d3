// SPDX-License-Identifier: Apache-2.0

package packfiles_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/internal/pack"
)

var first, second, third = strings.Repeat("1", 16), strings.Repeat("2", 40), strings.Repeat("3", 40)

// write writes a pack, and returns the file's name.
func write(t *testing.T, dir, file, buildID, module string) string {
	t.Helper()
	data, err := pack.NewWriter(pack.Info{BuildID: buildID, Name: module}).Bytes()
	require.NoError(t, err)
	name := filepath.Join(dir, file)
	require.NoError(t, os.WriteFile(name, data, 0o644))
	return name
}

func TestFind(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	named := write(t, other, "vmlinux.kspack", first, "vmlinux")
	write(t, dir, first+pack.Ext, first, "not_this_one")
	write(t, dir, second+pack.Ext, second, "xfs")
	write(t, dir, "xfs.kspack", third, "xfs")
	require.NoError(t, os.WriteFile(filepath.Join(dir, second+".tmp"), nil, 0o644))

	files, err := packfiles.Find([]string{named, dir})
	require.NoError(t, err)
	assert.Equal(t, []string{first, second}, files.BuildIDs())
	p, err := files.Open(first)
	require.NoError(t, err)
	assert.Equal(t, "vmlinux", p.Info().Name, "the path that is named first counts")
	p, err = files.Open(second)
	require.NoError(t, err)
	assert.Equal(t, "xfs", p.Info().Name)
	again, err := files.Open(second)
	require.NoError(t, err)
	assert.Same(t, p, again)
	_, err = files.Open(third)
	require.ErrorIs(t, err, packfiles.ErrNotFound)

	all, err := files.All()
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Same(t, p, all[1])
}

// TestUnreadable verifies that a file given by name must be a pack, and that files in a directory
// which are not packs do not hide the others.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("text", 100)), 0o644))
	_, err := packfiles.Find([]string{text})
	require.ErrorIs(t, err, pack.ErrFormat)
	require.ErrorContains(t, err, text)
	_, err = packfiles.Find([]string{filepath.Join(dir, "none")})
	require.ErrorIs(t, err, os.ErrNotExist)

	require.NoError(t, os.Rename(text, filepath.Join(dir, first+pack.Ext)))
	write(t, dir, second+pack.Ext, third, "xfs")
	write(t, dir, third+pack.Ext, third, "xfs")
	require.NoError(t, os.Mkdir(filepath.Join(dir, strings.Repeat("4", 16)+pack.Ext), 0o755))
	files, err := packfiles.Find([]string{dir})
	require.NoError(t, err)
	_, err = files.Open(second)
	require.ErrorContains(t, err, "a pack of another build: "+third)
	all, err := files.All()
	require.ErrorIs(t, err, pack.ErrFormat)
	require.ErrorContains(t, err, "not a regular file")
	require.ErrorContains(t, err, second+pack.Ext)
	require.Len(t, all, 1)
	assert.Equal(t, third, all[0].Info().BuildID)
}
