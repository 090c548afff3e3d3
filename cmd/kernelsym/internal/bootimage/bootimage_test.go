// SPDX-License-Identifier: Apache-2.0

package bootimage

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func unpack(file []byte) ([]byte, error) { return Unpack(bytes.NewReader(file), int64(len(file))) }

// The beginnings of kernels.
var (
	elfKernel   = append([]byte("\x7fELF\x02\x01\x01"), bytes.Repeat([]byte("code of a kernel "), 1000)...)
	arm64Kernel = append(append(make([]byte, 56), "ARM\x64"...), elfKernel...)
)

var formats = []string{"gzip", "xz", "zstd", "lz4", "legacy lz4"}

func TestKernelsAreUnpacked(t *testing.T) {
	files := map[string][]byte{"ELF": elfKernel}
	for _, format := range formats {
		plain := packed(t, format, elfKernel)
		payload, size := withSize(plain, elfKernel), len(plain)
		if format == "gzip" {
			payload = plain
		}
		files[format] = plain
		files["bzImage with "+format] = bzImage(payload)
		files["zboot with "+format] = zboot(format, payload, size)
		files["unified kernel image with "+format] = uki(t, section{".osrel", "ID=test\n"},
			section{".linux", string(bzImage(payload))}, section{".initrd", "files"})
		files["compressed unified kernel image with "+format] = packed(t, format, uki(t, section{".linux", string(plain)}))
	}
	for name, file := range files {
		got, err := unpack(file)
		require.NoError(t, err, name)
		assert.True(t, bytes.Equal(elfKernel, got), name)
	}
	for name, file := range map[string][]byte{
		"Image":    arm64Kernel,
		"Image.gz": packed(t, "gzip", arm64Kernel),
		"UKI":      uki(t, section{".linux", string(arm64Kernel)}),
	} {
		got, err := unpack(file)
		require.NoError(t, err, name)
		assert.True(t, bytes.Equal(arm64Kernel, got), name)
	}
}

func TestDamagedImagesAreRefused(t *testing.T) {
	zip, program := packed(t, "zstd", elfKernel), uki(t, section{".linux", "a"})
	changed := func(file []byte, off int, v uint32) []byte {
		le(file, off, v)
		return file
	}
	nested := elfKernel
	for range maxLayers + 1 {
		nested = packed(t, "gzip", nested)
	}
	for name, test := range map[string]struct {
		file []byte
		want error
	}{
		"empty":                       {nil, ErrNotImage},
		"text":                        {[]byte("ID=debian\n"), ErrNotImage},
		"another compression":         {bzImage([]byte("BZh91AY&SY.....")), nil},
		"too many layers":             {nested, ErrNotImage},
		"payload beyond the end":      {changed(bzImage(zip), 0x24c, 1<<20), ErrDamaged},
		"payload without a size":      {changed(bzImage(zip), 0x24c, 3), ErrDamaged},
		"header cut off":              {bzImage(zip)[:0x24f], ErrNotImage},
		"old boot protocol":           {changed(bzImage(zip), 0x206, 0x207), ErrNotImage},
		"longer than it says":         {bzImage(withSize(zip, elfKernel[1:])), ErrDamaged},
		"shorter than it says":        {bzImage(withSize(zip, arm64Kernel)), ErrDamaged},
		"another size in gzip":        {bzImage(changed(packed(t, "gzip", elfKernel), len(packed(t, "gzip", elfKernel))-4, 100)), ErrDamaged},
		"cut off":                     {zip[:len(zip)-10], ErrDamaged},
		"larger than the limit":       {bzImage(append(bytes.Clone(zip), 1, 0, 0, 0x20)), ErrTooLarge},
		"zboot beyond the end":        {zboot("gzip", zip, 1<<20), ErrDamaged},
		"an EFI program":              {uki(t, section{".text", "code"}), ErrNotImage},
		"two kernels":                 {uki(t, section{".linux", "a"}, section{".linux", "b"}), ErrNotImage},
		"a section beyond the end":    {program[:len(program)-512], ErrDamaged},
		"a DOS program":               {append([]byte("MZ"), make([]byte, 0x300)...), ErrNotImage},
		"wrong checksum of xz":        {xzWithout(t, 20), errXz},
		"wrong header of xz":          {xzWithout(t, 8), errXz},
		"xz, cut off in its header":   {[]byte(xzMagic), ErrDamaged},
		"xz, cut off in its checksum": {packed(t, "xz", elfKernel)[:len(packed(t, "xz", elfKernel))-40], ErrDamaged},
	} {
		_, err := unpack(test.file)
		require.Error(t, err, name)
		if test.want != nil {
			require.ErrorIs(t, err, test.want, name)
		}
	}
}

