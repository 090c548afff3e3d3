// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/regularfile"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// ErrNotKernel is returned for an ELF file that is neither a core kernel nor a module.
var ErrNotKernel = errors.New("neither a kernel nor a module: no symbols _text or _stext and _etext, " +
	"and no section .modinfo")

// ErrNotELF is returned for a file that is not even an ELF file.
var ErrNotELF = errors.New("not an ELF file: it takes a vmlinux or a module (.ko) with its debug information")

// A File is an open ELF file of a kernel. It is not safe for concurrent use.
type File struct {
	name  string
	elf   *elf.File
	size  uint64 // in bytes, decompressed
	info  pack.Info
	areas areas
	bases []uint64 // addresses of a module's sections, by number
	// pltFollows is whether a module has .plt after its code, as in kmod.File.
	pltFollows bool
	// inTree is whether a module is part of the kernel's tree.
	inTree  bool
	symbols []uint64 // addresses of a module's symbols, by number; nil until needed
	spools  spools
}

// arches maps ELF machines to GOARCH.
var arches = map[elf.Machine]string{
	elf.EM_X86_64:    "amd64",
	elf.EM_AARCH64:   "arm64",
	elf.EM_RISCV:     "riscv64",
	elf.EM_S390:      "s390x",
	elf.EM_LOONGARCH: "loong64",
}

// Open opens an ELF file of a kernel. A file whose name ends in .gz, .xz or .zst is decompressed
// first, into a temporary file if it is large. The error names the file. It wraps [ErrNotKernel]
// for a file of another kind.
func Open(name string) (*File, error) {
	osFile, err := regularfile.Open(name)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, spools: spools{osFile}}
	if err := f.open(osFile); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// open reads everything except the debug information.
func (f *File) open(osFile *os.File) error {
	r, size, err := f.spools.decompress(osFile)
	if err != nil {
		return err
	}
	f.size = size
	if f.elf, err = elf.NewFile(r); err != nil {
		if format := new(elf.FormatError); errors.As(err, &format) && strings.Contains(err.Error(), "bad magic number") {
			return ErrNotELF
		}
		return err
	}
	if f.info.Arch, err = archOf(f.elf); err != nil {
		return err
	}
	if f.info.BuildID, err = readBuildID(f.elf); err != nil {
		return err
	}
	if f.IsModule() {
		return f.openModule()
	}
	return f.openCore()
}

// archOf returns the architecture of a file, named as in GOARCH.
func archOf(f *elf.File) (string, error) {
	arch, ok := arches[f.Machine]
	if !ok || f.Class != elf.ELFCLASS64 {
		return "", fmt.Errorf("%w: %v of class %v", errors.ErrUnsupported, f.Machine, f.Class)
	}
	return arch, nil
}

// Close closes the file and removes the decompressed data. Sections must not be read afterwards.
func (f *File) Close() error { return f.spools.close() }

// Name returns the name by which the file was opened.
func (f *File) Name() string { return f.name }

// ELF returns the file's headers.
func (f *File) ELF() *elf.File { return f.elf }

// Info returns the pack.Info of the kernel or module, without the parts that come only from
// symbols; see [File.Symbols]. The caller must not modify the contents of the slices.
func (f *File) Info() pack.Info { return f.info }

// IsModule reports whether the file belongs to a module.
func (f *File) IsModule() bool {
	return f.elf.Type == elf.ET_REL && (f.elf.Section(".modinfo") != nil || f.elf.Section(".gnu.linkonce.this_module") != nil)
}
