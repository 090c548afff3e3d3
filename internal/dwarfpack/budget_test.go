// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// emptyAttributes returns a unit of DWARF 5 with so many functions, each of one byte and with
// so many attributes of a form.
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
	unit = append(unit, 0)
	info := append(binary.LittleEndian.AppendUint32(nil, uint32(len(unit))), unit...)
	s := &sections{
		info: memory{bytes.NewReader(info), ".debug_info"}, line: memory{bytes.NewReader(nil), ".debug_line"},
		tables: [numTables][]byte{tableAbbrev: abbrev}, order: binary.LittleEndian,
	}
	s.allow(uint64(len(info) + len(abbrev)))
	return s
}

// TestAttributesWithoutBytesAreWork verifies that a small file cannot have attributes read
// without end: those of some forms take no bytes of an entry.
func TestAttributesWithoutBytesAreWork(t *testing.T) {
	read := func(s *sections) error {
		_, err := build(s, allCode{}, pack.NewWriter(pack.Info{BuildID: "0123456789abcdef", Name: "vmlinux"}), nil)
		return err
	}
	for _, f := range []form{formFlagPresent, formImplicitConst} {
		require.NoError(t, read(emptyAttributes(1000, 1000, f)), "%v", f)
		assert.ErrorIs(t, read(emptyAttributes(100_000, 1000, f)), ErrTooMuch, "%v", f)
	}
}
