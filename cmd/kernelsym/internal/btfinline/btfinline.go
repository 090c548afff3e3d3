// SPDX-License-Identifier: Apache-2.0

// Package btfinline reads where functions were inlined, from what a kernel with
// CONFIG_DEBUG_INFO_BTF_INLINE (expected in Linux 7.4) says of that in
// /sys/kernel/btf/vmlinux.inline and /sys/kernel/btf/<module>.inline.
//
// A file of these is split BTF on that of the core kernel or module, which is in the file
// without ".inline". A type of kind LOCSEC lists the sites in one ELF section: for each
// the function that was inlined, how its parameters can be found there, which is of no
// interest here, and the offset of its first instruction. How far the inlined code reaches,
// what lies in its midst, and which line called it, nobody says: that is enough to find
// sites, and too little to name what an address lies in.
package btfinline

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/kernelsym/kernelsym/internal/btf"
)

// An Entry is a site as a file has it.
type Entry struct {
	Function string // that was inlined
	Section  string // of the ELF file, as ".text"
	Offset   uint32 // of the first instruction, from the start of the section
}

// Functions are the functions of one layer of BTF by the numbers of their types: those
// that are looked for by their names, the others without.
type Functions map[uint32]string

// Matching returns the functions of b, without those of its base. Those are looked for whose
// names match. The error wraps [btf.ErrMalformed].
func Matching(b *btf.BTF, match func(name string) bool) (Functions, error) {
	functions, err := b.FunctionNames()
	for id, name := range functions {
		if !match(name) {
			functions[id] = ""
		}
	}
	return functions, err
}

// Entries returns the sites that b lists of the functions that are looked for. The layers are
// those of b and of all its bases. The error wraps [btf.ErrMalformed].
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

// siteLen is the length of struct btf_loc: the number of a function's type, that of a
// LOC_PROTO, and the offset, 32 bits each.
const siteLen = 12

// sectionOf returns the ELF section that a LOCSEC is about. In the UAPI header its name is
// "inline" and that of the section; the kernel's selftests look for that of the section
// alone.
func sectionOf(name string) (string, error) {
	section := strings.TrimPrefix(name, "inline")
	if !strings.HasPrefix(section, ".") || strings.Contains(section, "/") {
		return "", fmt.Errorf("%w: sites in a section named %q", btf.ErrMalformed, name)
	}
	return section, nil
}
