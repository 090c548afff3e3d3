// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// emptyAttributes returns a unit of DWARF 5 with a number of functions. Each takes one byte and has
// a number of attributes of a form.
func emptyAttributes(functions, attributes int, f form) *sections {
	abbrev := []byte{1, 0x11, 1, 0, 0} // DW_TAG_compile_unit with children
	abbrev = append(abbrev, 2, 0x2e, 0)
	for range attributes {
		abbrev = append(abbrev, 0x3f, byte(f)) // DW_AT_external
		if f == formImplicitConst {
			abbrev = append(abbrev, 1)
		}
	}
	abbrev = append(abbrev, 0, 0, 0)

	unit := []byte{5, 0, unitCompile, addrSize, 0, 0, 0, 0, 1}
	unit = append(unit, bytes.Repeat([]byte{2}, functions)...)
	return sectionsOf(append(unit, 0), nil, [numTables][]byte{tableAbbrev: abbrev})
}

// sectionsOf returns sections with one unit and one line table, both given without their length.
func sectionsOf(unit, lines []byte, tables [numTables][]byte) *sections {
	info := append(binary.LittleEndian.AppendUint32(nil, uint32(len(unit))), unit...)
	line := append(binary.LittleEndian.AppendUint32(nil, uint32(len(lines))), lines...)
	s := &sections{
		info: memory{bytes.NewReader(info), ".debug_info"}, line: memory{bytes.NewReader(line), ".debug_line"},
		tables: tables, order: binary.LittleEndian,
	}
	size := len(info) + len(line)
	for _, table := range tables {
		size += len(table)
	}
	s.allow(uint64(size))
	return s
}

func read(s *sections) error {
	_, err := build(s, allCode{}, pack.NewWriter(pack.Info{BuildID: "0123456789abcdef", Name: "vmlinux"}), nil)
	return err
}

// TestAttributesWithoutBytesAreWork verifies that a small file cannot make the package read
// attributes without end. Attributes of some forms take no bytes in an entry.
func TestAttributesWithoutBytesAreWork(t *testing.T) {
	for _, f := range []form{formFlagPresent, formImplicitConst} {
		require.NoError(t, read(emptyAttributes(1000, 1000, f)), "%v", f)
		assert.ErrorIs(t, read(emptyAttributes(100_000, 1000, f)), ErrTooMuch, "%v", f)
	}
}

// unitWithLines returns a unit of DWARF 4 that was compiled in a directory.
func unitWithLines(comp string) (unit, abbrev []byte) {
	abbrev = []byte{1, 0x11, 0, 0x10, 0x17, 0x1b, 0x08, 0, 0, 0} // DW_AT_stmt_list, DW_AT_comp_dir
	unit = []byte{4, 0, 0, 0, 0, 0, addrSize, 1, 0, 0, 0, 0}
	return append(append(unit, comp...), 0), abbrev
}

// lineTable returns a line table of DWARF 4 with its directories and files, and a program.
func lineTable(entries, program []byte) []byte {
	header := append([]byte{1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}, entries...)
	t := binary.LittleEndian.AppendUint32([]byte{4, 0}, uint32(len(header)))
	return append(append(t, header...), program...)
}

// manyFiles returns a unit with n files in one directory with a long name, and with code from each
// of them.
func manyFiles(n int) *sections {
	entries := append([]byte(strings.Repeat("d", 4000)), 0, 0)
	program := append([]byte{0, 9, 2}, binary.LittleEndian.AppendUint64(nil, 0x1000)...)
	for i := range n {
		entries = append(append(entries, fmt.Sprintf("%x", i)...), 0, 1, 0, 0)
		program = append(binary.AppendUvarint(append(program, opSetFile), uint64(i+1)), opCopy, opAdvancePC, 1)
	}
	unit, abbrev := unitWithLines("/")
	return sectionsOf(unit, lineTable(append(entries, 0), append(program, 0, 1, 1)), [numTables][]byte{tableAbbrev: abbrev})
}

