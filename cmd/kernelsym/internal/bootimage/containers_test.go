// SPDX-License-Identifier: Apache-2.0

package bootimage

import (
	"bytes"
	"compress/gzip"
	"debug/pe"
	"encoding/binary"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

// le writes a number at an offset, least significant byte first.
func le(b []byte, off int, v uint32) { binary.LittleEndian.PutUint32(b[off:], v) }

// withSize appends the size of the contents to compressed data, as a kernel does for all formats but
// gzip.
func withSize(packed, content []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(packed), uint32(len(content)))
}

// bzImage returns the image with a payload. Sectors of setup code precede the protected-mode kernel,
// in which the payload has an offset.
func bzImage(payload []byte) []byte {
	const setup, off = 3, 0x40
	b := make([]byte, (1+setup)*512+off)
	copy(b, "MZ")
	b[0x1f1] = setup
	copy(b[0x202:], "HdrS")
	le(b, 0x206, 0x020f)
	le(b, 0x248, off)
	le(b, 0x24c, uint32(len(payload)))
	return append(append(b, payload...), "signature"...)
}

// zboot returns the EFI program with a kernel compressed in a format. size is the size that the header
// gives for it.
func zboot(format string, payload []byte, size int) []byte {
	const off = 0x1000
	b := make([]byte, off)
	copy(b, "MZ\x00\x00zimg")
	le(b, 8, off)
	le(b, 12, uint32(size))
	copy(b[24:], format)
	return append(append(b, payload...), "decompressor"...)
}

// section is a section of an EFI program.
type section struct {
	name, data string
}

// uki returns the EFI program with sections. Each section is padded.
func uki(t testing.TB, sections ...section) []byte {
	t.Helper()
	const peAt, align = 0x80, 512
	dos := make([]byte, peAt)
	copy(dos, "MZ")
	le(dos, 0x3c, peAt)
	optional := pe.OptionalHeader64{Magic: 0x20b, NumberOfRvaAndSizes: 16}
	b, err := binary.Append(append(dos, "PE\x00\x00"...), binary.LittleEndian, pe.FileHeader{
		Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: uint16(len(sections)),
		SizeOfOptionalHeader: uint16(binary.Size(optional)),
	})
	require.NoError(t, err)
	b, err = binary.Append(b, binary.LittleEndian, optional)
	require.NoError(t, err)
	off := (len(b) + len(sections)*40 + align - 1) &^ (align - 1)
	data := make([]byte, 0, align)
	for _, s := range sections {
		header := pe.SectionHeader32{
			VirtualSize: uint32(len(s.data)), SizeOfRawData: uint32(len(s.data)+align-1) &^ (align - 1),
			PointerToRawData: uint32(off + len(data)),
		}
		copy(header.Name[:], s.name)
		b, err = binary.Append(b, binary.LittleEndian, header)
		require.NoError(t, err)
		data = append(append(data, s.data...), make([]byte, int(header.SizeOfRawData)-len(s.data))...)
	}
	return append(append(b, make([]byte, off-len(b))...), data...)
}

// packed returns data in a compressed format.
func packed(t testing.TB, format string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch format {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "xz":
		w, err = xz.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b)
	case "lz4", "legacy lz4":
		z := lz4.NewWriter(&b)
		err = z.Apply(lz4.LegacyOption(format != "lz4"))
		w = z
	}
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}
