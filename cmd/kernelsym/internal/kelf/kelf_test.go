// SPDX-License-Identifier: Apache-2.0

package kelf_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// build runs gcc and returns the file that it makes.
func build(t *testing.T, output string, args ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("no gcc that makes ELF files: small files of a kernel and a module are not read")
	}
	output = filepath.Join(t.TempDir(), output)
	out, err := exec.CommandContext(t.Context(), gcc, append(args, "-o", output)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return output
}

func open(t *testing.T, name string) *kelf.File {
	t.Helper()
	f, err := kelf.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

func TestModuleIsLaidOutAsTheKernelDoes(t *testing.T) {
	f := open(t, build(t, "other-name.ko", "-c", "testdata/module.S"))
	assert.Equal(t, pack.Info{
		BuildID: "deadbeef01234567", Name: "kelf_test", Arch: runtime.GOARCH, Release: "6.12.0-test",
		Base: 0, Extent: pack.Range{End: 32},
		Sections: []pack.Section{
			{Name: ".text", Range: pack.Range{Start: 0, End: 20}},
			{Name: ".text.unlikely", Range: pack.Range{Start: 20, End: 23}},
			{Name: ".exit.text", Range: pack.Range{Start: 24, End: 32}},
		},
	}, f.Info())

	addresses := map[string]uint32{}
	table, err := f.SymbolTable()
	require.NoError(t, err)
	for i := range table.Len() {
		s := table.At(i)
		if addr, ok := f.Address(&s); ok && len(s.Name) > 0 {
			addresses[string(s.Name)] = addr
		}
	}
	assert.Equal(t, map[string]uint32{"run": 0, "cleanup_module": 24}, addresses)
}

func TestEachSectionOfAModuleIsRelocatedToItsOwnAddress(t *testing.T) {
	f := open(t, build(t, "m.ko", "-c", "testdata/module.S"))
	s, err := f.Debug("addr")
	require.NoError(t, err)
	whole := make([]byte, s.Size())
	_, err = s.ReadAt(whole, 0)
	require.NoError(t, err)

	address := func(i int) uint64 { return binary.LittleEndian.Uint64(whole[8*i:]) }
	run, ok := f.Offset(address(0), address(0)+16)
	assert.True(t, ok)
	assert.Equal(t, pack.Range{Start: 4, End: 20}, run)
	exit, ok := f.Offset(address(2), address(2)+1)
	assert.True(t, ok)
	assert.Equal(t, pack.Range{Start: 25, End: 26}, exit)
	for _, none := range [][2]uint64{
		{address(0), address(0) + 17},   // beyond .text
		{address(1), address(1) + 1},    // .init.text
		{address(3), address(3) + 1},    // .data
		{address(0), address(0)},        // empty
		{address(0), address(0) - 1},    // backwards
		{address(0) - 5, address(0)},    // before .text
		{0, ^uint64(0)}, {4, 5}, {0, 0}, // not relocated
	} {
		_, ok := f.Offset(none[0], none[1])
		assert.False(t, ok, "%#x", none)
	}
	assert.EqualValues(t, 36, binary.LittleEndian.Uint32(whole[32:]), "an offset in debug information")

	for from := range whole { // in any window, the bytes are the same
		for to := from; to <= len(whole); to += 5 {
			window := make([]byte, to-from)
			_, err := s.ReadAt(window, int64(from))
			require.NoError(t, err)
			require.Equal(t, whole[from:to], window)
		}
	}
	_, err = s.ReadAt(make([]byte, 2), int64(s.Size())-1)
	assert.ErrorContains(t, err, ".debug_addr")
}

func TestCoreKernel(t *testing.T) {
	f := open(t, build(t, "vmlinux", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=0xdeadbeef76543210,-e,_text",
		"-Wl,-Ttext=0x81000000,--section-start=.init.text=0x81200000", "testdata/core.S"))
	want := pack.Info{
		BuildID: "deadbeef76543210", Name: "vmlinux", Arch: runtime.GOARCH, Release: "6.12.0-test",
		Text: 0x81000000, Stext: 0x81000010,
		Extent: pack.Range{End: 0x200020}, Gap: pack.Range{Start: 160, End: 0x200000},
	}
	assert.Equal(t, want, f.Info())
}

func TestCompressedFiles(t *testing.T) {
	plain := build(t, "m.ko", "-c", "testdata/module.S")
	data, err := os.ReadFile(plain)
	require.NoError(t, err)
	want := open(t, plain).Info()
	for ext, compress := range map[string]func(*bytes.Buffer){
		".gz": func(b *bytes.Buffer) {
			w := gzip.NewWriter(b)
			_, err := w.Write(data)
			require.NoError(t, err)
			require.NoError(t, w.Close())
		},
		".xz": func(b *bytes.Buffer) {
			w, err := xz.NewWriter(b)
			require.NoError(t, err)
			_, err = w.Write(data)
			require.NoError(t, err)
			require.NoError(t, w.Close())
		},
		".zst": func(b *bytes.Buffer) {
			w, err := zstd.NewWriter(b)
			require.NoError(t, err)
			_, err = w.Write(data)
			require.NoError(t, err)
			require.NoError(t, w.Close())
		},
	} {
		var b bytes.Buffer
		compress(&b)
		name := filepath.Join(t.TempDir(), "m.ko"+ext)
		require.NoError(t, os.WriteFile(name, b.Bytes(), 0o600))
		assert.Equal(t, want, open(t, name).Info(), ext)

		require.NoError(t, os.WriteFile(name, b.Bytes()[:b.Len()/2], 0o600))
		_, err := kelf.Open(name)
		assert.ErrorContains(t, err, name, "cut off")
	}
}

func TestCompressedSections(t *testing.T) {
	for _, how := range []string{"zlib", "zlib-gnu"} {
		f := open(t, build(t, "m.ko", "-c", "-Wa,--compress-debug-sections="+how, "-g", "-x", "c", "testdata/repeated.c"))
		plain := open(t, build(t, "m.ko", "-c", "-g", "-x", "c", "testdata/repeated.c"))
		assert.Equal(t, content(t, plain, "info"), content(t, f, "info"), how)
		assert.Equal(t, content(t, plain, "line"), content(t, f, "line"), how)
	}
}

func content(t *testing.T, f *kelf.File, section string) []byte {
	t.Helper()
	s, err := f.Debug(section)
	require.NoError(t, err)
	require.NotZero(t, s.Size())
	data := make([]byte, s.Size())
	_, err = s.ReadAt(data, 0)
	require.NoError(t, err)
	return data
}

func TestOtherFilesAreRefused(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	_, err = kelf.Open(self)
	require.Error(t, err)
	_, err = kelf.Open(t.TempDir())
	require.ErrorContains(t, err, "not a regular file")
	_, err = kelf.Open(build(t, "hello.o", "-c", "-Wl,--build-id", "testdata/nothing.S"))
	assert.ErrorIs(t, err, kelf.ErrNotKernel)
}
