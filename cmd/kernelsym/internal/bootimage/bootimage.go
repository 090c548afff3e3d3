// SPDX-License-Identifier: Apache-2.0

// Package bootimage unpacks the files from which machines boot Linux, down to the kernel as it is
// loaded: an ELF file on most architectures, a raw image on arm64.
//
// The files are containers, one inside the other. An x86 kernel in a unified kernel image, for
// example, is an ELF file, in a zstd frame, in a bzImage, in a section of a PE file. Each layer is
// recognized by its contents, so names do not matter.
package bootimage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// MaxSize is the size in bytes up to which images are unpacked. Kernels of distributions take up to
// 100 MB, and with debug information 400 MB.
const MaxSize = 512 << 20

// The errors of Unpack, which it wraps.
var (
	// ErrNotImage is returned for a file that is none of the known containers.
	ErrNotImage = errors.New("not a boot image: neither bzImage, arm64 Image, EFI zboot, unified kernel image, " +
		"gzip, xz, zstd, lz4 nor ELF")
	// ErrTooLarge is returned for an image of more than MaxSize bytes.
	ErrTooLarge = fmt.Errorf("the unpacked image exceeds %d MiB", MaxSize>>20)
	// ErrDamaged is returned for a container that contradicts itself.
	ErrDamaged = errors.New("damaged boot image")
)

// A layer is the contents of a container.
type layer struct {
	*io.SectionReader
	unpacked []byte // the same in memory, if it was compressed
}

// A kind is a format of containers.
type kind struct {
	name   string
	begins func(head []byte) bool // whether a layer that begins with head is of this kind
	open   func(l layer, head []byte) (layer, error)
}

const (
	// headLen is the number of bytes by which a layer is recognized. It covers the header of a
	// bzImage.
	headLen = 0x250
	// maxLayers bounds the depth: a compressed unified kernel image with a compressed zboot image has
	// five layers.
	maxLayers = 6
)

// kinds are the formats. Since all of the first three can be EFI programs, the most general is last.
var kinds = []kind{
	{"bzImage", isBzImage, openBzImage},
	{"EFI zboot", isZboot, openZboot},
	{"unified kernel image", isPE, openUKI},
	{"compressed file", isCompressed, openCompressed},
}

// Unpack returns the kernel in a file of size bytes, for which [IsELF] or [IsArm64] is true. It does not
// check the kernel further. A compressed kernel takes its own size in memory, and about the same again
// while it is decompressed. Unpack can be called concurrently.
func Unpack(file io.ReaderAt, size int64) ([]byte, error) {
	l := layer{SectionReader: io.NewSectionReader(file, 0, size)}
	for range maxLayers {
		head := make([]byte, min(headLen, l.Size()))
		if _, err := l.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if IsELF(head) || IsArm64(head) {
			return l.read()
		}
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.begins(head) })
		if i < 0 {
			return nil, ErrNotImage
		}
		inner, err := kinds[i].open(l, head)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kinds[i].name, err)
		}
		l = inner
	}
	return nil, fmt.Errorf("%w: more than %d containers in one another", ErrNotImage, maxLayers)
}

// read returns the bytes of a layer.
func (l layer) read() ([]byte, error) {
	switch {
	case l.unpacked != nil:
		return l.unpacked, nil
	case l.Size() > MaxSize:
		return nil, ErrTooLarge
	}
	data := make([]byte, l.Size())
	_, err := io.ReadFull(l, data)
	return data, err
}

// part returns the n bytes at an offset of a layer.
func (l layer) part(off, n int64) (layer, error) {
	if off < 0 || n < 0 || off > l.Size() || n > l.Size()-off {
		return layer{}, fmt.Errorf("%w: %d bytes at %#x, of %d", ErrDamaged, n, off, l.Size())
	}
	return layer{SectionReader: io.NewSectionReader(l, off, n)}, nil
}

// IsELF reports whether data begins as an ELF file does.
func IsELF(data []byte) bool { return bytes.HasPrefix(data, []byte("\x7fELF")) }

// IsArm64 reports whether data begins as the raw image of an arm64 kernel does
// (Documentation/arch/arm64/booting.rst).
func IsArm64(data []byte) bool { return hasAt(data, 56, "ARM\x64") }

func hasAt(data []byte, off int, text string) bool {
	return len(data) >= off && bytes.HasPrefix(data[off:], []byte(text))
}
