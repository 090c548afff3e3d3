// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A layout is where the sections of a module lie.
type layout struct {
	text   uint64   // address of .text; offsets are relative to it
	code   []uint64 // addresses of the sections of code, in ascending order
	others []uint64 // addresses of other sections, if the endRule needs them

	// initial is the lowest address of code above code[0] that the kernel frees once the module is
	// live. If there is no such code, it is the highest address.
	initial uint64
}

// readLayout reads the directory /sys/module/NAME/sections.
func (r *roots) readLayout(module string, ends endRule) (layout, error) {
	l := layout{initial: math.MaxUint64}
	dir := r.moduleDir(module) + "/sections"
	sections, err := readNames(dir)
	if err != nil {
		return l, err
	}
	var initial []uint64
	for _, section := range sections {
		list := &l.others
		switch {
		case section == ".symtab" || section == ".strtab":
			continue // in memory that was freed, as is the memory of all .init sections
		case strings.HasPrefix(section, ".init"):
			if list = &initial; !strings.HasPrefix(section, ".init.text") {
				continue
			}
		case isCode(section):
			list = &l.code
		case ends == endsWithPage:
			continue
		}
		addr, err := readAddr(dir + "/" + section)
		if err != nil {
			return l, err
		}
		if addr == 0 { // the section is empty, or its address is hidden
			continue
		}
		if *list = append(*list, addr); section == ".text" {
			l.text = addr
		}
	}
	if len(l.code) == 0 {
		return l, nil
	}
	slices.Sort(l.code)
	if l.text == 0 {
		l.text = l.code[0]
	}
	for _, addr := range initial {
		if addr > l.code[0] {
			l.initial = min(l.initial, addr)
		}
	}
	return l, nil
}

// isCode reports whether a section holds code. The sections of a livepatch whose names begin with
// .klp. hold relocations. .plt holds the veneers of arm64. .fixup, before Linux 5.17, holds the code
// at which x86 continues after a fault; it has no symbols.
func isCode(section string) bool {
	switch {
	case strings.HasPrefix(section, ".klp."):
		return false
	case section == ".text", section == ".plt", section == ".fixup", strings.HasPrefix(section, ".text."):
		return true
	}
	return strings.HasSuffix(section, ".text")
}

// An endRule decides where the last text symbol of a module ends (contract 3.2). Every other
// text symbol ends at the next symbol or section of code.
type endRule uint8

const (
	// endsWithPage ends the symbol with the page in which it begins. The text is an allocation of
	// its own, in whole pages. Code that the kernel does not announce can follow it.
	endsWithPage endRule = iota

	// endsAtNext ends the symbol at text+coresize, or where anything else is known to begin.
	endsAtNext
)

// endRuleOf returns the rule for an architecture, named as in GOARCH, and a release of Linux. A
// release without numbers counts as a new one.
func endRuleOf(arch, release string) endRule {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	if arch == "amd64" && (err != nil || major > 6 || major == 6 && minor >= 4) {
		return endsWithPage
	}
	return endsAtNext
}

// limit returns the highest address at which the code of a load of a given size can end. others are
// the addresses at which anything else begins, sorted.
func (l *layout) limit(size uint64, others []uint64) uint64 {
	limit := min(l.text+size, l.initial)
	if limit < l.text { // the sum overflowed
		limit = math.MaxUint64
	}
	last := l.code[len(l.code)-1]
	if i, _ := slices.BinarySearch(others, last+1); i < len(others) {
		limit = min(limit, others[i])
	}
	return limit
}

// pageEnd returns the end of the page that an address lies in.
func pageEnd(addr uint64) uint64 {
	const page = 4096
	return addr&^(page-1) + page
}
