// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIsOurs(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		name, self, status string
		want               bool
	}{
		{"ours", pid, "NSpid:\t" + pid + "\n", true},
		{"a kernel without namespaces", pid, "Name:\tx\n", true},
		{"another namespace", pid + "0", "NSpid:\t" + pid + "0\t" + pid + "\n", false},
		{"another, with the same id by chance", pid, "NSpid:\t" + pid + "\t" + pid + "\n", false},
	} {
		dir := t.TempDir()
		require.NoError(t, os.Symlink(c.self, filepath.Join(dir, "self")))
		require.NoError(t, os.Mkdir(filepath.Join(dir, c.self), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, c.self, "status"), []byte(c.status), 0o600))
		assert.Equal(t, c.want, IsOurs(dir), c.name)
	}
	assert.False(t, IsOurs(t.TempDir()))
	if _, err := os.Stat("/proc/self"); err == nil {
		assert.True(t, IsOurs("/proc"))
	}
}

func TestIsKernelThread(t *testing.T) {
	for _, c := range []struct {
		name, stat string
		want       bool
	}{
		{"a worker", "11 (kworker/u8:1-events_unbound) I 2 0 0 0 -1 69238880 0 0 0 0", true},
		{"a process", "11 (kworker/u8:1-x) S 1 11 11 0 -1 4194560 0 0 0 0", false},
		{"a process whose name looks like the fields of a thread of the kernel", "11 (x) I 2 0 0 0 -1 69238880) S 1 11 11 0 -1 4194560 0 0", false},
		{"no flags", "11 (x) S 1 11", false},
		{"empty", "", false},
	} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "11"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "11/stat"), []byte(c.stat), 0o600))
		assert.Equal(t, c.want, IsKernelThread(dir, "11"), c.name)
	}
	assert.False(t, IsKernelThread(t.TempDir(), "11"), "it has exited")
}

func TestLifeOf(t *testing.T) {
	for _, c := range []struct {
		name, stat string
		want       Life
	}{
		{"it sleeps", "11 (x) S 1 11 11 0 -1 4194560 0 0", Lives},
		{"it ends", "11 (x) D 1 11 11 0 -1 4194564 0 0", Ending},
		{"a zombie", "11 (x) Z 1 11 11 0 -1 4194564 0 0", Ended},
		{"dead", "11 (x) X 1 11 11 0 -1 4194564 0 0", Ended},
		{"a name that looks like the fields of a zombie", "11 (x) Z 1 11 11 0 -1 4194564) S 1 11 11 0 -1 4194560 0 0", Lives},
	} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "11"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "11/stat"), []byte(c.stat), 0o600))
		life, err := LifeOf(dir, "11")
		require.NoError(t, err, c.name)
		assert.Equal(t, c.want, life, c.name)
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "11"), 0o755))
	for _, text := range []string{"", "11 (x) S 1 11", "11 (x) S 1 11 11 0 -1 x"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "11/stat"), []byte(text), 0o600))
		life, err := LifeOf(dir, "11")
		require.Error(t, err, text)
		assert.Equal(t, Unknown, life, text)
	}
	_, err := LifeOf(t.TempDir(), "11")
	require.ErrorIs(t, err, os.ErrNotExist)
}
