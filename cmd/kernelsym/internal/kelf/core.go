// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"debug/elf"
	"fmt"
	"math"
	"strings"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// coreMarks holds the symbols that mark where code begins and ends, and the kernel's banner.
type coreMarks map[string]Symbol

var coreMarkNames = map[string]bool{
	"_text": true, "_stext": true, "_etext": true, "_sinittext": true, "_einittext": true, "linux_banner": true,
}

// openCore reads the pack.Info of the core kernel, except for the parts that come from the symbols.
// See contract 3.2 for the extent.
func (f *File) openCore() error {
	t, err := f.SymbolTable()
	if err != nil {
		return err
	}
	marks := readCoreMarks(t)
	text, stext, etext := marks.at("_text"), marks.at("_stext"), marks.at("_etext")
	start := stext
	if text != 0 && (text < start || start == 0) {
		start = text
	}
	if start == 0 || etext <= start || etext-start > math.MaxUint32 {
		return ErrNotKernel
	}
	f.areas = areas{{start: start, end: etext}}
	info := &f.info
	info.Name, info.Text, info.Stext = pack.KernelName, text, stext
	info.Extent.End = uint32(etext - start)
	initStart, initEnd := marks.at("_sinittext"), marks.at("_einittext")
	if initStart > etext && initEnd > initStart && initEnd-start <= math.MaxUint32 {
		init := area{start: initStart, end: initEnd, pack: uint32(initStart - start)}
		f.areas = append(f.areas, init)
		info.Gap = pack.Range{Start: info.Extent.End, End: init.pack}
		info.Extent.End = uint32(initEnd - start)
	}
	info.Release, err = readRelease(f.elf, marks["linux_banner"])
	return err
}

func readCoreMarks(t *SymbolTable) coreMarks {
	marks := coreMarks{}
	for i := range t.Len() {
		if s := t.At(i); coreMarkNames[string(s.Name)] {
			marks[string(s.Name)] = s
		}
	}
	return marks
}

// at returns the address of a mark, or 0 if there is none.
func (m coreMarks) at(mark string) uint64 { return m[mark].Value }

// readRelease returns the release in the kernel's banner (init/version-timestamp.c). It is empty if
// the file has no data.
func readRelease(f *elf.File, s Symbol) (string, error) {
	const maxBanner = 4096
	if int(s.Section) == 0 || int(s.Section) >= len(f.Sections) {
		return "", nil
	}
	section := f.Sections[s.Section]
	if section.Type == elf.SHT_NOBITS || s.Value < section.Addr || s.Value-section.Addr >= section.Size {
		return "", nil
	}
	text := make([]byte, min(s.Size, maxBanner, section.Size-(s.Value-section.Addr)))
	if _, err := section.ReadAt(text, int64(s.Value-section.Addr)); err != nil {
		return "", fmt.Errorf("symbol linux_banner: %w", err)
	}
	rest, ok := strings.CutPrefix(string(text), "Linux version ")
	release, _, found := strings.Cut(rest, " ")
	if !ok || !found {
		return "", nil
	}
	return release, nil
}
