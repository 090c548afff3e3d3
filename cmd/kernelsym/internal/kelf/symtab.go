// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"debug/elf"
	"errors"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// A Symbol is an entry of the file's symbol table.
type Symbol struct {
	Name    []byte // valid as long as the table; cut off once it is too long for a kernel's
	Value   uint64 // an address, or the offset in the section of a module
	Size    uint64
	Section elf.SectionIndex
	Type    elf.SymType
	Bind    elf.SymBind
}

// A SymbolTable is a file's .symtab, in memory. It is immutable.
type SymbolTable struct {
	entries, names []byte
	file           *elf.File
}

// symbolLen is the size of an Elf64_Sym (elf(5)).
const symbolLen = 24

// ErrNoSymbols is returned for a file without a symbol table.
var ErrNoSymbols = errors.New("no symbol table (section .symtab)")

// SymbolTable reads the file's symbol table. The file does not keep it.
func (f *File) SymbolTable() (*SymbolTable, error) {
	s := f.elf.SectionByType(elf.SHT_SYMTAB)
	if s == nil || int(s.Link) >= len(f.elf.Sections) {
		return nil, ErrNoSymbols
	}
	entries, err := read(s)
	if err != nil {
		return nil, err
	}
	names, err := read(f.elf.Sections[s.Link])
	if err != nil {
		return nil, err
	}
	return &SymbolTable{entries: entries, names: names, file: f.elf}, nil
}

// Len returns the number of entries. The first one is empty.
func (t *SymbolTable) Len() int { return len(t.entries) / symbolLen }

// nameAt returns the offset in names at which the name of entry number i begins.
func (t *SymbolTable) nameAt(i int) int {
	return int(t.file.ByteOrder.Uint32(t.entries[i*symbolLen:]))
}

// At returns entry number i. It takes the same time for any name.
func (t *SymbolTable) At(i int) Symbol {
	e, order := t.entries[i*symbolLen:][:symbolLen], t.file.ByteOrder
	var name []byte
	if from := uint64(order.Uint32(e)); from < uint64(len(t.names)) {
		name = t.names[from:]
		name = name[:min(len(name), symtab.MaxNameLen+2)] // enough to recognize a longer one by its length
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
	}
	return Symbol{
		Name:    name,
		Type:    elf.ST_TYPE(e[4]),
		Bind:    elf.ST_BIND(e[4]),
		Section: elf.SectionIndex(order.Uint16(e[6:])),
		Value:   order.Uint64(e[8:]),
		Size:    order.Uint64(e[16:]),
	}
}
