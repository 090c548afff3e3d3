// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"debug/elf"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/kmod"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Symbols returns the symbols as a kernel that runs the file's code lists them
// (see contract 3.1 to 3.3), together with the matching description. The error wraps ErrNoSymbols
// for a file that has no symbol table. A module without code has no symbols.
func (f *File) Symbols() (pack.Info, []pack.Symbol, error) {
	info := f.info
	load, start := moduleImage, uint64(moduleStart)
	if !f.IsModule() {
		load, start = coreImage, f.areas[0].start
	}
	m, err := load(f)
	if err != nil || m == nil {
		return info, nil, err
	}
	return info, Describe(m, start, &info), nil
}

// Describe returns the symbols of an image whose code begins at start. It also sets the extent, the
// base and the marks in info, which the image has more precisely.
func Describe(m *timeline.Image, start uint64, info *pack.Info) []pack.Symbol {
	at := func(r symtab.Range) pack.Range {
		if r == (symtab.Range{}) {
			return pack.Range{}
		}
		return pack.Range{Start: uint32(r.Start - start), End: uint32(r.End - start)}
	}
	info.Base = uint32(m.Base() - start)
	info.Extent, info.Gap = at(symtab.Range{Start: m.Start, End: m.End}), at(m.Text.Gap)
	if marks := m.Text.Landmarks; marks != nil {
		info.Marks = pack.Marks{Entry: at(marks.Entry), Fred: at(marks.Fred)}
		for _, thunk := range marks.Thunks {
			info.Marks.Thunks = append(info.Marks.Thunks, at(thunk))
		}
	}
	symbols := make([]pack.Symbol, m.Len())
	for i := range symbols {
		s := m.Text.Symbol(i)
		name := m.Text.Name(s)
		symbols[i] = pack.Symbol{
			Range: at(symtab.Range{Start: s.Start, End: s.End()}), Name: name.System, Folded: name.Folded,
		}
	}
	return symbols
}

// coreImage returns the image of the core kernel at the addresses of the file.
func coreImage(f *File) (*timeline.Image, error) {
	table, err := f.SymbolTable()
	if err != nil {
		return nil, err
	}
	list, err := coreList(f, table)
	if err != nil {
		return nil, err
	}
	return kallsyms.ParseCore(bytes.NewReader(list), f.info.Arch, f.info.BuildID, buildid.FileID(f.info.BuildID))
}

// moduleStart is where the code of a module begins in its image.
const moduleStart = 1 << 40

// moduleImage returns the image of a module, or nil if it has no code.
func moduleImage(f *File) (*timeline.Image, error) {
	table, err := f.SymbolTable()
	if err != nil {
		return nil, err
	}
	module := kmod.File{
		Name: f.info.Name, BuildID: f.info.BuildID, Arch: f.info.Arch, Release: f.info.Release,
		PLTFollows: f.pltFollows,
	}
	for _, s := range f.info.Sections {
		section := kmod.FileSection{Name: s.Name, Start: moduleStart + uint64(s.Range.Start), End: moduleStart + uint64(s.Range.End)}
		module.Sections = append(module.Sections, section)
	}
	return module.Image(func(add func(addr uint64, typ byte, name []byte)) {
		for i := range table.Len() {
			s := table.At(i)
			addr, ok := f.Address(&s)
			if ok && len(s.Name) > 0 {
				add(moduleStart+uint64(addr), moduleType(&s), s.Name)
			}
		}
	})
}

// moduleType returns the type that the kernel gives to a symbol in a section of code
// (elf_type in kernel/module/kallsyms.c).
func moduleType(s *Symbol) byte {
	switch {
	case s.Bind == elf.STB_WEAK && s.Type == elf.STT_OBJECT:
		return 'v'
	case s.Bind == elf.STB_WEAK:
		return 'w'
	}
	return 't'
}
