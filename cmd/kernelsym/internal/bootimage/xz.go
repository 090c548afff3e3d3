// SPDX-License-Identifier: Apache-2.0

package bootimage

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"slices"

	"github.com/ulikunitz/xz/lzma"
)

// xzMagic begins a stream of xz (https://tukaani.org/xz/xz-file-format.txt). Kernels for x86 are
// compressed with a filter, which ulikunitz/xz does not have, so only its LZMA2 decoder is used here.
const xzMagic = "\xfd7zXZ\x00"

// errXz is returned for a malformed stream.
var errXz = errors.New("malformed xz")

// The identifiers of filters.
const (
	filterX86   = 0x04
	filterLZMA2 = 0x21
)

// An xzReader decompresses the first stream of an xz file. It does not read the index behind the
// blocks, since each block has a checksum.
type xzReader struct {
	in    *bufio.Reader
	limit int64     // number of bytes that are read, at most
	n     int64     // bytes read of the current block
	check hash.Hash // of the current block
	block io.Reader // contents of the current block, or nil
}

func openXz(r io.Reader, limit int64) (io.Reader, func(), error) {
	x := &xzReader{in: bufio.NewReader(r), limit: limit}
	header := make([]byte, len(xzMagic)+6) // flags, CRC-32
	if err := x.fill(header); err != nil {
		return nil, nil, err
	}
	flags := header[len(xzMagic):]
	if !hasAt(header, 0, xzMagic) || flags[0] != 0 || !isCRC32(flags[:2], flags[2:]) {
		return nil, nil, errXz
	}
	switch flags[1] {
	case 0:
		x.check = noHash{}
	case 1:
		x.check = crc32.NewIEEE()
	case 4:
		x.check = crc64.New(crc64.MakeTable(crc64.ECMA))
	case 10:
		x.check = sha256.New()
	default:
		return nil, nil, fmt.Errorf("%w: check %d", errors.ErrUnsupported, flags[1])
	}
	return x, func() {}, nil
}

// Read returns contents of the current block, or of the next one.
func (x *xzReader) Read(p []byte) (int, error) {
	for {
		if x.block == nil {
			if err := x.openBlock(); err != nil {
				return 0, err
			}
		}
		n, err := x.block.Read(p)
		_, _ = x.check.Write(p[:n]) // a hash never fails
		if errors.Is(err, io.EOF) {
			err = x.closeBlock()
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// openBlock reads the header of a block. It returns io.EOF at the index, behind the last block.
func (x *xzReader) openBlock() error {
	x.n = 0
	header := make([]byte, 1, 1024)
	if err := x.fill(header); err != nil {
		return err
	}
	if header[0] == 0 {
		return io.EOF
	}
	header = header[:4*(int(header[0])+1)]
	if err := x.fill(header[1:]); err != nil {
		return err
	}
	body := len(header) - crc32.Size
	if !isCRC32(header[:body], header[body:]) {
		return errXz
	}
	filters, err := parseFilters(header[1:body])
	if err != nil {
		return err
	}
	x.check.Reset()
	dict := max(min(filters.dict, x.limit), lzma.MinDictCap)
	if x.block, err = (lzma.Reader2Config{DictCap: int(dict)}).NewReader2(counted{x}); err != nil {
		return err
	}
	if filters.isX86 {
		x.block = newX86Reader(x.block)
	}
	return nil
}

// closeBlock reads the padding and the checksum of a block.
func (x *xzReader) closeBlock() error {
	x.block = nil
	padding := make([]byte, -x.n&3)
	sum := make([]byte, x.check.Size())
	if err := errors.Join(x.fill(padding), x.fill(sum)); err != nil {
		return err
	}
	want := x.check.Sum(nil)
	if x.check.Size() < sha256.Size {
		slices.Reverse(want) // the CRCs begin with the lowest byte
	}
	if !bytes.Equal(sum, want) {
		return fmt.Errorf("%w: wrong checksum", errXz)
	}
	return nil
}

// fill reads len(p) bytes.
func (x *xzReader) fill(p []byte) error {
	n, err := io.ReadFull(x.in, p)
	x.n += int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// counted reads the compressed bytes of a block.
type counted struct{ x *xzReader }

func (c counted) Read(p []byte) (int, error) {
	n, err := c.x.in.Read(p)
	c.x.n += int64(n)
	return n, err
}

// filters are the filters of a block. The last one is always LZMA2.
type filters struct {
	isX86 bool  // whether the x86 filter follows the LZMA2 decoder
	dict  int64 // size of the dictionary in bytes
}

// parseFilters parses the header of a block, without its length and checksum.
func parseFilters(header []byte) (f filters, err error) {
	flags, rest := header[0], header[1:]
	number := func() (v uint64) {
		v, width := binary.Uvarint(rest)
		if width <= 0 {
			err, width = errXz, 0
		}
		rest = rest[width:]
		return v
	}
	for _, flag := range []byte{0x40, 0x80} { // the compressed and the decompressed size follow
		if flags&flag != 0 {
			number()
		}
	}
	for i := range flags&3 + 1 {
		id, length := number(), number()
		if err != nil || length > uint64(len(rest)) {
			return f, errXz
		}
		properties := rest[:length]
		rest = rest[length:]
		isLast := i == flags&3
		switch {
		case id == filterX86 && !isLast && length == 0 && !f.isX86:
			f.isX86 = true
		case id == filterLZMA2 && isLast && length == 1 && properties[0] <= 40:
			// The lowest bit of the size selects 2 or 3, and the other bits the number of places
			// to shift it by.
			bits := int64(properties[0])
			f.dict = (2 | bits&1) << (bits/2 + 11)
		default:
			return f, fmt.Errorf("%w: filter %#x", errors.ErrUnsupported, id)
		}
	}
	if f.dict > maxWindow {
		return f, fmt.Errorf("%w: a dictionary of %d bytes", errors.ErrUnsupported, f.dict)
	}
	return f, nil
}

// isCRC32 reports whether sum is the CRC-32 of data, least significant byte first.
func isCRC32(data, sum []byte) bool {
	return crc32.ChecksumIEEE(data) == binary.LittleEndian.Uint32(sum)
}

// noHash is the checksum of streams without one.
type noHash struct{}

func (noHash) Write(p []byte) (int, error) { return len(p), nil }
func (noHash) Sum(b []byte) []byte         { return b }
func (noHash) Reset()                      {}
func (noHash) Size() int                   { return 0 }
func (noHash) BlockSize() int              { return 1 }
