// SPDX-License-Identifier: Apache-2.0

package kelf_test

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
)

// compactFile is an ELF file in few bytes: the time that the fuzzer takes for an interesting input grows with the square
// of its length.
type compactFile struct {
	typ      uint16
	sections []byte // sectionLen bytes for each; the first section has the names
	data     []byte // of all sections
}

const sectionLen = 12

// elf returns the file: its header, the headers of its sections, and their data.
func (c compactFile) elf() []byte {
	n := len(c.sections) / sectionLen
	const headerLen = 64 // of the file, and of a section
	start := uint64(headerLen * (n + 2))
	file := encoded(elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  c.typ, Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Ehsize: headerLen, Shentsize: headerLen, Shnum: uint16(n + 1), Shstrndx: 1, Shoff: headerLen,
	}, elf.Section64{})
	for i := range n {
		s := c.sections[i*sectionLen:]
		file = append(file, encoded(elf.Section64{
			Name: uint32(s[0]), Type: uint32(s[1]), Flags: uint64(s[2]) | uint64(s[3])<<8, Link: uint32(s[4]), Info: uint32(s[5]),
			Off: start + uint64(s[6]) + uint64(s[7])<<56, Size: uint64(s[8]) << s[9], Addr: uint64(s[10]) << 8, Addralign: 1 << s[11],
		})...)
	}
	return append(file, c.data...)
}

func encoded(values ...any) (b []byte) {
	for _, v := range values {
		b, _ = binary.Append(b, binary.LittleEndian, v) // it never fails for numbers
	}
	return b
}

// add adds a section with some data.
func (c *compactFile) add(name byte, typ elf.SectionType, flags elf.SectionFlag, link, info byte, data string) {
	c.sections = append(c.sections, name, byte(typ), byte(flags), 0, link, info, byte(len(c.data)), 0, byte(len(data)), 0, 0, 0)
	c.data = append(c.data, data...)
}

// note has a build id.
const note = "\x04\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00GNU\x00\x01\x02\x03\x04\x05\x06\x07\x08"

// compactCore returns a core kernel, whose code is between two symbols.
func compactCore() compactFile {
	c := compactFile{typ: uint16(elf.ET_EXEC)}
	c.add(0, elf.SHT_STRTAB, 0, 0, 0, "\x00_text\x00_etext\x00")
	c.add(0, elf.SHT_NOTE, 0, 0, 0, note)
	c.add(0, elf.SHT_SYMTAB, 0, 1, 0, string(encoded(elf.Sym64{Name: 1, Shndx: 1, Value: 0x1000}, elf.Sym64{Name: 7, Shndx: 1, Value: 0x2000})))
	return c
}

// compactModule returns a module whose debug information has relocations at these offsets.
func compactModule(offsets ...uint64) compactFile {
	c := compactFile{typ: uint16(elf.ET_REL)}
	c.add(0, elf.SHT_STRTAB, 0, 0, 0, "\x00.text\x00.modinfo\x00.debug_addr\x00")
	c.add(0, elf.SHT_NOTE, 0, 0, 0, note)
	c.add(1, elf.SHT_PROGBITS, elf.SHF_ALLOC|elf.SHF_EXECINSTR, 0, 0, "code")
	c.add(7, elf.SHT_PROGBITS, 0, 0, 0, "name=m\x00")
	c.add(16, elf.SHT_PROGBITS, 0, 0, 0, "debug information")
	c.add(0, elf.SHT_SYMTAB, 0, 1, 0, string(encoded(elf.Sym64{Name: 1, Shndx: 3}, elf.Sym64{})))
	var relocations []byte
	for _, at := range offsets {
		relocations = append(relocations, encoded(elf.Rela64{Off: at, Info: elf.R_INFO(0, uint32(elf.R_X86_64_64))})...)
	}
	c.add(0, elf.SHT_RELA, 0, 6, 5, string(relocations))
	return c
}

// TestCompactFiles verifies that the seeds of FuzzOpen are files of kernels.
func TestCompactFiles(t *testing.T) {
	for _, tt := range []struct {
		name     string
		file     compactFile
		relocate error
	}{
		{"vmlinux", compactCore(), nil},
		{"m.ko", compactModule(), nil},
		{"relocated.ko", compactModule(0, 8), nil},
		{"unordered.ko", compactModule(8, 0), errors.ErrUnsupported},
	} {
		name := filepath.Join(t.TempDir(), tt.name)
		require.NoError(t, os.WriteFile(name, tt.file.elf(), 0o600))
		f := open(t, name)
		assert.Equal(t, "0102030405060708", f.Info().BuildID, tt.name)
		table, err := f.SymbolTable()
		require.NoError(t, err)
		first := table.At(0)
		_, ok := f.Address(&first)
		assert.True(t, ok, tt.name)
		_, err = f.Debug("addr")
		assert.ErrorIs(t, err, tt.relocate, tt.name)
	}
}

// FuzzOpen reads files with arbitrary sections. They are either rejected, or everything read from
// them is within their bounds. The file is written in place: to create it again takes most file systems far longer.
func FuzzOpen(f *testing.F) {
	for _, seed := range []compactFile{compactCore(), compactModule(), compactModule(0), compactModule(8, 0), {}} {
		f.Add(seed.typ, seed.sections, seed.data)
	}
	fuzzed, err := os.Create(filepath.Join(f.TempDir(), "fuzzed.ko"))
	require.NoError(f, err)
	f.Cleanup(func() { assert.NoError(f, fuzzed.Close()) })
	f.Fuzz(func(t *testing.T, typ uint16, sections, data []byte) {
		content := compactFile{typ, sections, data}.elf()
		_, err := fuzzed.WriteAt(content, 0)
		require.NoError(t, err)
		require.NoError(t, fuzzed.Truncate(int64(len(content))))
		file, err := kelf.Open(fuzzed.Name())
		if err != nil {
			return
		}
		defer file.Close()
		extent := file.Info().Extent
		if table, err := file.SymbolTable(); err == nil {
			for i := range table.Len() {
				s := table.At(i)
				if addr, ok := file.Address(&s); ok {
					assert.True(t, extent.Contains(addr), "%#x", addr)
				}
			}
		}
		for _, section := range []string{"info", "addr", "line"} {
			s, err := file.Debug(section)
			if err != nil || s.Size() > 1<<20 {
				continue
			}
			whole := make([]byte, s.Size())
			if _, err := s.ReadAt(whole, 0); err != nil || len(whole) < 8 {
				continue
			}
			part := make([]byte, 5)
			_, err = s.ReadAt(part, 3)
			require.NoError(t, err)
			assert.Equal(t, whole[3:8], part)
		}
	})
}
