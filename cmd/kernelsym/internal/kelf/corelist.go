// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoList is returned for a file without the kernel's own list of symbols. A file of debug
// information alone has no read-only data, and thus no list.
var ErrNoList = errors.New("no list of the kernel's own symbols")

// coreList returns what /proc/kallsyms would print for a core kernel, with the addresses of its ELF
// file. This is the kernel's own list if the file has it, and otherwise the symbol table in the
// order that the list would have.
func coreList(f *File, symbols *SymbolTable) ([]byte, error) {
	own, err := readOwnList(f, symbols)
	if errors.Is(err, ErrNoList) {
		return sortedList(f.elf, symbols)
	}
	if err != nil {
		return nil, err
	}
	return own.print(anchorsOf(symbols)...)
}

// anchorsOf returns the symbols that determine the addresses in the kernel's own list.
func anchorsOf(symbols *SymbolTable) (anchors []anchor) {
	for i := range symbols.Len() {
		s := symbols.At(i)
		switch name := string(s.Name); name {
		case "_stext", "_etext", "_sinittext", "_einittext":
			anchors = append(anchors, anchor{name, s.Value})
		}
	}
	return anchors
}

// readOwnList reads the kernel's own list.
func readOwnList(f *File, symbols *SymbolTable) (*ownList, error) {
	at := map[string]uint64{}
	for i := range symbols.Len() {
		s := symbols.At(i)
		if bytes.HasPrefix(s.Name, []byte("kallsyms_")) && s.Section != elf.SHN_UNDEF {
			at[string(s.Name)] = s.Value
		}
	}
	var err error
	read := func(name string, size int) []byte {
		var data []byte
		if err == nil {
			data, err = f.readAt(at[name], size)
		}
		return data
	}
	l := &ownList{order: f.elf.ByteOrder}
	num := read("kallsyms_num_syms", 4)
	l.index = read("kallsyms_token_index", 512)
	if err != nil || at["kallsyms_offsets"] == 0 {
		return nil, ErrNoList
	}
	l.num = int(f.elf.ByteOrder.Uint32(num))
	if l.num > maxSymbols {
		return nil, fmt.Errorf("%w: %d symbols", errOwnList, l.num)
	}
	l.offsets = read("kallsyms_offsets", 4*l.num)
	l.names = read("kallsyms_names", sizeOf(at, "kallsyms_names"))
	l.tokens = read("kallsyms_token_table", min(maxTokens, sizeOf(at, "kallsyms_token_table")))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOwnList, err)
	}
	return l, nil
}

// maxSymbols bounds the number of symbols. The largest kernels have 300,000.
const maxSymbols = 1 << 22

// maxTokens bounds the size of the table of tokens, whose index has 16 bits.
const maxTokens = 1 << 16

// sizeOf returns the number of bytes between the start of a table and the next table.
func sizeOf(at map[string]uint64, name string) int {
	next := at[name] + maxTokens // the most that the last table can need
	for _, addr := range at {
		if addr > at[name] && (addr < next || next == at[name]+maxTokens) {
			next = addr
		}
	}
	return int(next - at[name])
}

// readAt reads the bytes at an address of the loaded kernel. It never allocates more than the size
// of the file.
func (f *File) readAt(addr uint64, size int) ([]byte, error) {
	for _, s := range f.elf.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || addr < s.Addr || addr-s.Addr >= s.FileSize {
			continue
		}
		if s.Type == elf.SHT_NOBITS || !isWithin(s, f.size) || size < 0 || uint64(size) > s.FileSize-(addr-s.Addr) {
			break
		}
		data := make([]byte, size)
		_, err := s.ReadAt(data, int64(addr-s.Addr))
		return data, err
	}
	return nil, fmt.Errorf("the file does not hold the %d bytes at %#x", size, addr)
}

// errLargeList is returned for a list that would be too large to hold.
var errLargeList = fmt.Errorf("%w: the names of the symbols take more than %d bytes", errors.ErrUnsupported, maxSmall)

// sortedList returns the symbol table in the order of scripts/kallsyms.c (compare_symbols). The
// script reads the output of nm -n, so symbols with the same address are in the order of their
// names. A list that would be too large to hold is an error.
func sortedList(f *elf.File, symbols *SymbolTable) ([]byte, error) {
	type entry struct {
		addr uint64
		name string
		typ  byte
	}
	var list []entry
	size := 0
	names := string(symbols.names) // shared by all names, so that they need no memory of their own
	for i := range symbols.Len() {
		s := symbols.At(i)
		if typ := coreType(f, &s); typ != 0 && !isLeftOut(string(s.Name)) {
			from := symbols.nameAt(i)
			list = append(list, entry{s.Value, names[from : from+len(s.Name)], typ})
			if size += lineLen + len(s.Name); size > maxSmall {
				return nil, errLargeList
			}
		}
	}
	slices.SortFunc(list, func(a, b entry) int {
		if c := cmp.Compare(a.addr, b.addr); c != 0 {
			return c
		}
		return cmp.Or(
			compareBool(a.typ == 'W', b.typ == 'W'),
			compareBool(isProvided(a.name), isProvided(b.name)),
			cmp.Compare(underscores(a.name), underscores(b.name)),
			cmp.Compare(a.name, b.name),
		)
	})
	dst := make([]byte, 0, size)
	for _, e := range list {
		dst = appendLine(dst, e.addr, e.typ, e.name)
	}
	return dst, nil
}

// coreType returns the type that nm(1) prints for a symbol of the core kernel, or 0 if the symbol
// is not loaded with the kernel. A symbol that is neither code nor weak counts as D.
func coreType(f *elf.File, s *Symbol) byte {
	if len(s.Name) == 0 || s.Section == elf.SHN_UNDEF || int(s.Section) >= len(f.Sections) ||
		s.Type == elf.STT_SECTION || s.Type == elf.STT_FILE {
		return 0
	}
	switch flags := f.Sections[s.Section].Flags; {
	case flags&elf.SHF_ALLOC == 0:
		return 0
	case s.Bind == elf.STB_WEAK && s.Type == elf.STT_OBJECT:
		return 'V'
	case s.Bind == elf.STB_WEAK:
		return 'W'
	case flags&elf.SHF_EXECINSTR == 0:
		return 'D'
	case s.Bind == elf.STB_LOCAL:
		return 't'
	}
	return 'T'
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func underscores(name string) int { return len(name) - len(strings.TrimLeft(name, "_")) }

// isProvided reports whether a name looks like one that a linker script provides
// (may_be_linker_script_provide_symbol).
func isProvided(name string) bool {
	rest, ok := strings.CutPrefix(name, "__")
	if !ok || len(name) < 8 {
		return false
	}
	return strings.HasPrefix(rest, "start_") || strings.HasPrefix(rest, "stop_") || strings.HasPrefix(rest, "end_") ||
		strings.HasSuffix(name, "_start") || strings.HasSuffix(name, "_end")
}

// isLeftOut reports whether the kernel's own list omits symbols of a name (is_ignored_symbol, since
// Linux 6.5 scripts/mksysmap). It does not consider data, nor symbols that are ignored anyway
// (see contract 3.1).
func isLeftOut(name string) bool {
	rest, ok := strings.CutPrefix(name, "__")
	if !ok {
		return strings.HasSuffix(name, "_veneer")
	}
	for _, prefix := range []string{
		"efistub_", "kvm_nvhe_$", "kvm_nvhe_.L", "pi_$", "pi_.L", "AArch64ADRPThunk_", "kcfi_typeid_", "crc_",
	} {
		if strings.HasPrefix(rest, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "_veneer")
}
