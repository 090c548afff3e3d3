// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// layout is where the sections of a module are.
type layout struct {
	text    uint64   // address of .text, to which offsets refer
	code    []uint64 // addresses of the sections of code, in their order
	others  []uint64 // of other sections, if the rule for ends needs them
	initial uint64   // of the lowest code above that is only there until the module is live; or the highest address
}

// readLayout reads the directory /sys/module/NAME/sections.
func (r *roots) readLayout(module string, ends endRule) (layout, error) {
	l := layout{initial: math.MaxUint64}
	dir := r.dir(module) + "/sections"
	sections, err := readNames(dir)
	if err != nil {
		return l, err
	}
	var initial []uint64
	for _, section := range sections {
		where := &l.others
		switch {
		case section == ".symtab" || section == ".strtab":
			continue // in memory that was freed, as is that of all .init sections
		case strings.HasPrefix(section, ".init"):
			if where = &initial; !strings.HasPrefix(section, ".init.text") {
				continue
			}
		case isCode(section):
			where = &l.code
		case ends == endsWithPage:
			continue
		}
		addr, err := readAddr(dir + "/" + section)
		if err != nil {
			return l, err
		}
		if addr == 0 { // empty, or hidden
			continue
		}
		if *where = append(*where, addr); section == ".text" {
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

// isCode reports whether a section holds code. (What a livepatch has in sections
// that begin with .klp. are relocations, .plt has the veneers of arm64, and .fixup,
// before Linux 5.17, where x86 goes on after a fault: code without symbols.)
func isCode(section string) bool {
	switch {
	case strings.HasPrefix(section, ".klp."):
		return false
	case section == ".text", section == ".plt", section == ".fixup", strings.HasPrefix(section, ".text."):
		return true
	}
	return strings.HasSuffix(section, ".text")
}

// An endRule says where the last text symbol of a module ends (see
// contract 3.2). All others end at a symbol or at a section of code.
type endRule uint8

const (
	// endsWithPage: with the page in which it begins. The text is an allocation of its
	// own, in whole pages, and what comes behind can be code that nobody announces.
	endsWithPage endRule = iota

	// endsAtNext: at text+coresize, or where anything else is known to begin.
	endsAtNext
)

// endRuleOf returns the rule for an architecture, as GOARCH has it, and a release of
// Linux. A release without numbers counts as a new one.
func endRuleOf(arch, release string) endRule {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	if arch == "amd64" && (err != nil || major > 6 || major == 6 && minor >= 4) {
		return endsWithPage
	}
	return endsAtNext
}

// limit returns where the code of a load ends at the latest. others are addresses at
// which something else begins, sorted.
func (l *layout) limit(size uint64, others []uint64) uint64 {
	limit := min(l.text+size, l.initial)
	if limit < l.text { // beyond the highest address
		limit = math.MaxUint64
	}
	last := l.code[len(l.code)-1]
	if i, _ := slices.BinarySearch(others, last+1); i < len(others) {
		limit = min(limit, others[i])
	}
	return limit
}

// pageEnd returns the end of the page of an address.
func pageEnd(addr uint64) uint64 {
	const page = 4096
	return addr&^(page-1) + page
}
