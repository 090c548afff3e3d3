// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/btfinline"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/inlined"
	"github.com/kernelsym/kernelsym/internal/btf/btftest"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// inlinedIn runs inlined on a machine that has only packs.
func inlinedIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, errs, err := execute(t, "", append([]string{"inlined", "--procfs", t.TempDir(), "--sysfs", t.TempDir(), "--pack", dir}, args...)...)
	require.NoError(t, err)
	assert.Empty(t, errs)
	return out
}

func TestInlinedInPacks(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	writePack(t, dir, moduleID, modulePack())
	assert.Equal(t, ""+
		"ADDRESS       BYTES  INLINED  FUNCTION   CALLED FROM\n"+
		"vmlinux+0x58  12     idle     main_loop  init/main.c:14 in main_loop\n"+
		"vmlinux+0x64  4      idle     main_loop  init/main.c:20 in main_loop\n"+
		"\n2 places in 1 function\n", inlinedIn(t, dir, "idle"), "code that was inlined there in turn is part of it")
	const pick = "" +
		"ADDRESS       BYTES  INLINED          FUNCTION   CALLED FROM\n" +
		"vmlinux+0x5c  4      core::fmt::pick  main_loop  include/idle.h:5 in idle\n" +
		"\n1 place in 1 function\n"
	for _, name := range []string{"core::fmt::pick", "_ZN4core3fmt4pick17h0123456789abcdefE", "*::p?ck"} {
		assert.Equal(t, pick, inlinedIn(t, dir, name))
	}
	assert.Equal(t, 3, strings.Count(inlinedIn(t, dir, "*"), "main_loop  i"))
	assert.Equal(t, 3, strings.Count(inlinedIn(t, dir, "idle", "*::pick"), "main_loop  i"), "several names")
	for _, args := range [][]string{{"main_loop", "idle"}, {"nothing", "idle", "-o", "json"}} {
		out, errs, err := execute(t, "", append([]string{"inlined", "--pack", dir}, args...)...)
		require.ErrorIs(t, err, errNowhere)
		assert.Equal(t, "Error: inlined nowhere: "+args[0]+"\n", errs)
		assert.Contains(t, out, "vmlinux+0x64", "the other's places")
	}
	assert.JSONEq(t, `{"inlined": "core::fmt::pick", "function": "main_loop", "address": "vmlinux+0x5c", "bytes": 4,
		"image": "vmlinux", "build_id": "0123456789abcdef", "caller": "idle", "file": "include/idle.h", "line": 5}`,
		inlinedIn(t, dir, "core::fmt::pick", "--output", "json"))

	// If there are two builds of one kernel, addresses have the build ids, and lookup accepts them.
	writePack(t, dir, otherKernelID, kernelPack(otherKernelID))
	out := inlinedIn(t, dir, "idle")
	for _, address := range []string{kernelID + "+0x58", kernelID + "+0x64", otherKernelID + "+0x58", otherKernelID + "+0x64"} {
		require.Contains(t, out, "\n"+address+" ")
		found, _, err := lookedUp(t, "--pack", dir, address)
		require.NoError(t, err)
		assert.Contains(t, found, "idle include/idle.h")
	}
	assert.Contains(t, out, "4 places in 2 functions")
}

// TestInlinedTakenApart uses one call whose code is in two places, and two calls whose code is
// adjacent.
func TestInlinedTakenApart(t *testing.T) {
	w := pack.NewWriter(pack.Info{BuildID: moduleID, Name: "nf_tables", Base: 0x40, Extent: pack.Range{End: 0x80}})
	c := w.File("net/nf.c")
	f, g := w.Function("f", c, 1), w.Function("g", c, 20)
	outer := w.Node(0, f, 0, 0)
	one, two := w.Node(outer, g, c, 5), w.Node(outer, g, c, 6)
	w.Row(0x10, one, c, 21)
	w.Row(0x18, two, c, 21)
	w.Row(0x20, outer, c, 7)
	w.Row(0x48, one, c, 22)
	w.Row(0x50, 0, 0, 0)
	w.Symbol(symbol(0x10, 0x40, "f.cold"))
	w.Symbol(symbol(0x40, 0x80, "h"))
	dir := t.TempDir()
	writePack(t, dir, moduleID, w)
	assert.Equal(t, ""+
		"ADDRESS         BYTES  INLINED  FUNCTION  CALLED FROM\n"+
		"nf_tables-0x30  8      g        f.cold    net/nf.c:5 in f\n"+
		"nf_tables-0x28  8      g        f.cold    net/nf.c:6 in f\n"+
		"nf_tables+0x8   8      g        f         net/nf.c:5 in f\n"+
		"\n3 places in 2 functions\n", inlinedIn(t, dir, "g"), "h is not f: the pack's name is printed")
}

