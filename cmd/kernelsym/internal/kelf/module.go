// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/pack"
)

const (
	// codeBase is the address at which the code of a module is laid out for relocations.
	codeBase = 1 << 60
	// dataBase is the address of its first other section in memory. Each further section is
	// dataStep above the one before. Sections that are not in memory, such as debug
	// information, are at 0.
	dataBase = 2 << 60
	dataStep = 1 << 40
)

// openModule reads the pack.Info of a module.
func (f *File) openModule() error {
	modinfo, err := read(f.elf.Section(".modinfo"))
	if err != nil {
		return err
	}
	f.info.Name, _ = ModuleName(f.name)
	for entry := range strings.SplitSeq(string(modinfo), "\x00") {
		if name, ok := strings.CutPrefix(entry, "name="); ok {
			f.info.Name = name
		}
		if magic, ok := strings.CutPrefix(entry, "vermagic="); ok {
			f.info.Release, _, _ = strings.Cut(magic, " ")
		}
		f.inTree = f.inTree || entry == "intree=Y"
	}
	return f.layout()
}

// IsInTree reports whether the file is part of the kernel's tree: the core kernel, or a module
// whose .modinfo has intree=Y (scripts/mod/modpost.c). A file of debug information alone has no
// .modinfo. Then the name of a symbol decides, which exists up to Linux 6.17. See [File.AddLoaded].
func (f *File) IsInTree() (bool, error) {
	if f.inTree || !f.IsModule() {
		return true, nil
	}
	if s := f.elf.Section(".modinfo"); s == nil || s.Type != elf.SHT_NOBITS {
		return false, nil
	}
	table, err := f.SymbolTable()
	if errors.Is(err, ErrNoSymbols) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i := range table.Len() {
		if s := table.At(i); bytes.HasPrefix(s.Name, []byte("__UNIQUE_ID_intree")) {
			return true, nil
		}
	}
	return false, nil
}

// AddLoaded adds the information that only the file loaded by the kernel has, and not the one with
// the debug information: whether the module is part of the kernel's tree.
func (f *File) AddLoaded(loaded *File) { f.inTree = f.inTree || loaded.inTree }

// ModuleName returns the name of the module in a file, which Kbuild derives from the name of the
// file. It also reports whether the file has the extension of a module.
func ModuleName(file string) (string, bool) {
	name, _, ok := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_"), ok
}

// layout assigns an address to each section, and pack addresses to sections of code.
func (f *File) layout() error {
	f.bases = make([]uint64, len(f.elf.Sections))
	from, to := knownCode(f.elf.Sections, f.info.Arch)
	f.pltFollows = to < len(f.elf.Sections)
	size, firstAlign := uint64(0), uint64(0)
	for i, s := range f.elf.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		f.bases[i] = dataBase + dataStep*uint64(i)
		if i < from || i >= to || s.Flags&elf.SHF_EXECINSTR == 0 || strings.HasPrefix(s.Name, ".init") {
			continue
		}
		align := max(s.Addralign, 1)
		if align&(align-1) != 0 || align > math.MaxUint32 || s.Size > math.MaxUint32 {
			return fmt.Errorf("section %s: %d bytes aligned to %d", s.Name, s.Size, align)
		}
		if firstAlign = cmp.Or(firstAlign, align); from > 0 && align > firstAlign {
			// The padding before it depends on where the first section begins.
			to, f.pltFollows = i, false
			continue
		}
		start := (size + align - 1) &^ (align - 1)
		if size = start + s.Size; size > math.MaxUint32 {
			return fmt.Errorf("section %s: a module's code exceeds 4 GiB", s.Name)
		}
		f.bases[i] = codeBase + start
		if s.Size == 0 {
			continue
		}
		f.areas = append(f.areas, area{start: codeBase + start, end: codeBase + size, pack: uint32(start)})
		section := pack.Section{Name: s.Name, Range: pack.Range{Start: uint32(start), End: uint32(size)}}
		f.info.Sections = append(f.info.Sections, section)
	}
	f.info.Extent.End = uint32(size)
	text := slices.IndexFunc(f.info.Sections, func(s pack.Section) bool { return s.Name == ".text" })
	if text >= 0 {
		f.info.Base = f.info.Sections[text].Range.Start
	}
	return nil
}

// knownCode returns the range of sections, by number, whose distances from .text are fixed by the
// file: those between sections that are sized at load. Without .text, addresses count from the
// first section of code.
func knownCode(sections []*elf.Section, arch string) (from, to int) {
	to = len(sections)
	text := slices.IndexFunc(sections, func(s *elf.Section) bool { return s.Name == ".text" && s.Size > 0 })
	for i, s := range sections {
		switch {
		case !isSizedAtLoad(arch, s.Name):
		case i < text:
			from = i + 1
		default:
			return from, i
		}
	}
	return from, to
}

// isSizedAtLoad reports whether the kernel chooses the length of a section when it loads the module
// (arch/arm64/kernel/module-plts.c).
func isSizedAtLoad(arch, section string) bool {
	return arch == "arm64" && (section == ".plt" || section == ".text.ftrace_trampoline")
}
