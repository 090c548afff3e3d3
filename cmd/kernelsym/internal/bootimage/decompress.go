// SPDX-License-Identifier: Apache-2.0

package bootimage

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// A compression is a format of compressed data.
type compression struct {
	name   string
	magics []string
	// open returns a reader of the decompressed contents, and a function that frees its memory. At most
	// limit bytes will be read.
	open func(r io.Reader, limit int64) (content io.Reader, free func(), err error)
	// isSized is whether the format ends with the size of the contents, as a kernel expects.
	isSized bool
}

var compressions = []compression{
	{"gzip", []string{"\x1f\x8b"}, openGzip, true},
	{"xz", []string{xzMagic}, openXz, false},
	{"zstd", []string{"\x28\xb5\x2f\xfd"}, openZstd, false},
	{"lz4", []string{"\x04\x22\x4d\x18", "\x02\x21\x4c\x18"}, openLz4, false}, // frames, legacy frames
}

// compressionOf returns the format of data that begins with head, or nil.
func compressionOf(head []byte) *compression {
	for i, c := range compressions {
		for _, magic := range c.magics {
			if hasAt(head, 0, magic) {
				return &compressions[i]
			}
		}
	}
	return nil
}

func isCompressed(head []byte) bool { return compressionOf(head) != nil }

func openCompressed(l layer, head []byte) (layer, error) {
	return compressionOf(head).unpack(l, unknownSize)
}

func openGzip(r io.Reader, _ int64) (io.Reader, func(), error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, nil, err
	}
	z.Multistream(false)
	return z, func() {}, nil
}

// maxWindow is the largest window, in bytes, of the decompressors: that of zstd --ultra -22. They use
// no more of it than the contents need.
const maxWindow = 128 << 20

func openZstd(r io.Reader, _ int64) (io.Reader, func(), error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

func openLz4(r io.Reader, _ int64) (io.Reader, func(), error) {
	return lz4.NewReader(r), func() {}, nil
}

// sizeLen is the length of the size that follows the compressed kernel in its container, least
// significant byte first.
const sizeLen = 4

// openSized returns the contents of a compressed kernel that the size of the contents follows.
func openSized(l layer) (layer, error) {
	tail, err := l.part(l.Size()-sizeLen, sizeLen)
	if err != nil {
		return layer{}, err
	}
	head, size := make([]byte, min(headLen, l.Size())), make([]byte, sizeLen)
	_, headErr := io.ReadFull(l, head)
	_, sizeErr := io.ReadFull(tail, size)
	if err := errors.Join(headErr, sizeErr); err != nil {
		return layer{}, err
	}
	c := compressionOf(head)
	if c == nil {
		return layer{}, fmt.Errorf("%w: its kernel is not compressed with gzip, xz, zstd or lz4", errors.ErrUnsupported)
	}
	if !c.isSized {
		if l, err = l.part(0, l.Size()-sizeLen); err != nil {
			return layer{}, err
		}
	}
	return c.unpack(l, int64(binary.LittleEndian.Uint32(size)))
}

// unknownSize is the size of contents that nothing states.
const unknownSize = -1

// unpack decompresses a layer whose contents have size bytes, or unknownSize. To measure it takes
// time, but no memory, whereas a growing buffer would take up to twice the size.
func (c *compression) unpack(l layer, size int64) (layer, error) {
	if size == unknownSize {
		var err error
		if size, err = c.copy(io.Discard, l, MaxSize); err != nil {
			return layer{}, err
		}
		debug.FreeOSMemory()
	}
	if size > MaxSize {
		return layer{}, ErrTooLarge
	}
	// The buffer never grows, and takes memory only as it is written to.
	data := bytes.NewBuffer(make([]byte, 0, size+1+bytes.MinRead))
	n, err := c.copy(data, l, size)
	debug.FreeOSMemory() // a decompressor can have taken as much as the contents
	switch {
	case err != nil:
		return layer{}, err
	case n < size:
		return layer{}, fmt.Errorf("%s: %w: %d bytes instead of %d", c.name, ErrDamaged, n, size)
	case n > size:
		return layer{}, fmt.Errorf("%s: %w: more than %d bytes", c.name, ErrDamaged, size)
	}
	return layer{io.NewSectionReader(bytes.NewReader(data.Bytes()), 0, size), data.Bytes()}, nil
}

// copy decompresses a layer to w and returns the number of bytes, which is at most limit+1.
func (c *compression) copy(w io.Writer, l layer, limit int64) (int64, error) {
	content, free, err := c.open(bufio.NewReaderSize(io.NewSectionReader(l, 0, l.Size()), 1<<16), limit)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w", c.name, ErrDamaged, err)
	}
	defer free()
	n, err := io.Copy(w, io.LimitReader(content, limit+1))
	if err != nil {
		err = fmt.Errorf("%s: %w: %w", c.name, ErrDamaged, err)
	}
	return n, err
}
