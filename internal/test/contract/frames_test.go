// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"strings"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// Attribute keys of section 4.4 of the contract.
const (
	keyHasFunctions = "pprof.mapping.has_functions"
	keyHasLines     = "pprof.mapping.has_line_numbers"
	keyHasFiles     = "pprof.mapping.has_filenames"
	keyHasInlined   = "pprof.mapping.has_inline_frames"
	keyFolded       = "pprof.location.is_folded"
)

// mapping returns a mapping for an absolute address, or none. Many are wrong.
func (w *world) mapping(addr uint64) *rewritetest.Mapping {
	r := w.r
	var m rewritetest.Mapping
	switch r.Intn(14) {
	case 0:
		m = rewritetest.Mapping{File: "[kernel.kallsyms]", Start: 0xffffffff80000000, Limit: 0xffffffffffff0000}
	case 1:
		m = rewritetest.Mapping{File: []string{"[guest.kernel.kallsyms]", "[bpf]", "bpf_prog_x", "x.ko.xz", "vmlinux-6.1"}[r.Intn(5)]}
	case 2:
		m = rewritetest.Mapping{File: []string{"[mod0]", "[mod9]", "/lib/modules/6.1/mod1.ko", "libc.so.6", ""}[r.Intn(5)], Limit: 1 << 20}
	case 3:
		m = rewritetest.Mapping{File: "vmlinux", BuildID: hexID(r)}
	case 4:
		m = rewritetest.Mapping{File: "vmlinux", FileID: buildid.FileID(hexID(r))}
	case 5, 6, 7, 8:
		of := w.image()
		for _, other := range append(w.images, w.core) {
			if r.Intn(4) != 0 && other != nil && other.contains(addr) {
				of = other
			}
		}
		if of == nil {
			return nil
		}
		m = w.mappingOf(of)
		if r.Intn(4) == 0 {
			m = w.kept(of)
		}
	default:
		return nil
	}
	if r.Intn(4) == 0 {
		m.Attributes = map[string]any{keyHasFunctions: r.Intn(2) == 0}
		if r.Intn(2) == 0 {
			m.Attributes[keyHasLines], m.Attributes[keyHasFiles] = r.Intn(2) == 0, r.Intn(2) == 0
		}
	}
	return &m
}

// kept returns the mapping that is written for addresses that are kept (sections 4.2 and 4.3).
func (w *world) kept(m *modelImage) rewritetest.Mapping {
	mapping := rewritetest.Mapping{File: m.Name(), Start: m.start, Limit: m.end}
	switch {
	case !m.isText() && m.Name() != "":
		mapping.File, mapping.FileID = "[bpf]", buildid.LoadedFileID(m.content(), m.start)
	case m.isText() && m.BuildID() != "":
		mapping.BuildID, mapping.FileID = m.BuildID(), buildid.LoadedFileID(m.BuildID(), m.Base())
	}
	return mapping
}

// placeholders are names that say nothing (section 1.2 of the contract).
var placeholders = []string{
	"UNKNOWN", "[unknown]", "[symbolication_failed]", "[kernel.kallsyms]", "[[kernel.kallsyms]]",
	"0xffffffff81000000", "ffffffff81000000",
}

// lines returns the lines of a frame that came without a name, with a placeholder, with a wrong
// name, or with the right one and inner functions.
func (w *world) lines(addr uint64) []rewritetest.Line {
	r := w.r
	kind := r.Intn(14)
	if w.packs != nil && kind > 6 && r.Intn(2) == 0 {
		kind = 4 // what a pack adds to
	}
	switch kind {
	case 0:
		return []rewritetest.Line{{Name: placeholders[r.Intn(len(placeholders))]}}
	case 1:
		return []rewritetest.Line{{}}
	case 2:
		return []rewritetest.Line{{Name: "somebody", System: "somebody", File: "a.c", Line: 7}}
	case 3:
		return []rewritetest.Line{{Name: "inner", Line: 1}, {Name: "outer", Line: 2}}
	case 4, 5, 6:
		return w.rightLines(addr)
	}
	return nil
}

// rightLines returns lines whose outermost name is one that the address has had.
func (w *world) rightLines(addr uint64) []rewritetest.Line {
	for _, m := range append(w.images, w.core) {
		for _, relative := range []uint64{0, 1} {
			if m == nil {
				continue
			}
			at := addr - relative
			if addr>>63 == 0 {
				at += m.base()
			}
			s := m.symbol(at)
			if s == nil {
				continue
			}
			line := rewritetest.Line{Name: s.name, System: s.system}
			if w.r.Intn(3) == 0 {
				line.System = ""
			}
			if w.r.Intn(3) == 0 {
				line.File, line.Line = "right.c", 12
				return []rewritetest.Line{{Name: "inner", Line: 1}, line}
			}
			return []rewritetest.Line{line}
		}
	}
	return nil
}

// isPlaceholder reports whether a name says nothing.
func isPlaceholder(name string) bool {
	for _, p := range placeholders[:5] {
		if name == p {
			return true
		}
	}
	digits, ok := strings.CutPrefix(name, "0x")
	ok = ok && digits != "" && len(digits) <= 64 || len(name) == 16
	return ok && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

// isNamed is section 1.2.
func isNamed(f rewritetest.Frame) bool {
	var names []string
	for _, l := range f.Lines {
		if l.Name != "" {
			names = append(names, l.Name)
		}
	}
	return len(names) > 1 || len(names) == 1 && !isPlaceholder(names[0])
}