// manyDirectories returns a unit with n directories, which was compiled in a directory with a long
// name.
func manyDirectories(n int) *sections {
	unit, abbrev := unitWithLines(strings.Repeat("/d", 2000))
	entries := append(bytes.Repeat([]byte{'a', 0}, n), 0, 0)
	return sectionsOf(unit, lineTable(entries, nil), [numTables][]byte{tableAbbrev: abbrev})
}

// TestPathsAreWork verifies that a small file cannot make the package build long paths without end.
func TestPathsAreWork(t *testing.T) {
	require.NoError(t, read(manyFiles(1000)))
	require.ErrorIs(t, read(manyFiles(10_000)), ErrTooMuch)
	require.NoError(t, read(manyDirectories(1000)))
	require.ErrorIs(t, read(manyDirectories(10_000)), ErrTooMuch)
}

// TestRangesAreCounted verifies that one function cannot have ranges without end.
func TestRangesAreCounted(t *testing.T) {
	abbrev := []byte{1, 0x11, 1, 0, 0, 2, 0x2e, 0, 0x55, 0x17, 0, 0, 0} // DW_AT_ranges of a function
	functions := []byte{1, 2, 0, 0, 0, 0, 0}
	n := maxRecords + 2
	for _, s := range []*sections{
		sectionsOf(append([]byte{5, 0, unitCompile, addrSize, 0, 0, 0, 0}, functions...), nil, [numTables][]byte{
			tableAbbrev: abbrev, tableRnglists: append(bytes.Repeat([]byte{rangeOffsetPair, 0, 1}, n), rangeEnd),
		}),
		sectionsOf(append([]byte{4, 0, 0, 0, 0, 0, addrSize}, functions...), nil, [numTables][]byte{
			tableAbbrev: abbrev, tableRanges: append(bytes.Repeat([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, n), make([]byte, 16)...),
		}),
	} {
		require.ErrorIs(t, read(s), errRecords)
	}
}

// TestFilesAreCounted verifies that a line table cannot have files and directories without end.
func TestFilesAreCounted(t *testing.T) {
	n := maxFiles + 2
	for what, entries := range map[string][]byte{
		"directories": append(bytes.Repeat([]byte{'a', 0}, n), 0, 0),
		"files":       append(append([]byte{0}, bytes.Repeat([]byte{'a', 0, 0, 0, 0}, n)...), 0),
	} {
		unit, abbrev := unitWithLines("/")
		require.ErrorIs(t, read(sectionsOf(unit, lineTable(entries, nil), [numTables][]byte{tableAbbrev: abbrev})), errFiles, what)
	}
	unit, abbrev := unitWithLines("/")
	header := binary.AppendUvarint([]byte{1, 1, 1, 0xfb, 14, 1, 1, contentPath, byte(formData1)}, uint64(n))
	table := binary.LittleEndian.AppendUint32([]byte{5, 0, addrSize, 0}, uint32(len(header)+n))
	table = append(append(table, header...), make([]byte, n)...)
	assert.ErrorIs(t, read(sectionsOf(unit, table, [numTables][]byte{tableAbbrev: abbrev})), errFiles, "of DWARF 5")
}

// TestFunctionWithoutName verifies that a function without a name does not spoil a pack.
func TestFunctionWithoutName(t *testing.T) {
	abbrev := []byte{1, 0x11, 1, 0, 0, 2, 0x2e, 0, 0x11, 0x01, 0x12, 0x07, 0, 0, 0} // DW_AT_low_pc, DW_AT_high_pc
	unit := []byte{4, 0, 0, 0, 0, 0, addrSize, 1, 2}
	unit = binary.LittleEndian.AppendUint64(unit, 0x1000)
	unit = binary.LittleEndian.AppendUint64(unit, 0x10)
	unit = append(unit, 0)
	w := pack.NewWriter(pack.Info{BuildID: "0123456789abcdef", Name: "vmlinux", Arch: "amd64", Extent: pack.Range{End: 1<<32 - 1}})
	_, err := build(sectionsOf(unit, nil, [numTables][]byte{tableAbbrev: abbrev}), allCode{}, w, nil)
	require.NoError(t, err)
	_, err = w.Bytes()
	require.NoError(t, err)
}
