// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
)

// The errors of [Build] for debug information that cannot be read.
var (
	// ErrNoDebugInfo is returned for a file without debug information.
	ErrNoDebugInfo = errors.New("no debug information (section .debug_info)")

	// ErrUnsupported is returned for features that have not been seen in any kernel's debug
	// information.
	ErrUnsupported = errors.New("unsupported debug information")

	// ErrMalformed is returned for debug information that contradicts itself.
	ErrMalformed = errors.New("malformed debug information")

	// ErrTooMuch is returned for debug information that refers to itself so often that
	// reading it takes far more work than its size.
	ErrTooMuch = errors.New("debug information takes too much work to read")
)

// errShort is returned for data that ends too early.
var errShort = fmt.Errorf("%w: cut off", ErrMalformed)

// A table is a section of debug information that is in memory while a file is read.
type table int

const (
	tableAbbrev table = iota
	tableStr
	tableLineStr
	tableStrOffsets
	tableAddr
	tableRanges
	tableRnglists
	numTables
)

// maxRecords bounds the number of functions, ranges and lines in a unit, and the number of units
// and rows in a kernel. It is several times their number in all units of the largest kernel.
const maxRecords = 1 << 24

// errRecords is returned if there are more.
var errRecords = fmt.Errorf("%w: more than %d units, functions, ranges, or lines", ErrTooMuch, maxRecords)

var tableNames = [numTables]string{"abbrev", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists"}

// maxTable bounds the size in bytes of a table, of a unit and of its line table. The largest
// table of a vmlinux has 6 MB.
const maxTable = 1 << 30

// A section is a section that is not in memory, such as a [kelf.Section].
type section interface {
	io.ReaderAt
	Name() string
	Size() uint64
}

// sections are the sections of debug information of a file.
type sections struct {
	info, line section
	tables     [numTables][]byte
	order      binary.ByteOrder
	work       int64 // number of bytes that may still be read
	kept       int   // approximate number of bytes of units and line tables in memory
	outOfTree  bool  // the file is a module outside of the kernel tree
}

// openSections opens the sections, and loads the tables among them.
func openSections(f *kelf.File) (*sections, error) {
	inTree, err := f.IsInTree()
	if err != nil {
		return nil, err
	}
	s := &sections{order: f.ELF().ByteOrder, outOfTree: !inTree}
	if s.info, err = f.Debug("info"); err != nil {
		return nil, err
	}
	if s.info.Size() == 0 {
		return nil, ErrNoDebugInfo
	}
	if s.line, err = f.Debug("line"); err != nil {
		return nil, err
	}
	size := s.info.Size() + s.line.Size()
	for t, name := range tableNames {
		section, err := f.Debug(name)
		if err != nil {
			return nil, err
		}
		if section.Size() > maxTable {
			return nil, fmt.Errorf("section %s: %w: %d bytes", section.Name(), ErrUnsupported, section.Size())
		}
		s.tables[t] = make([]byte, section.Size())
		if _, err := section.ReadAt(s.tables[t], 0); err != nil {
			return nil, err
		}
		size += section.Size()
	}
	s.allow(size)
	return s, nil
}

// allow sets the number of bytes that may be read from sections of a total size. Kernels take 1.1
// times their size.
func (s *sections) allow(size uint64) { s.work = 8<<20 + 16*int64(size) }

// spend accounts for reading n bytes, or n attributes of entries.
func (s *sections) spend(n uint64) error {
	if n > uint64(s.work) {
		s.work = 0
		return ErrTooMuch
	}
	s.work -= int64(n)
	return nil
}

// at returns a reader of a table from an offset on.
func (s *sections) at(t table, off uint64) (*reader, error) {
	if off > uint64(len(s.tables[t])) {
		return nil, fmt.Errorf("%w: %#x is beyond the end of .debug_%s", ErrMalformed, off, tableNames[t])
	}
	return &reader{data: s.tables[t], pos: int(off), order: s.order}, nil
}

// maxString is the largest plausible length of a name or path, in bytes.
const maxString = 4 << 10

// stringAt returns the string at an offset of a table.
func (s *sections) stringAt(t table, off uint64) (string, error) {
	data := s.tables[t]
	if off >= uint64(len(data)) {
		return "", fmt.Errorf("%w: %#x is beyond the end of .debug_%s", ErrMalformed, off, tableNames[t])
	}
	data = data[off:min(off+maxString, uint64(len(data)))]
	n := bytes.IndexByte(data, 0)
	if n < 0 {
		return "", fmt.Errorf("%w: no end of the string at %#x of .debug_%s", ErrMalformed, off, tableNames[t])
	}
	return string(data[:n]), s.spend(uint64(n))
}

// string returns the string that a value stands for. data has the value: it is the unit or its line
// table.
func (u *unit) string(data []byte, v value) (string, error) {
	switch v.form {
	case formString:
		r := reader{data: data[:min(v.v+maxString, uint64(len(data)))], pos: int(v.v)}
		text := r.string()
		if r.short {
			return "", errShort
		}
		return string(text), u.sections.spend(uint64(len(text)))
	case formStrp:
		return u.sections.stringAt(tableStr, v.v)
	case formLineStrp:
		return u.sections.stringAt(tableLineStr, v.v)
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4:
		off, err := u.sections.indexed(tableStrOffsets, u.root.number(slotStrOffsetsBase), v.v, u.format.offsetSize())
		if err != nil {
			return "", err
		}
		return u.sections.stringAt(tableStr, off)
	}
	return "", fmt.Errorf("%w: %v of a string", ErrUnsupported, v.form)
}

// indexed returns entry number i of the array of offsets or addresses that begins at base in a
// table.
func (s *sections) indexed(t table, base, i, size uint64) (uint64, error) {
	if n := uint64(len(s.tables[t])); base > n || i > n {
		return 0, fmt.Errorf("%w: %d behind %#x is beyond the end of .debug_%s", ErrMalformed, i, base, tableNames[t])
	}
	r, err := s.at(t, base+i*size)
	if err != nil {
		return 0, err
	}
	v := r.uint(size)
	if r.short {
		return 0, errShort
	}
	return v, nil
}
