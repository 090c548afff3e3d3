// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/lookup"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// isAboutBPF reports whether a warning is about BPF, which an ordinary user may not see.
func isAboutBPF(warning string) bool {
	about := strings.TrimPrefix(warning, "Warning: ")
	if advice, rest, ok := strings.Cut(about, "; "); ok && strings.HasPrefix(advice, "run it as root: ") {
		about = rest
	}
	return strings.HasPrefix(about, "bpf:")
}

// lookedUp runs lookup and returns its output and its messages. It leaves out messages about BPF,
// because that comes from this machine and not from the tree.
func lookedUp(t *testing.T, args ...string) (out, messages string, err error) {
	t.Helper()
	out, errs, err := execute(t, "", append([]string{"lookup"}, args...)...)
	for line := range strings.Lines(errs) {
		if !isAboutBPF(line) {
			messages += line
		}
	}
	return out, messages, err
}

// TestLookupWithPack verifies that the running kernel's pack adds inlined functions and lines, but never
// another function's.
func TestLookupWithPack(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	tree := append(treeWithID(t), "--pack", dir)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"not inlined", []string{"ffffffff81000054"}, "" +
			"ffffffff81000054 main_loop+0x4 [vmlinux] 0123456789abcdef init/main.c:11\n"},
		{"inlined twice", []string{"ffffffff8100005c", "vmlinux+0x54"}, "" +
			"ffffffff8100005c core::fmt::pick include/idle.h:31 (inlined)\n" +
			"                 idle include/idle.h:5 (inlined)\n" +
			"                 main_loop+0xc [vmlinux] 0123456789abcdef init/main.c:14\n" +
			"vmlinux+0x54 main_loop+0x4 [vmlinux] 0123456789abcdef init/main.c:11\n"},
		{"no line", []string{"ffffffff81000064"}, "" +
			"ffffffff81000064 idle include/idle.h (inlined)\n" +
			"                 main_loop+0x14 [vmlinux] 0123456789abcdef init/main.c:20\n"},
		{"assembler", []string{"ffffffff81000010"}, "" +
			"ffffffff81000010 startup_64+0x10 [vmlinux] 0123456789abcdef entry.S:7\n"},
		{"another function's", []string{"ffffffff81000080"}, "" +
			"ffffffff81000080 main_loop+0x30 [vmlinux] 0123456789abcdef\n"},
		{"outside of symbols", []string{"ffffffff81000042"}, "" +
			"ffffffff81000042 ? [vmlinux] 0123456789abcdef\n"},
		{"return address", []string{"--caller", "ffffffff81000060"}, "" +
			"ffffffff81000060 core::fmt::pick include/idle.h:31 (inlined)\n" +
			"                 idle include/idle.h:5 (inlined)\n" +
			"                 main_loop+0x10 [vmlinux] 0123456789abcdef init/main.c:14\n"},
		{"return address at the start", []string{"--caller", "ffffffff81000050"}, "" +
			"ffffffff81000050 main_loop+0x0 [vmlinux] 0123456789abcdef init/main.c:11\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, messages, err := lookedUp(t, append(tree, tt.args...)...)
			require.NoError(t, err)
			assert.Equal(t, tt.want, out)
			assert.Empty(t, messages)
		})
	}
}

