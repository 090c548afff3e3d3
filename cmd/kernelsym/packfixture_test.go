// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

const (
	kernelID      = "0123456789abcdef"
	otherKernelID = "ffffffffffffffff"
	moduleID      = "0123456789abcdef0123456789abcdef01234567"
)

// writePack writes a writer's pack to a directory, under the name by which it is found, and returns
// the file's name. It does not depend on the running kernel.
func writePack(t *testing.T, dir, id string, w *pack.Writer) string {
	t.Helper()
	kerneltest.SameInEachKernel(t)
	data, err := w.Bytes()
	require.NoError(t, err)
	name := filepath.Join(dir, id+pack.Ext)
	require.NoError(t, os.WriteFile(name, data, 0o644))
	return name
}

func symbol(start, end uint32, name string) pack.Symbol {
	return pack.Symbol{Range: pack.Range{Start: start, End: end}, Name: name}
}

// kernelPack returns the pack of the kernel of symbolList. In main_loop, idle was inlined at 0x58,
// with a Rust function in its midst from 0x5c to 0x60, and at 0x64 without a line. From 0x78 on,
// the debug information attributes the code to another function.
func kernelPack(id string) *pack.Writer { return kernelPackOf(pack.Info{BuildID: id, Arch: "amd64"}) }

// kernelPackOf returns that pack with a build id, an architecture and landmarks.
func kernelPackOf(info pack.Info) *pack.Writer {
	info.Name, info.Text, info.Stext, info.Extent = "vmlinux", 0xffffffff81000000, 0xffffffff81000000, pack.Range{End: 0x100}
	w := pack.NewWriter(info)
	c, h, s := w.File("init/main.c"), w.File("include/idle.h"), w.File("entry.S")
	loop := w.Node(0, w.Function("main_loop", c, 10), 0, 0)
	idle := w.Node(loop, w.Function("idle", h, 3), c, 14)
	write := w.Node(idle, w.Function("_ZN4core3fmt4pick17h0123456789abcdefE", h, 30), h, 5)
	again := w.Node(loop, w.Function("idle", h, 3), c, 20)
	other := w.Node(0, w.Function("other", c, 100), 0, 0)
	w.Row(0x00, 0, s, 7)
	w.Row(0x48, 0, 0, 0)
	w.Row(0x50, loop, c, 11)
	w.Row(0x58, idle, h, 4)
	w.Row(0x5c, write, h, 31)
	w.Row(0x60, idle, h, 6)
	w.Row(0x64, again, h, 0)
	w.Row(0x68, loop, c, 21)
	w.Row(0x78, other, c, 101)
	w.Row(0x90, 0, 0, 0)
	w.Symbol(symbol(0x00, 0x40, "startup_64"))
	w.Symbol(symbol(0x50, 0x90, "main_loop"))
	w.Symbol(symbol(0x90, 0x100, "_ZN4core3fmt5write17h0123456789abcdefE"))
	return w
}

// modulePack returns the pack of a module that has text below its .text.
func modulePack() *pack.Writer {
	w := pack.NewWriter(pack.Info{BuildID: moduleID, Arch: "amd64", Name: "nf_tables", Base: 0x40, Extent: pack.Range{End: 0x80}})
	c := w.File("net/nf.c")
	cold := w.Node(0, w.Function("nft_do", c, 5), 0, 0) // a range of its own, but the same function
	w.Row(0x10, cold, c, 6)
	w.Row(0x40, cold, c, 5)
	w.Row(0x48, 0, 0, 0)
	w.Symbol(symbol(0x10, 0x40, "nft_do.cold"))
	w.Symbol(symbol(0x40, 0x80, "nft_do"))
	return w
}

// note returns the ELF note with a build id.
func note(t *testing.T, buildID string) []byte {
	t.Helper()
	id, err := hex.DecodeString(buildID)
	require.NoError(t, err)
	b := binary.NativeEndian.AppendUint32(nil, 4)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(id)))
	b = append(binary.NativeEndian.AppendUint32(b, 3), "GNU\x00"...)
	return append(b, id...)
}

// treeWithID returns the command-line flags for the kernel of symbolList with the build id
// kernelID.
func treeWithID(t *testing.T) []string {
	t.Helper()
	tree := kernelTree(t, symbolList)
	require.NoError(t, os.WriteFile(filepath.Join(tree[3], "kernel/notes"), note(t, kernelID), 0o644))
	return tree
}
