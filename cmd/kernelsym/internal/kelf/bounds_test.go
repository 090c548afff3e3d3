// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// oneSection returns a file of 8 bytes with a section at address 0x1000 that claims to have the
// given size.
func oneSection(size uint64) *File {
	const fileLen = 8
	header := elf.SectionHeader{
		Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000, Size: size, FileSize: size,
	}
	return &File{
		elf: &elf.File{
			FileHeader: elf.FileHeader{ByteOrder: binary.LittleEndian},
			Sections:   []*elf.Section{{}, {SectionHeader: header, ReaderAt: bytes.NewReader(make([]byte, fileLen))}},
		},
		size: fileLen,
	}
}

// sameName returns the table of n functions that share a name.
func sameName(f *File, n int, names []byte) *SymbolTable {
	var entries []byte
	for i := range n {
		entries = append(entries, 0, 0, 0, 0, byte(elf.STT_FUNC), 0, 1, 0)
		entries = binary.LittleEndian.AppendUint64(entries, 0x1000+uint64(i))
		entries = binary.LittleEndian.AppendUint64(entries, 1)
	}
	return &SymbolTable{entries: entries, names: names, file: f.elf}
}

// TestNamesAreBounded verifies that symbols which share one name, as long as the file, do not each
// copy all of it. A reader can still recognize that the name is too long.
func TestNamesAreBounded(t *testing.T) {
	f := oneSection(8)
	for what, names := range map[string][]byte{
		"with an end":    append(bytes.Repeat([]byte("a"), 1<<16), 0),
		"without an end": bytes.Repeat([]byte("a"), 1<<16),
	} {
		table := sameName(f, 1000, names)
		name := table.At(999).Name
		assert.Greater(t, len(name), symtab.MaxNameLen, what)
		assert.LessOrEqual(t, len(name), symtab.MaxNameLen+2, what)
		list, err := sortedList(f.elf, table)
		require.NoError(t, err)
		assert.Len(t, list, 1000*(lineLen+len(name)), what)
	}
	table := sameName(f, 1, append(bytes.Repeat([]byte("a"), symtab.MaxNameLen), 0))
	assert.Len(t, table.At(0).Name, symtab.MaxNameLen, "the longest that is right is whole")
}

// TestListTooLargeIsRefused verifies that symbols whose names add up to more than a kernel's do not
// use unbounded memory.
func TestListTooLargeIsRefused(t *testing.T) {
	f := oneSection(8)
	n := maxSmall/(symtab.MaxNameLen+lineLen) + 1
	_, err := sortedList(f.elf, sameName(f, n, append(bytes.Repeat([]byte("a"), symtab.MaxNameLen), 0)))
	require.ErrorContains(t, err, "the names of the symbols")
}

// TestOwnListTooLargeIsRefused verifies the same for the kernel's own list, in which a few bytes
// can stand for long names.
func TestOwnListTooLargeIsRefused(t *testing.T) {
	const long = 511
	n := maxSmall/(long+lineLen) + 3
	l := &ownList{order: binary.LittleEndian, num: n, index: make([]byte, 512), offsets: make([]byte, 4*n)}
	for i, token := range []string{"T", "_stext", "_etext", string(bytes.Repeat([]byte("a"), long))} {
		binary.LittleEndian.PutUint16(l.index[2*i:], uint16(len(l.tokens)))
		l.tokens = append(append(l.tokens, token...), 0)
	}
	l.names = append([]byte{2, 0, 1, 2, 0, 2}, bytes.Repeat([]byte{2, 0, 3}, n-2)...)
	for i := range n {
		binary.LittleEndian.PutUint32(l.offsets[4*i:], uint32(i))
	}
	_, err := l.print(anchor{"_stext", 0x1000}, anchor{"_etext", 0x1001})
	require.ErrorIs(t, err, errLargeList)
}

// TestXzDictionaryIsBounded verifies that the header of a small file cannot cause an allocation of
// gigabytes. The first block follows the 12 bytes of the stream's header.
func TestXzDictionaryIsBounded(t *testing.T) {
	for what, test := range map[string]struct {
		block []byte
		want  error
	}{
		"128 MiB":            {[]byte{2, 0, 0x21, 1, 30}, nil},
		"192 MiB":            {[]byte{2, 0, 0x21, 1, 31}, errXzDict},
		"4 GiB":              {[]byte{2, 0, 0x21, 1, 40}, errXzDict},
		"behind sizes":       {[]byte{4, 0xc0, 0x80, 1, 0x80, 0x80, 1, 0x21, 1, 40}, errXzDict},
		"behind x86's":       {[]byte{3, 1, 4, 0, 0x21, 1, 40}, errXzDict},
		"cut off":            {[]byte{2, 0, 0x21, 1}, nil},
		"nothing":            {nil, nil},
		"properties to skip": {[]byte{3, 1, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, nil},
	} {
		assert.Equal(t, test.want, checkXz(bytes.NewReader(append(make([]byte, 12), test.block...))), what)
	}
	name := filepath.Join(t.TempDir(), "vmlinux.xz")
	require.NoError(t, os.WriteFile(name, append([]byte("\xfd7zXZ\x00\x00\x01\x69\x22\xde\x36"), 2, 0, 0x21, 1, 40), 0o600))
	_, err := Open(name)
	require.ErrorIs(t, err, errXzDict)
}

// TestReadAtAllocatesNoMoreThanTheFileHas verifies that a file of a few bytes that claims a section
// of any size is rejected before memory is allocated for it.
func TestReadAtAllocatesNoMoreThanTheFileHas(t *testing.T) {
	data, err := oneSection(8).readAt(0x1002, 6)
	require.NoError(t, err)
	assert.Len(t, data, 6)
	for _, test := range []struct {
		section uint64
		size    int
	}{
		{8, 9}, {9, 1}, {math.MaxInt64, math.MaxInt}, {math.MaxUint64 - 0x1000, -0x2000},
	} {
		_, err := oneSection(test.section).readAt(0x1000, test.size)
		assert.ErrorContains(t, err, "does not hold", "%+v", test)
	}
}