// TestLookupInModule uses a loaded module, whose offsets count from its .text.
func TestLookupInModule(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	writePack(t, dir, moduleID, modulePack())
	tree := kernelTree(t, symbolList+"ffffffffc0200000 t nft_do\t[nf_tables]\n")
	for name, content := range map[string][]byte{
		"proc/modules":                                  []byte("nf_tables 4096 0 - Live 0xffffffffc0200000\n"),
		"sys/module/nf_tables/coresize":                 []byte("4096\n"),
		"sys/module/nf_tables/sections/.text":           []byte("0xffffffffc0200000\n"),
		"sys/module/nf_tables/notes/.note.gnu.build-id": note(t, moduleID),
		"sys/kernel/notes":                              note(t, kernelID),
	} {
		file := filepath.Join(filepath.Dir(tree[1]), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, content, 0o644))
	}
	out, messages, err := lookedUp(t, append(tree, "--pack", dir, "ffffffffc0200004", "ffffffffc0200008", "ffffffff81000054")...)
	require.NoError(t, err)
	assert.Equal(t, "ffffffffc0200004 nft_do+0x4 [nf_tables] "+moduleID+" net/nf.c:5\n"+
		"ffffffffc0200008 nft_do+0x8 [nf_tables] "+moduleID+"\n"+
		"ffffffff81000054 main_loop+0x4 [vmlinux] 0123456789abcdef init/main.c:11\n", out)
	assert.Empty(t, messages)
	out, _, err = lookedUp(t, append(tree, "nf_tables+0x4")...)
	require.NoError(t, err)
	assert.Equal(t, "ffffffffc0200004 nft_do+0x4 [nf_tables] "+moduleID+"\n", out)

	sections := filepath.Join(filepath.Dir(tree[1]), "sys/module/nf_tables/sections")
	require.NoError(t, os.RemoveAll(sections))
	_, _, err = lookedUp(t, append(tree, "nf_tables+0x4")...)
	require.ErrorContains(t, err, "the base address of nf_tables is not known")
	out, _, err = lookedUp(t, append(tree, "ffffffffc0200004")...)
	require.NoError(t, err)
	assert.Equal(t, "ffffffffc0200004 nft_do+0x4 [nf_tables]\n", out, "an address is not an offset")
}

// TestLookupWithoutItsPack verifies that a missing pack is reported once, and that the answer is
// the same as without packs.
func TestLookupWithoutItsPack(t *testing.T) {
	file := writePack(t, t.TempDir(), otherKernelID, kernelPack(otherKernelID))
	out, messages, err := lookedUp(t, append(treeWithID(t), "--pack", file, "ffffffff81000054", "ffffffff8100005c")...)
	require.NoError(t, err)
	assert.Equal(t, "ffffffff81000054 main_loop+0x4 [vmlinux] 0123456789abcdef\n"+
		"ffffffff8100005c main_loop+0xc [vmlinux] 0123456789abcdef\n", out)
	assert.Equal(t, "Warning: vmlinux: no pack of this build: 0123456789abcdef\n", messages)
}

// TestLookupRangeWithPack verifies that a range of addresses belongs to the running kernel, as
// single addresses do.
func TestLookupRangeWithPack(t *testing.T) {
	file := writePack(t, t.TempDir(), kernelID, kernelPack(kernelID))
	tree := treeWithID(t)
	want, _, err := lookedUp(t, append(tree, "ffffffff81000050+10")...)
	require.NoError(t, err)
	require.Contains(t, want, "main_loop")
	got, _, err := lookedUp(t, append(tree, "--pack", file, "ffffffff81000050+10")...)
	require.NoError(t, err)
	assert.Contains(t, got, strings.TrimSpace(want), "and lines, if the pack has them")
}

// TestLookupBuildIDLikeAnAddress verifies that an offset in a pack is not taken for a range of addresses if the pack's build
// id is like the start of one.
func TestLookupBuildIDLikeAnAddress(t *testing.T) {
	const id = "ffffffff81000050"
	file := writePack(t, t.TempDir(), id, kernelPack(id))
	out, _, err := lookedUp(t, append(treeWithID(t), "--pack", file, id+"+0x54", "0x"+id+"+1")...)
	require.NoError(t, err)
	offset, inRange, _ := strings.Cut(out, "\n")
	assert.Equal(t, id+"+0x54 main_loop+0x4 [vmlinux] "+id+" init/main.c:11", offset)
	assert.Contains(t, inRange, "ffffffff81000050-", "with 0x, it is an address")
}

