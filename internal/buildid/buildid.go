// SPDX-License-Identifier: Apache-2.0

// Package buildid reads GNU build ids from ELF notes and makes file IDs of them.
//
// The kernel shows its own notes in /sys/kernel/notes and those of a module in
// /sys/module/NAME/notes, as they stand in the ELF file's note section: for each
// note the lengths of its name and description and its type, four bytes each in
// the byte order of the machine, then name and description, each padded to four
// bytes (elf(5), Elf64_Nhdr).
package buildid

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"
)

const (
	headerLen = 12
	align     = 4
	typeGNU   = 3 // NT_GNU_BUILD_ID of include/uapi/linux/elf.h
	ownerGNU  = "GNU\x00"

	// maxNotes bounds what is read. A kernel's notes take some hundred bytes.
	maxNotes = 1 << 16
	// maxID is the longest build id believed: that of a SHA-512.
	maxID = 64
)

// ErrNotFound says that there is no GNU build id in the notes.
var ErrNotFound = errors.New("no GNU build id in the notes")

// Parse returns the GNU build id in the notes as lower-case hex. The error wraps
// ErrNotFound if there are only other notes, and says so if they are cut off or
// malformed.
func Parse(r io.Reader) (string, error) { return ParseOrder(r, binary.NativeEndian) }

// ParseOrder is Parse for notes of another machine, in its byte order.
func ParseOrder(r io.Reader, order binary.ByteOrder) (string, error) {
	notes, err := io.ReadAll(io.LimitReader(r, maxNotes))
	if err != nil {
		return "", fmt.Errorf("reading notes: %w", err)
	}
	for len(notes) > 0 {
		if len(notes) < headerLen {
			return "", fmt.Errorf("note header of %d bytes: %w", len(notes), io.ErrUnexpectedEOF)
		}
		nameLen := order.Uint32(notes)
		descLen := order.Uint32(notes[4:])
		typ := order.Uint32(notes[8:])
		notes = notes[headerLen:]

		name, rest, err := cut(notes, nameLen)
		if err != nil {
			return "", fmt.Errorf("note name: %w", err)
		}
		desc, rest, err := cut(rest, descLen)
		if err != nil {
			return "", fmt.Errorf("note description: %w", err)
		}
		if typ == typeGNU && string(name) == ownerGNU && len(desc) > 0 && len(desc) <= maxID {
			return hex.EncodeToString(desc), nil
		}
		notes = rest
	}
	return "", ErrNotFound
}

// cut returns the first n bytes and what follows their padding, which the last
// note may lack.
func cut(b []byte, n uint32) (field, rest []byte, err error) {
	if uint64(n) > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%d bytes of %d: %w", len(b), n, io.ErrUnexpectedEOF)
	}
	padded := (uint64(n) + align - 1) &^ (align - 1)
	return b[:n], b[min(padded, uint64(len(b))):], nil
}

// FileIDLen is the length of a file ID.
const FileIDLen = 32

// FileID returns the module file ID of a build: the FNV-1a hash, 128 bits wide,
// of the build id as lower-case hex digits, itself as hex digits. The OTel eBPF
// profiler computes the same for the kernel and its modules. It is empty if the
// build id is.
func FileID(buildID string) string {
	if buildID == "" {
		return ""
	}
	return hash(strings.ToLower(buildID))
}

// SymbolFileID returns the file ID of code that has one symbol, by which the kernel
// knows it (see contract 4.3).
func SymbolFileID(symbol string) string { return hash(symbol) }

// LoadedFileID returns the file ID of a build, or of code that has one symbol, where it was
// loaded: one ID must not stand for addresses that differ from boot to boot (see contract 4.2).
func LoadedFileID(id string, base uint64) string {
	return hash(id + "@" + strconv.FormatUint(base, 16))
}

// hash returns the FNV-1a hash, 128 bits wide, as hex digits.
func hash(s string) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(s)) // a hash never fails
	var sum [FileIDLen / 2]byte
	var digits [FileIDLen]byte
	return string(hex.AppendEncode(digits[:0], h.Sum(sum[:0])))
}
