// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
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
		"pack --boot":                             "--dir is missing",
		"pack --boot vmlinuz --running -d d":      "give exactly one of: files, --release",
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
	out, _, err = execute(t, "", append([]string{"pack", "--running", "-o", "json", "-d", dir}, tree...)...)
	require.NoError(t, err)
	assert.Contains(t, out, `"packs":1,`)
	assert.Contains(t, out, `"symbols_only":1,`)

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

// TestPackBoot packs the image of package packer's tests, under any name and from standard input.
func TestPackBoot(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	image, err := os.ReadFile("internal/packer/testdata/vmlinuz")
	require.NoError(t, err)
	tree := kernelTree(t, symbolList) // its kernel has another build id
	require.NoError(t, os.MkdirAll(filepath.Join(tree[1], "sys/kernel"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tree[1], "sys/kernel/osrelease"), []byte("6.12.0\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(tree[3], "kernel/notes"), []byte(packNotes), 0o600))
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "boot"), 0o755))
	dir := filepath.Join(t.TempDir(), "packs")
	running := append([]string{"pack", "--boot", "--root", root, "-d", dir}, tree...)

	_, errs, err := execute(t, "", running...)
	require.ErrorIs(t, err, packer.ErrNoBootImage)
	assert.Contains(t, errs, filepath.Join(root, "boot/vmlinuz-6.12.0"))
	require.NoError(t, os.WriteFile(filepath.Join(root, "boot/vmlinuz-6.12.0"), image, 0o600))
	_, errs, err = execute(t, "", running...)
	require.ErrorIs(t, err, packer.ErrOtherBuild)
	assert.Contains(t, errs, "0102030405060708, than the running kernel, abcdef0123456789")
	_, errs, err = execute(t, "CONFIG_KALLSYMS=y\n", "pack", "--boot", "-", "-d", dir)
	require.Error(t, err)
	assert.Equal(t, 1, strings.Count(errs, "Error: -: not a boot image"), errs)

	for _, name := range []string{"-", "internal/packer/testdata/vmlinuz"} {
		out, errs, err := execute(t, string(image), "pack", "--boot", name, "-d", dir)
		require.NoError(t, err, name)
		assert.Equal(t, "1 pack, 1 kB, in "+dir+"\n", out)
		assert.Empty(t, errs)
	}
	out, _, err := execute(t, "", "pack", "--info", filepath.Join(dir, "0102030405060708"+pack.Ext))
	require.NoError(t, err)
	for _, line := range []string{"name +vmlinux", "release +6.12.0-test", "symbols +22", "lines +none: symbols only"} {
		assert.Regexp(t, "(?m)^"+line+"$", out)
	}
	out, _, err = execute(t, "", "lookup", "--pack", dir, "vmlinux+0x1004")
	require.NoError(t, err)
	assert.Contains(t, out, "symbol_0+0x4")
}