// TestLookupElsewhere looks up addresses of other machines on a machine without a kernel.
func TestLookupElsewhere(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	writePack(t, dir, moduleID, modulePack())
	nowhere := []string{"--procfs", t.TempDir(), "--sysfs", t.TempDir(), "--pack", dir}
	for _, tt := range []struct{ args, want string }{
		{"vmlinux+0x5c", "" +
			"vmlinux+0x5c core::fmt::pick include/idle.h:31 (inlined)\n" +
			"             idle include/idle.h:5 (inlined)\n" +
			"             main_loop+0xc [vmlinux] 0123456789abcdef init/main.c:14\n"},
		{kernelID + "+54 nf_tables+0x0", "" +
			"0123456789abcdef+0x54 main_loop+0x4 [vmlinux] 0123456789abcdef init/main.c:11\n" +
			"nf_tables+0x0 nft_do+0x0 [nf_tables] " + moduleID + " net/nf.c:5\n"},
		{"nf_tables-0x20", "nf_tables-0x20 nft_do.cold+0x10 [nf_tables] " + moduleID + " net/nf.c:6\n"},
		{"nf_tables-0x41 vmlinux+0xffffffff", "" +
			"nf_tables-0x41 ? [nf_tables] " + moduleID + "\n" +
			"vmlinux+0xffffffff ? [vmlinux] 0123456789abcdef\n"},
		{"vmlinux+0x90", "vmlinux+0x90 core::fmt::write+0x0 [vmlinux] 0123456789abcdef\n"},
		{"--caller vmlinux+0x58 vmlinux+0x50 nf_tables-0x40", "" +
			"vmlinux+0x58 main_loop+0x8 [vmlinux] 0123456789abcdef init/main.c:11\n" +
			"vmlinux+0x50 main_loop+0x0 [vmlinux] 0123456789abcdef init/main.c:11\n" +
			"nf_tables-0x40 ? [nf_tables] " + moduleID + "\n"},
		{"--text 0xffffffffa7000000 ffffffffa7000054 ffffffffa6ffffff", "" +
			"ffffffffa7000054 main_loop+0x4 [vmlinux] 0123456789abcdef init/main.c:11\n" +
			"ffffffffa6ffffff ? (unresolved)\n"},
		{"--text ffffffffa7000000 ffffffffa7000044 ffffffffa70000ff ffffffffa7000100 1234 ffff888100a3c000 ffffffffc0200004", "" +
			"ffffffffa7000044 ? [vmlinux] 0123456789abcdef\n" +
			"ffffffffa70000ff core::fmt::write+0x6f [vmlinux] 0123456789abcdef\n" +
			"ffffffffa7000100 ? (unresolved)\n" +
			"0000000000001234 ? (unresolved)\n" +
			"ffff888100a3c000 ? (unresolved)\n" +
			"ffffffffc0200004 ? (unresolved)\n"},
	} {
		out, messages, err := lookedUp(t, append(nowhere, strings.Fields(tt.args)...)...)
		require.NoError(t, err)
		assert.Equal(t, tt.want, out)
		assert.Empty(t, messages)
	}
}

// TestLookupRelative verifies that without packs, relative addresses belong to the running kernel.
func TestLookupRelative(t *testing.T) {
	tree := treeWithID(t)
	out, _, err := lookedUp(t, append(tree, "vmlinux+54", kernelID+"+0x54")...)
	require.NoError(t, err)
	assert.Equal(t, "ffffffff81000054 main_loop+0x4 [vmlinux] 0123456789abcdef\n"+
		"ffffffff81000054 main_loop+0x4 [vmlinux] 0123456789abcdef\n", out)
	_, _, err = lookedUp(t, append(tree, "nf_tables+0x54")...)
	require.ErrorIs(t, err, lookup.ErrNoImage)
	assert.ErrorContains(t, err, "nf_tables")
}