// xzWithout returns an xz file with a wrong bit.
func xzWithout(t *testing.T, at int) []byte {
	t.Helper()
	file := packed(t, "xz", elfKernel)
	file[at] ^= 1
	return file
}

// TestBombsAreBounded verifies that a compressed file of more than MaxSize is refused, whatever its
// headers say.
func TestBombsAreBounded(t *testing.T) {
	zeros := make([]byte, MaxSize+1)
	copy(zeros, elfKernel)
	bomb := packed(t, "zstd", zeros)
	_, err := unpack(bomb)
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = unpack(bzImage(withSize(bomb, elfKernel)))
	require.ErrorIs(t, err, ErrDamaged)
	_, err = unpack(zeros)
	require.ErrorIs(t, err, ErrTooLarge)
}

// likeCode returns bytes in which calls, and numbers that could be their targets, overlap more often
// than in real code.
func likeCode(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = []byte{0xe8, 0xe9, 0x00, 0xff, 0x01, byte(random.Uint32())}[random.IntN(6)]
	}
	return append(bytes.Clone(elfKernel[:8]), b...)
}

// TestXzOfCode compares the decompressed code of kernels, calls and test programs with the code that
// xz compressed.
func TestXzOfCode(t *testing.T) {
	fixture, err := os.ReadFile("testdata/likecode.xz") // xz --check=crc32 --x86 --lzma2
	require.NoError(t, err)
	got, err := unpack(fixture)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(likeCode(1<<14), got))

	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("no xz: only a fixture was decompressed")
	}
	program, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	for name, code := range map[string][]byte{"like code": likeCode(1 << 18), "program": program[:min(len(program), 1<<20)]} {
		for _, options := range []string{
			"--check=crc32 --x86 --lzma2=dict=128MiB", "--check=crc64 -T2 --block-size=300000 --x86 --lzma2", "--check=sha256", "--check=none --x86 --lzma2",
		} {
			cmd := exec.CommandContext(t.Context(), "xz", append([]string{"-1", "--stdout"}, strings.Fields(options)...)...)
			cmd.Stdin = bytes.NewReader(code)
			out, err := cmd.Output()
			require.NoError(t, err, options)
			got, err := unpack(bzImage(withSize(out, code)))
			require.NoError(t, err, "%s, %s", name, options)
			assert.True(t, bytes.Equal(code, got), "%s, %s", name, options)
		}
	}
}

func TestUnknownFiltersAreRefused(t *testing.T) {
	for name, header := range map[string][]byte{
		"ARM64":            {1, 0x0a, 0, 0x21, 1, 20},
		"delta":            {1, 3, 1, 0, 0x21, 1, 20},
		"x86 twice":        {2, 4, 0, 4, 0, 0x21, 1, 20},
		"x86 last":         {0, 4, 0},
		"LZMA2 first":      {1, 0x21, 1, 20, 0x21, 1, 20},
		"no properties":    {0, 0x21, 0},
		"192 MiB":          {0, 0x21, 1, 31},
		"4 GiB":            {0, 0x21, 1, 40},
		"more than 4 GiB":  {0, 0x21, 1, 41},
		"cut off":          {0, 0x21, 1},
		"cut off sizes":    {0xc0, 0x80},
		"long number":      {0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"beyond the block": {0, 0x21, 0x7f, 20},
	} {
		_, err := parseFilters(header)
		require.Error(t, err, name)
	}
	f, err := parseFilters([]byte{0xc1, 0x80, 1, 0x80, 1, 4, 0, 0x21, 1, 30, 0, 0})
	require.NoError(t, err)
	assert.Equal(t, filters{isX86: true, dict: 128 << 20}, f)
}

// FuzzUnpack verifies that any file results in a kernel or an error, and that a kernel is unpacked to
// itself.
func FuzzUnpack(f *testing.F) {
	small := elfKernel[:200]
	f.Add(small)
	for _, format := range formats {
		f.Add(bzImage(withSize(packed(f, format, small), small)))
		f.Add(packed(f, format, arm64Kernel[:100]))
	}
	f.Add(zboot("gzip", packed(f, "gzip", small), len(packed(f, "gzip", small))))
	f.Add(uki(f, section{".linux", string(small)}))
	f.Fuzz(func(t *testing.T, file []byte) {
		kernel, err := unpack(file)
		if err != nil {
			return
		}
		if again, err := unpack(kernel); err != nil || !bytes.Equal(kernel, again) {
			t.Fatalf("%d bytes again: %v", len(kernel), err)
		}
	})
}
