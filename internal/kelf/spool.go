// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"compress/gzip"
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

	// maxSpool bounds what is written to disk for one file or section. The debug
	// information of a generic kernel takes a gigabyte.
	maxSpool = 8 << 30

	// zstdWindow bounds the memory of a decoder. zstd -19, which modules are compressed
	// with, needs 8 MiB, --ultra -22 128 MiB.
	zstdWindow = 128 << 20
)

// ErrTooLarge is returned for compressed data of more than 8 GiB.
var ErrTooLarge = errors.New("decompressed data exceeds 8 GiB")

// spools are the files that an ELF file is read from: itself, and temporary ones.
type spools []io.Closer

func (sp *spools) close() error {
	var errs []error
	for _, c := range *sp {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// decompress returns the ELF file that a file holds, by the ending of its name, and its
// size.
func (sp *spools) decompress(file *os.File) (io.ReaderAt, uint64, error) {
	var r io.Reader
	var err error
	switch filepath.Ext(file.Name()) {
	case ".gz":
		r, err = gzip.NewReader(file)
	case ".xz":
		r, err = xz.NewReader(file)
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

// spool reads r to its end: into memory, or into a temporary file if it is large. It
// returns what it read, and its size.
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
	if err := os.Remove(file.Name()); err != nil { // its memory goes when it is closed
		return nil, 0, err
	}
	n, err := io.Copy(file, io.LimitReader(io.MultiReader(bytes.NewReader(head), r), maxSpool+1))
	if err == nil && n > maxSpool {
		err = ErrTooLarge
	}
	return file, uint64(n), err
}
