// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

const (
	// inMemory is the size in bytes up to which decompressed data is kept in memory.
	inMemory = 8 << 20

	// maxSpool bounds the number of bytes written to disk for one file or section. The
	// debug information of a generic kernel takes a gigabyte.
	maxSpool = 8 << 30

	// zstdWindow bounds the memory of a zstd decoder. Modules are compressed with zstd -19,
	// which needs 8 MiB; --ultra -22 needs 128 MiB.
	zstdWindow = 128 << 20
)

// maxXzDict bounds the memory of an xz decoder. xz -9 needs 64 MiB.
const maxXzDict = 128 << 20

// errXzDict is returned for a dictionary that is larger than any kernel's file needs.
var errXzDict = fmt.Errorf("%w: a dictionary of more than %d bytes", errors.ErrUnsupported, maxXzDict)

// ErrTooLarge is returned for compressed data of more than 8 GiB.
var ErrTooLarge = errors.New("decompressed data exceeds 8 GiB")

// spools are the open files behind an ELF file: the file itself, and temporary ones.
type spools []io.Closer

func (sp *spools) close() error {
	var errs []error
	for _, c := range *sp {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// decompress returns the ELF file in a file, and its size. The extension of the file's name
// determines the compression.
func (sp *spools) decompress(file *os.File) (io.ReaderAt, uint64, error) {
	var r io.Reader
	var err error
	switch filepath.Ext(file.Name()) {
	case ".gz":
		r, err = gzip.NewReader(file)
	case ".xz":
		if err = checkXz(file); err == nil {
			r, err = xz.NewReader(file)
		}
	case ".zst":
		var d *zstd.Decoder
		d, err = zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
		if err == nil {
			defer d.Close()
		}
		r = d
	default:
		stat, err := file.Stat()
		if err != nil {
			return nil, 0, err
		}
		return file, uint64(stat.Size()), nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("decompressing: %w", err)
	}
	at, size, err := sp.spool(r)
	if err != nil {
		return nil, 0, fmt.Errorf("decompressing: %w", err)
	}
	return at, size, nil
}

// checkXz rejects an xz file whose first block needs too large a dictionary, because the decoder
// would allocate it at once. It leaves malformed files for the decoder to reject.
func checkXz(file io.ReaderAt) error {
	const streamHeader, longest = 12, 1024 // bytes
	block := make([]byte, longest)
	n, err := file.ReadAt(block, streamHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	block = block[:n]
	if n < 2 {
		return nil
	}
	pos := 2
	number := func() uint64 {
		v, width := binary.Uvarint(block[min(pos, n):])
		pos += max(width, 1)
		return v
	}
	for _, flag := range []byte{0x40, 0x80} { // flags for the sizes in the block header
		if block[1]&flag != 0 {
			number()
		}
	}
	for range block[1]&3 + 1 {
		const lzma2 = 0x21
		filter, properties := number(), number()
		// The lowest bit of the size selects 2 or 3, and the other bits the number of places to
		// shift it by.
		if filter == lzma2 && pos < n {
			if bits := uint64(block[pos]); (2|bits&1)<<(bits/2+11) > maxXzDict {
				return errXzDict
			}
		}
		pos += int(min(properties, longest))
	}
	return nil
}

// spool reads r to its end, into memory or, if it is large, into a temporary file. It returns the
// data and its size.
func (sp *spools) spool(r io.Reader) (io.ReaderAt, uint64, error) {
	head, err := io.ReadAll(io.LimitReader(r, inMemory))
	if err != nil || len(head) < inMemory {
		return bytes.NewReader(head), uint64(len(head)), err
	}
	file, err := os.CreateTemp("", "kernelsym-*")
	if err != nil {
		return nil, 0, err
	}
	*sp = append(*sp, file)
	if err := os.Remove(file.Name()); err != nil { // its space is freed when it is closed
		return nil, 0, err
	}
	n, err := io.Copy(file, io.LimitReader(io.MultiReader(bytes.NewReader(head), r), maxSpool+1))
	if err == nil && n > maxSpool {
		err = ErrTooLarge
	}
	return file, uint64(n), err
}
