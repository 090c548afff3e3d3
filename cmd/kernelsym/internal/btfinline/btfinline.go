// SPDX-License-Identifier: Apache-2.0

// Package btfinline reads where functions were inlined. A kernel with CONFIG_DEBUG_INFO_BTF_INLINE
// (expected in Linux 7.4) lists this in /sys/kernel/btf/vmlinux.inline and
// /sys/kernel/btf/<module>.inline.
//
// Each of these files is split BTF. Its base is the BTF of the core kernel or module, in the file
// without ".inline". A type of kind LOCSEC lists the sites in one ELF section. For each site it has
// the function that was inlined, the locations of its parameters, which are irrelevant here, and
// the offset of its first instruction. It does not say how far the inlined code reaches, what lies
// in its midst, or which line called it. That is enough to find sites, but too little to name the
// code at an address.
package btfinline

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/kernelsym/kernelsym/internal/btf"
)

// An Entry is a site in the form in which a file has it.
type Entry struct {
	Function string // the function that was inlined
	Section  string // section of the ELF file, such as ".text"
	Offset   uint32 // of the first instruction, from the start of the section
}

// Functions maps type numbers to the functions of one layer of BTF. It has the names of the
// functions that are searched for, and an empty string for all others.
type Functions map[uint32]string

// Matching returns the functions of b, but not of its base. It searches for functions whose names
// match. The error wraps [btf.ErrMalformed].
func Matching(b *btf.BTF, match func(name string) bool) (Functions, error) {
	all, err := b.Functions()
	functions := make(Functions)
	for id, name := range all.All() {
		if functions[id] = ""; match(name) {
			functions[id] = name
		}
	}
	return functions, err
}

// Entries returns the sites in b of the functions that are searched for. The layers belong to b and
// to all its bases. The error wraps [btf.ErrMalformed].
func Entries(b *btf.BTF, layers ...Functions) (entries []Entry, err error) {
	for t, err := range b.Types() {
		if err != nil {
			return nil, err
		}
		if t.Kind != btf.KindLocSec {
			continue
		}
		section, err := sectionOf(b.Name(t))
		if err != nil {
			return nil, fmt.Errorf("type %d: %w", t.ID, err)
		}
		for rest := t.More; len(rest) > 0; rest = rest[siteLen:] {
			id := binary.NativeEndian.Uint32(rest)
			name, ok := find(id, layers)
			if !ok {
				return nil, fmt.Errorf("%w: type %d: a site of type %d, which is no function", btf.ErrMalformed, t.ID, id)
			}
			if name != "" {
				entries = append(entries, Entry{name, section, binary.NativeEndian.Uint32(rest[8:])})
			}
		}
	}
	return entries, nil
}

// find returns a function's name. Each layer has numbers of its own.
func find(id uint32, layers []Functions) (name string, ok bool) {
	for _, functions := range layers {
		if name, ok = functions[id]; ok {
			return name, true
		}
	}
	return "", false
}

// siteLen is the length of struct btf_loc: the number of a function's type, the number of a
// LOC_PROTO, and the offset, 32 bits each.
const siteLen = 12

// sectionOf returns the ELF section that a LOCSEC describes. According to the UAPI header, the
// LOCSEC is named "inline" followed by the name of the section. The kernel's selftests expect the
// name of the section alone.
func sectionOf(name string) (string, error) {
	section := strings.TrimPrefix(name, "inline")
	if !strings.HasPrefix(section, ".") || strings.Contains(section, "/") {
		return "", fmt.Errorf("%w: sites in a section named %q", btf.ErrMalformed, name)
	}
	return section, nil
}
