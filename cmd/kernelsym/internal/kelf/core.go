// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"debug/elf"
	"fmt"
	"math"

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

// readRelease returns the release in the kernel's banner. It is empty if the file has no data.
func readRelease(f *elf.File, s Symbol) (string, error) {
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
	return releaseOf(text), nil
}

const (
	// bannerStart begins the kernel's banner (init/version-timestamp.c), which the release follows.
	bannerStart = "Linux version "
	maxBanner   = 4096 // bytes
)

// releaseOf returns the release in a banner, empty if it is none.
func releaseOf(banner []byte) string {
	rest, ok := bytes.CutPrefix(banner, []byte(bannerStart))
	release, _, found := bytes.Cut(rest, []byte(" "))
	if !ok || !found {
		return ""
	}
	return string(release)
}
