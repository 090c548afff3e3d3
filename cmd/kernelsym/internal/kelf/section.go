// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A Section is a section of debug information as it is meant to be read: decompressed,
// and in a module with its relocations applied. It is not safe for concurrent use.
type Section struct {
	name        string
	size        uint64
	data        io.ReaderAt
	relocations *relocations // nil if there are none
}

// Debug returns a section of debug information by its name without the prefix: "info" stands for
// .debug_info or .zdebug_info. The section is empty if the file does not have it. Errors name the
// section.
func (f *File) Debug(name string) (*Section, error) {
	var s *elf.Section
	for _, other := range f.elf.Sections {
		switch {
		case other.Name != ".debug_"+name && other.Name != ".zdebug_"+name || other.Type == elf.SHT_NOBITS:
		case s != nil: // several sections of type units, in a file that was not linked
			return nil, fmt.Errorf("%w: several sections %s", errors.ErrUnsupported, s.Name)
		default:
			s = other
		}
	}
	if s == nil {
		return &Section{name: ".debug_" + name}, nil
	}
	opened, err := f.debug(s)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	return opened, nil
}

// debug opens a section.
func (f *File) debug(s *elf.Section) (*Section, error) {
	if !isWithin(s, f.size) {
		return nil, fmt.Errorf("%w: the file ends before it", io.ErrUnexpectedEOF)
	}
	d := &Section{name: s.Name, size: s.FileSize, data: s.ReaderAt}
	var err error
	if s.Flags&elf.SHF_COMPRESSED != 0 || s.Name[1] == 'z' {
		d.data, d.size, err = f.spools.spool(s.Open())
	}
	if err != nil || f.elf.Type != elf.ET_REL {
		return d, err
	}
	of, err := relocationsOf(f.elf.Sections, s)
	if of == nil || err != nil {
		return d, err
	}
	if err := f.loadSymbols(); err != nil {
		return d, err
	}
	d.relocations, err = newRelocations(f.elf, f.symbols, of)
	return d, err
}

// isWithin reports whether a section lies within a file of size bytes.
func isWithin(s *elf.Section, size uint64) bool {
	return s.Offset <= size && s.FileSize <= size-s.Offset
}

// Name returns the section's name in the file.
func (s *Section) Name() string { return s.name }

// Size returns the size of the section in bytes.
func (s *Section) Size() uint64 { return s.size }

// ReadAt reads len(p) bytes from an offset on, as [io.ReaderAt] does.
func (s *Section) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || uint64(off) > s.size || uint64(len(p)) > s.size-uint64(off) {
		return 0, fmt.Errorf("section %s: %d bytes at %#x, beyond its end at %#x: %w",
			s.name, len(p), off, s.size, io.ErrUnexpectedEOF)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if n, err := s.data.ReadAt(p, off); n < len(p) {
		return n, fmt.Errorf("section %s: %w", s.name, err)
	}
	if s.relocations != nil {
		if err := s.relocations.apply(p, uint64(off)); err != nil {
			return 0, fmt.Errorf("section %s: %w", s.relocations.name, err)
		}
	}
	return len(p), nil
}

// ErrRelocation is returned for a relocation that debug information does not need.
var ErrRelocation = errors.New("unsupported relocation")

// relocationLen is the size of an Elf64_Rela (elf(5)).
const relocationLen = 24

// relocations are the relocations of one section, which are read in blocks along with it.
type relocations struct {
	name    string
	order   binary.ByteOrder
	machine elf.Machine
	symbols []uint64 // addresses by number
	data    io.ReaderAt
	n       int

	block      []byte
	blockFirst int // number of the first one in the block
}

// relocationsOf returns the section with the relocations of another, or nil if there is none.
func relocationsOf(sections []*elf.Section, of *elf.Section) (*elf.Section, error) {
	for _, s := range sections {
		if s.Type != elf.SHT_RELA && s.Type != elf.SHT_REL || int(s.Info) >= len(sections) ||
			sections[s.Info] != of || s.Size == 0 {
			continue
		}
		if s.Type == elf.SHT_REL {
			return nil, fmt.Errorf("%w: section %s is of type REL", ErrRelocation, s.Name)
		}
		return s, nil
	}
	return nil, nil //nolint:nilnil // a section without relocations is no error
}

// loadSymbols computes the addresses of a module's symbols.
func (f *File) loadSymbols() error {
	if f.symbols != nil {
		return nil
	}
	t, err := f.SymbolTable()
	if err != nil {
		return err
	}
	f.symbols = make([]uint64, t.Len())
	for i := range f.symbols {
		s := t.At(i)
		f.symbols[i], _ = f.symbolAddress(&s)
	}
	return nil
}
