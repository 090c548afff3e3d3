// SPDX-License-Identifier: Apache-2.0

package kelf_test

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// buildCore builds a core kernel from an assembler file.
func buildCore(t *testing.T, source string) string {
	t.Helper()
	return build(t, "vmlinux", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=0xdeadbeef76543210,-e,_text",
		"-Wl,-Ttext=0x81000000", source)
}

// TestContract_3_3_AliasesOfTheCoreKernel verifies that symbols are in the order of
// scripts/kallsyms.c if the file does not have the kernel's own list.
func TestContract_3_3_AliasesOfTheCoreKernel(t *testing.T) {
	info, symbols, err := open(t, buildCore(t, "testdata/aliases.S")).Symbols()
	require.NoError(t, err)
	assert.Equal(t, []pack.Symbol{
		{Range: pack.Range{Start: 16, End: 32}, Name: "aa_second", Folded: true},
		{Range: pack.Range{Start: 32, End: 48}, Name: "__start_only"},
		{Range: pack.Range{Start: 48, End: 80}, Name: "kallsyms_show_value"},
		{Range: pack.Range{Start: 80, End: 96}, Name: "weak_alone"},
	}, symbols)
	assert.Equal(t, pack.Range{Start: 0, End: 96}, info.Extent)
}

func TestSymbolsOfTheCoreKernelFitItsMarks(t *testing.T) {
	f := open(t, build(t, "vmlinux", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=0xdeadbeef76543210,-e,_text",
		"-Wl,-Ttext=0x81000000,--section-start=.init.text=0x81200000", "testdata/core.S"))
	info, symbols, err := f.Symbols()
	require.NoError(t, err)
	want := f.Info()
	want.Marks = pack.Marks{Entry: pack.Range{Start: 32, End: 48}, Fred: pack.Range{Start: 48, End: 64}}
	if runtime.GOARCH == "amd64" {
		want.Marks.Thunks = []pack.Range{{Start: 64, End: 128}, {Start: 144, End: 152}}
	}
	assert.Equal(t, want, info)
	i := slices.IndexFunc(symbols, func(s pack.Symbol) bool { return s.Name == "start_kernel" })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, pack.Range{Start: 128, End: 144}, symbols[i].Range)
}

// TestContract_3_2_SymbolsOfAModule verifies that the last symbol ends with its page, or where .plt
// begins.
func TestContract_3_2_SymbolsOfAModule(t *testing.T) {
	info, symbols, err := open(t, build(t, "m.ko", "-c", "testdata/module.S")).Symbols()
	require.NoError(t, err)
	end := uint32(4096)
	if runtime.GOARCH == "arm64" {
		end = 64
	}
	assert.Equal(t, []pack.Symbol{
		{Range: pack.Range{Start: 0, End: 20}, Name: "run"},
		{Range: pack.Range{Start: 24, End: end}, Name: "cleanup_module"},
	}, symbols)
	assert.Equal(t, end, info.Extent.End)
}

// TestContract_3_2_PLTBeforeTheCode verifies that code after .plt is laid out from there, and ends
// where the file says, because it is unknown how much of a page .plt takes. Without .text, offsets
// would count from .plt, and there is no pack.
func TestContract_3_2_PLTBeforeTheCode(t *testing.T) {
	arm64 := func(args ...string) *kelf.File {
		name := build(t, "plt.ko", "-c", "testdata/plt.S")
		out, err := exec.CommandContext(t.Context(), "objcopy", append(args, name)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		require.NoError(t, err)
		const machine = 18 // offset of e_machine
		_, err = file.WriteAt(binary.LittleEndian.AppendUint16(nil, uint16(elf.EM_AARCH64)), machine)
		require.NoError(t, errors.Join(err, file.Close()))
		return open(t, name)
	}
	info, symbols, err := arm64("-R.text", "--rename-section=.text.run=.text").Symbols()
	require.NoError(t, err)
	assert.Equal(t, []pack.Symbol{
		{Range: pack.Range{Start: 0, End: 24}, Name: "run"}, {Range: pack.Range{Start: 24, End: 32}, Name: "stop"},
	}, symbols)
	assert.Equal(t, []pack.Section{
		{Name: ".text", Range: pack.Range{End: 20}}, {Name: ".exit.text", Range: pack.Range{Start: 24, End: 32}},
	}, info.Sections, "a section with a larger alignment can be at another distance")
	assert.Equal(t, pack.Range{End: 32}, info.Extent)

	info, symbols, err = arm64().Symbols()
	require.NoError(t, err)
	assert.Empty(t, symbols)
	assert.NotEqual(t, ".plt", info.Sections[0].Name)
}

// TestAliasesOfRealModules verifies that the debug file of a module lists its symbols in the order
// of the loaded file.
func TestAliasesOfRealModules(t *testing.T) {
	roots := filepath.SplitList(os.Getenv("KERNELSYM_DEBUG_ROOT"))
	if len(roots) == 0 {
		t.Skip("no kernel with debug information: `make test-packs` gets some, and sets KERNELSYM_DEBUG_ROOT")
	}
	for _, root := range roots {
		compareModules(t, root)
	}
}

func compareModules(t *testing.T, root string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "lib/modules")); err != nil {
		t.Logf("%s has debug information alone", root)
		return
	}
	debug, err := filepath.Glob(filepath.Join(root, "usr/lib/debug/lib/modules/*/kernel/fs/*/*.ko"))
	require.NoError(t, err)
	require.NotEmpty(t, debug)
	different := 0
	for _, name := range debug {
		rel, err := filepath.Rel(filepath.Join(root, "usr/lib/debug"), name)
		require.NoError(t, err)
		loaded := filepath.Join(root, rel)
		if _, err := os.Stat(loaded); err != nil {
			loaded += ".xz"
		}
		info, symbols := symbolsOf(t, loaded)
		debugInfo, debugSymbols := symbolsOf(t, name)
		if !assert.Equal(t, info, debugInfo) || !assert.Equal(t, symbols, debugSymbols) {
			different++
		}
	}
	t.Logf("%d of %d modules differ", different, len(debug))
}

func symbolsOf(t *testing.T, name string) (pack.Info, []pack.Symbol) {
	t.Helper()
	f, err := kelf.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	info, symbols, err := f.Symbols()
	require.NoError(t, err)
	return info, symbols
}