// TestLookupAboveStext uses a kernel whose _stext is below its _text. Pack addresses count from the
// lower of the two.
func TestLookupAboveStext(t *testing.T) {
	w := pack.NewWriter(pack.Info{BuildID: kernelID, Name: "vmlinux", Text: 0x8000, Stext: 0x7000, Extent: pack.Range{End: 0x2000}})
	w.Symbol(symbol(0x1000, 0x2000, "f"))
	file := writePack(t, t.TempDir(), kernelID, w)
	out, _, err := lookedUp(t, "--pack", file, "--text", "ffff800080000000", "ffff800080000010")
	require.NoError(t, err)
	assert.Equal(t, "ffff800080000010 f+0x10 [vmlinux] 0123456789abcdef\n", out)
}

func TestLookupPackErrors(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	writePack(t, dir, otherKernelID, kernelPack(otherKernelID))
	empty := t.TempDir()
	run := func(args ...string) error {
		_, _, err := lookedUp(t, append([]string{"--procfs", empty, "--sysfs", empty}, args...)...)
		return err
	}
	err := run("--pack", dir, "vmlinux+0x5c")
	require.ErrorIs(t, err, packview.ErrSeveral)
	require.ErrorContains(t, err, kernelID+", "+otherKernelID)
	require.ErrorIs(t, run("--pack", dir, "--text", "ffffffffa7000000", "2"), packview.ErrSeveral)
	require.NoError(t, run("--pack", dir, otherKernelID+"+0x5c"))
	err = run("--pack", dir, "xfs+0x5c")
	require.ErrorIs(t, err, packview.ErrNone)
	require.EqualError(t, err, `no pack describes an image or function "xfs"`)
	require.ErrorIs(t, run("--pack", dir, moduleID+"+0x5c"), packfiles.ErrNotFound)
	require.ErrorContains(t, run("--pack", t.TempDir(), "xfs+0x5c"), "no packs in")
	for _, bad := range []string{"vmlinux+", "vmlinux+main", "vmlinux+0x100000001", "+0x5c"} {
		require.ErrorIs(t, run("--pack", dir, bad), lookup.ErrAddress, bad)
	}
	for _, text := range []string{"", "_text", "0x"} {
		require.ErrorIs(t, run("--pack", dir, "--text", text, "1"), errUsage, text)
	}
	assert.Contains(t, wrong(t, "lookup", "--text", "ffffffffa7000000", "vfs_read"),
		"Error: --text needs --pack, with the pack of that machine's core kernel\n")

	damaged := filepath.Join(dir, kernelID+pack.Ext)
	require.NoError(t, os.Truncate(damaged, 100))
	require.ErrorIs(t, run("--pack", dir, kernelID+"+0x5c"), pack.ErrDamaged)
	require.ErrorContains(t, run("--pack", dir, "vmlinux+0x5c"), damaged)
	_, _, err = lookedUp(t, append(treeWithID(t), "--pack", dir, "ffffffff8100005c")...)
	require.ErrorContains(t, err, damaged, "it is the pack of the running kernel")
}

// TestTextOfAnotherMachineIsAKernelAddress verifies that zeros, which a kernel that hides its
// addresses prints, are rejected, and that the addresses are not looked up on this machine instead.
func TestTextOfAnotherMachineIsAKernelAddress(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	for _, command := range []string{"lookup", "annotate"} {
		for _, text := range []string{"0", "0000000000000000", "1", "7fffffffffffffff"} {
			args := append(treeWithID(t), "--pack", dir, "--text", text)
			out, errs, err := execute(t, "ffffffff81000054", append([]string{command}, args...)...)
			require.ErrorIs(t, err, errUsage, args)
			assert.Empty(t, out, args)
			assert.Equal(t, `Error: --text is "`+text+`", which is no kernel address: read it as root on that machine: `+
				"grep ' _text$' /proc/kallsyms\n", errs)
		}
	}
}
