// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestPackUsage(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	for line, want := range map[string]string{
		"pack":                                    "give exactly one of: files, --release",
		"pack vmlinux --release 6.12.0 -d d":      "give exactly one of: files, --release",
		"pack vmlinux":                            "--dir is missing",
		"pack --running":                          "--dir is missing",
		"pack --running --build-id 0123 -d d":     "--build-id needs --debuginfod",
		"pack --info a.kspack b.ko":               "give exactly one of: files, --release",
		"pack --release --symbols":                "--dir is missing", // the release is "--symbols"
		"pack --running --info a.kspack -d d x.y": "give exactly one of: files, --release",
	} {
		out, errs, err := execute(t, "", strings.Fields(line)...)
		require.ErrorIs(t, err, errUsage, line)
		assert.Equal(t, 1, strings.Count(errs, want), "%s: %s", line, errs)
		assert.Empty(t, out, line)
	}
}

const packNotes = "\x04\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd\xef\x01\x23\x45\x67\x89"

func TestPackRunningAndInfo(t *testing.T) {
	tree := kernelTree(t, symbolList)
	require.NoError(t, os.WriteFile(filepath.Join(tree[3], "kernel/notes"), []byte(packNotes), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(tree[1], "sys/kernel"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tree[1], "sys/kernel/osrelease"), []byte("6.12.0\n"), 0o600))
	dir := filepath.Join(t.TempDir(), "packs")
	out, errs, err := execute(t, "", append([]string{"pack", "--running", "-d", dir}, tree...)...)
	require.NoError(t, err)
	assert.Equal(t, "1 pack, 1 kB, in "+dir+"\n", out)
	assert.Empty(t, errs)

	file := filepath.Join(dir, "abcdef0123456789"+pack.Ext)
	out, _, err = execute(t, "", "pack", "--info", file)
	require.NoError(t, err)
	for _, line := range []string{
		"build id +abcdef0123456789", "name +vmlinux", "release +6.12.0", "symbols +3", "lines +none: symbols only", "code +0x0-0x100",
	} {
		assert.Regexp(t, "(?m)^"+line+"$", out)
	}

	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data[:len(data)-1], 0o600))
	_, _, err = execute(t, "", "pack", "--info", file)
	require.ErrorIs(t, err, pack.ErrDamaged)
	require.ErrorContains(t, err, file)
}

func TestPackNamesWhatCannotBeRead(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	dir := t.TempDir()
	_, errs, err := execute(t, "", "pack", "/nowhere/vmlinux", "-d", dir)
	require.Error(t, err)
	require.NotErrorIs(t, err, errUsage)
	assert.Contains(t, errs, "/nowhere/vmlinux")

	t.Setenv("DEBUGINFOD_URLS", "")
	_, errs, err = execute(t, "", "pack", "--debuginfod", "-d", dir)
	require.Error(t, err)
	assert.Contains(t, errs, "set DEBUGINFOD_URLS")

	_, errs, err = execute(t, "", "pack", "--release", "6.12.0", "--root", dir, "-d", dir)
	require.Error(t, err)
	assert.Contains(t, errs, "install the debug package")
}