func TestInlinedErrors(t *testing.T) {
	empty := t.TempDir()
	run := func(args ...string) error {
		_, _, err := execute(t, "", append([]string{"inlined", "--procfs", empty, "--sysfs", empty}, args...)...)
		return err
	}
	err := run("f")
	require.ErrorIs(t, err, btfinline.ErrNone)
	require.ErrorContains(t, err, empty+"/kernel/btf: no *.inline files")
	require.ErrorIs(t, err, errNoInlined, "it says what to do")

	dir := t.TempDir()
	symbols := pack.NewWriter(pack.Info{BuildID: moduleID, Name: "nf_tables", Extent: pack.Range{End: 0x10}})
	symbols.Symbol(symbol(0, 1, "f"))
	damaged := writePack(t, dir, moduleID, symbols)
	err = run("--pack", dir, "f")
	require.ErrorIs(t, err, inlined.ErrNoLines)
	require.NoError(t, os.Truncate(damaged, 10))
	err = run("--pack", dir, "f")
	require.ErrorIs(t, err, pack.ErrFormat)
	writePack(t, dir, kernelID, kernelPack(kernelID))
	out, errs, err := execute(t, "", "inlined", "--pack", dir, "idle")
	require.ErrorIs(t, err, pack.ErrFormat)
	assert.Contains(t, out, "2 places in 1 function", "what the other pack has")
	assert.Contains(t, errs, "Error: "+damaged)
	err = run("--pack", dir, "main_loop")
	require.ErrorIs(t, err, pack.ErrFormat)
	require.ErrorIs(t, err, errNowhere)
}

// inlineBTF adds the BTF of a kernel of Linux 7.4 to a tree. The function idle was inlined at 0x58
// and, unlike in any real kernel, between functions; early was in init text.
func inlineBTF(t *testing.T, sysfs string) {
	t.Helper()
	const kindFunc, kindLocSec = 12, 22
	dir := filepath.Join(sysfs, "kernel", "btf")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, data := range map[string][]byte{
		"vmlinux": btftest.File(btftest.Type(1, kindFunc, 0), "\x00idle\x00"), // 1
		"vmlinux.inline": btftest.File(append(append(btftest.Type(6, kindFunc, 0), // 2
			btftest.Type(12, kindLocSec, 2, 1, 0, 0x58, 1, 0, 0x42)...),
			btftest.Type(24, kindLocSec, 1, 2, 0, 0x10)...), "early\x00inline.text\x00inline.init.text\x00"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
}

const symbolListWithStext = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000040 t __pfx_main_loop\n" +
	"ffffffff81000050 t main_loop\nffffffff81000090 T other\nffffffff81000100 T _etext\n"

func TestInlinedInRunning(t *testing.T) {
	tree := kernelTree(t, symbolListWithStext)
	inlineBTF(t, tree[3])
	run := func(args ...string) (string, string) {
		out, errs, err := execute(t, "", append(append([]string{"inlined"}, tree...), args...)...)
		require.NoError(t, err)
		return out, errs
	}
	out, errs := run("*")
	assert.Equal(t, ""+
		"ADDRESS                  BYTES  INLINED  FUNCTION   CALLED FROM\n"+
		"vmlinux:.init.text+0x10  -      early    ?          -\n"+
		"0xffffffff81000042       -      idle     ?          -\n"+
		"0xffffffff81000058       -      idle     main_loop  -\n"+
		"\n3 places in 1 function\n", out)
	assert.Empty(t, errs)
	out, _ = run("idle", "--output", "json")
	first, second, _ := strings.Cut(out, "\n")
	assert.JSONEq(t, `{"inlined": "idle", "address": "0xffffffff81000042", "image": "vmlinux", "build_id": "abcd"}`, first)
	assert.JSONEq(t, `{"inlined": "idle", "function": "main_loop", "address": "0xffffffff81000058", "image": "vmlinux",
		"build_id": "abcd"}`, second)
	_, errs, err := execute(t, "", append(append([]string{"inlined"}, tree...), "main_loop")...)
	require.ErrorIs(t, err, errNowhere)
	assert.Contains(t, errs, "inlined nowhere: main_loop")

	// Unknown contents of another file hide nothing.
	newer := filepath.Join(tree[3], "kernel/btf/xfs.inline")
	require.NoError(t, os.WriteFile(newer, btftest.File(btftest.Type(0, 23, 0), ""), 0o644))
	require.NoError(t, os.WriteFile(strings.TrimSuffix(newer, ".inline"), btftest.File(nil, ""), 0o644))
	out, errs, err = execute(t, "", append(append([]string{"inlined"}, tree...), "early")...)
	require.Error(t, err)
	assert.Contains(t, out, "1 place in 0 functions")
	assert.Contains(t, errs, "Error: "+newer+": xfs.inline: malformed BTF: type 2 is of kind 23, which is not known")

	// If addresses are hidden, there are no answers.
	hidden := regexp.MustCompile(`(?m)^\w{16}`).ReplaceAllString(symbolListWithStext, "0000000000000000")
	require.NoError(t, os.WriteFile(filepath.Join(tree[1], "kallsyms"), []byte(hidden), 0o644))
	_, _, err = execute(t, "", append(append([]string{"inlined"}, tree...), "idle")...)
	require.ErrorIs(t, err, kallsyms.ErrRestricted)
}
