// SPDX-License-Identifier: Apache-2.0

// Package buildid reads GNU build ids from ELF notes and derives file IDs from them.
//
// The kernel exposes its own notes in /sys/kernel/notes and a module's notes in
// /sys/module/NAME/notes, in the format of an ELF note section. For each note it has the
// lengths of the name and the description, and the type, four bytes each in the machine's byte
// order; then the name and the description, each padded to four bytes (elf(5), Elf64_Nhdr).
package buildid

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	headerLen = 12
	align     = 4
	typeGNU   = 3 // NT_GNU_BUILD_ID of include/uapi/linux/elf.h
	ownerGNU  = "GNU\x00"

	// maxNotes bounds the bytes that are read. A kernel's notes take a few hundred bytes.
	maxNotes = 1 << 16
	// maxID is the length in bytes of the longest build id that is accepted: a SHA-512 hash.
	maxID = 64
)

// ErrNotFound says that there is no GNU build id in the notes.
var ErrNotFound = errors.New("no GNU build id in the notes")

// OfKernel returns the build id of the running kernel. sysfs is where /sys is mounted. The error names the file.
func OfKernel(sysfs string) (string, error) {
	name := filepath.Join(sysfs, "kernel", "notes")
	notes, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer notes.Close()
	id, err := Parse(notes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}

// Parse returns the GNU build id in the notes as lower-case hex. The error wraps ErrNotFound if
// there are only other notes, and says so if the notes are truncated or malformed.
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

// cut returns the first n bytes and the bytes after their padding, which the last note may
// lack.
func cut(b []byte, n uint32) (field, rest []byte, err error) {
	if uint64(n) > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%d bytes of %d: %w", len(b), n, io.ErrUnexpectedEOF)
	}
	padded := (uint64(n) + align - 1) &^ (align - 1)
	return b[:n], b[min(padded, uint64(len(b))):], nil
}

// FileIDLen is the length of a file ID.
const FileIDLen = 32

// FileID returns the module file ID of a build: the 128-bit FNV-1a hash, in hex, of the build
// id in lower-case hex. The OTel eBPF profiler computes the same ID for the kernel and its
// modules. The file ID of an empty build id is empty.
func FileID(buildID string) string {
	if buildID == "" {
		return ""
	}
	return hash(strings.ToLower(buildID))
}

// ContentFileID returns the file ID of code without a build id, given a text that identifies its content (see contract
// 4.3).
func ContentFileID(content string) string { return hash(content) }

// LoadedFileID returns the file ID of a build, or of code with a content, at the address where it was loaded: one ID must
// not stand for addresses that differ from boot to boot (see contract 4.2).
func LoadedFileID(id string, base uint64) string {
	return hash(id + "@" + strconv.FormatUint(base, 16))
}

// hash returns the 128-bit FNV-1a hash in hex.
func hash(s string) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(s)) // a hash never fails
	var sum [FileIDLen / 2]byte
	var digits [FileIDLen]byte
	return string(hex.AppendEncode(digits[:0], h.Sum(sum[:0])))
}
