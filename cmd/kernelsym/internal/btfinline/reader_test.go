// SPDX-License-Identifier: Apache-2.0

package btfinline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/btf/btftest"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
)

// tree writes files below a new directory, and returns a reader of them.
func tree(t *testing.T, match func(string) bool, files map[string][]byte) *Reader {
	t.Helper()
	root := t.TempDir()
	for name, data := range files {
		name = filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, data, 0o644))
	}
	return NewReader(filepath.Join(root, "proc"), filepath.Join(root, "sys"), match)
}

// machine returns the files of an arm64 kernel, whose _text is below _stext. It has a module in
// which one of the kernel's functions and one of the module's own were inlined.
func machine() map[string][]byte {
	return map[string][]byte{
		"proc/kallsyms":                 []byte("ffff800080000000 T _text\nffff800080010000 T _stext\nffff800080010000 T ksys_read\n"),
		"sys/kernel/btf/vmlinux":        kernelBTF,
		"sys/kernel/btf/vmlinux.inline": kernelInline,
		"sys/kernel/btf/xfs":            btftest.File(btftest.Type(22, kindFunc, 0), "xfs_own\x00"), // 4
		"sys/kernel/btf/xfs.inline": btftest.File(concat( // 5 and 6
			btftest.Type(30, kindLocSec, 2, 3, 0, 0x8, 4, 0, 0x10), btftest.Type(36, kindLocSec, 1, 4, 0, 0x20),
		), ".text\x00inline.exit.text\x00"),
		"sys/kernel/btf/ext4":                []byte("has no sites"),
		"sys/module/xfs/sections/.text":      []byte("0xffff800078000000\n"),
		"sys/module/xfs/sections/.init.text": []byte("0xffff800079000000\n"),
	}
}

func TestRead(t *testing.T) {
	sites, err := tree(t, all, machine()).Read()
	require.NoError(t, err)
	assert.Equal(t, []Site{
		{Entry{"fdget", ".text", 0x14}, "vmlinux", 0xffff800080010014},
		{Entry{"fdget", ".text", 0x61}, "vmlinux", 0xffff800080010061},
		{Entry{"init", ".init.text", 0x10}, "vmlinux", 0},
		{Entry{"vfs_write", ".text", 0x44}, "vmlinux", 0xffff800080010044},
		{Entry{"vfs_write", ".text", 0x8}, "xfs", 0xffff800078000008},
		{Entry{"xfs_own", ".exit.text", 0x20}, "xfs", 0},
		{Entry{"xfs_own", ".text", 0x10}, "xfs", 0xffff800078000010},
	}, sites)

	sites, err = tree(t, func(name string) bool { return name == "xfs_own" }, machine()).Read()
	require.NoError(t, err)
	assert.Len(t, sites, 2)
}

// TestReadErrors verifies that the error names a file that cannot be read, and that the sites of
// other files are still found.
func TestReadErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		damage func(files map[string][]byte)
		want   error
		text   string
		sites  int // number of remaining sites
	}{
		"no files": {func(f map[string][]byte) {
			delete(f, "sys/kernel/btf/vmlinux.inline")
			delete(f, "sys/kernel/btf/xfs.inline")
		}, ErrNone, "CONFIG_DEBUG_INFO_BTF_INLINE", 0},
		"no base":   {func(f map[string][]byte) { delete(f, "sys/kernel/btf/vmlinux") }, os.ErrNotExist, "btf/vmlinux: ", 0},
		"no module": {func(f map[string][]byte) { delete(f, "sys/kernel/btf/xfs") }, os.ErrNotExist, "xfs.inline: ", 4},
		"damaged":   {func(f map[string][]byte) { f["sys/kernel/btf/xfs"] = nil }, btf.ErrMalformed, "xfs: malformed BTF: no header", 4},
		"newer": {func(f map[string][]byte) {
			f["sys/kernel/btf/vmlinux.inline"] = btftest.File(btftest.Type(0, 23, 0), "")
		}, btf.ErrMalformed, "vmlinux.inline: malformed BTF: type 4 is of kind 23, which is not known", 3},
		"hidden": {func(f map[string][]byte) {
			f["proc/kallsyms"] = []byte("0000000000000000 T _text\n0000000000000000 T _stext\n")
		}, kallsyms.ErrRestricted, "kallsyms", 3},
		"no _stext": {func(f map[string][]byte) { f["proc/kallsyms"] = nil }, kallsyms.ErrNoText, "kallsyms", 3},
		"no address": {func(f map[string][]byte) {
			f["sys/module/xfs/sections/.text"] = []byte("text")
		}, nil, "the address of .text in xfs", 4},
	} {
		t.Run(name, func(t *testing.T) {
			files := machine()
			tt.damage(files)
			sites, err := tree(t, all, files).Read()
			require.ErrorContains(t, err, tt.text)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
			}
			assert.Len(t, sites, tt.sites)
		})
	}
}
