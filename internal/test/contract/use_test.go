// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// An asker answers one stack at one time (sections 1 to 5 of the contract).
type asker struct {
	*world
	opts     rewrite.Options
	profiler bool // the scope is that of the OTel eBPF profiler
	q        timeline.Interval
}

// The forms of an address (section 2).
const (
	formNone = iota
	formAbsolute
	formRelative
)

// A use is the meaning of a frame at its place in a stack.
type use struct {
	frame     rewritetest.Frame
	candidate bool
	foreign   bool
	form      int
	noForm    timeline.Reason // why its address has none
	lookedUp  bool            // in looked-up form
	of        *modelImage     // the image that a relative address counts from
	ip, addr  uint64          // addr is the address that is looked up
	exact     bool            // the CPU was at ip itself, not in a call before it
	hit       modelHit
	other     *use // the same as an exact frame, if the role is not known; else nil
}

// hasAddress reports whether the frame means an address of a kernel. A mapping with another kernel's IDs does
// not change what it says about neighboring frames: the contract leaves that open.
func (u *use) hasAddress() bool { return u != nil && u.candidate && u.form != formNone }

// mayBeEntry reports whether a frame without a known place may be in entry code or in a thunk (section 2.3).
func (a *asker) mayBeEntry(u *use) bool {
	m := u.frame.Mapping
	switch {
	case !u.candidate || u.form != formNone:
		return false
	case m == nil:
		return !a.profiler || !isNamed(u.frame) || u.frame.Address>>63 == 1 || u.frame.Address == 0 // else it is of BPF
	case m.BuildID != "" || m.FileID != "" || strings.HasPrefix(m.File, "[guest.kernel"):
		return false
	}
	path := strings.Contains(m.File, "/") && !strings.Contains(m.File, ".ko")
	return m.File == "" || path || strings.HasPrefix(m.File, "[kernel") || moduleName(m.File) == timeline.KernelName
}

// uses returns the meaning of each frame of a stack.
func (a *asker) uses(stack []rewritetest.Frame) []use {
	uses := make([]use, len(stack))
	for i, f := range stack {
		u := &uses[i]
		u.frame = f
		u.candidate = a.isCandidate(f)
		u.foreign = f.Mapping != nil && (strings.HasPrefix(f.Mapping.File, "[guest.kernel") || !a.knows(f.Mapping))
		a.setForm(u)
		if !u.candidate || u.form == formNone {
			continue
		}
		var before *use
		if i > 0 {
			before = &uses[i-1]
		}
		a.lookUp(u, before, i == 0)
	}
	for i := range uses {
		var after *use
		if i+1 < len(uses) {
			after = &uses[i+1]
		}
		for u := &uses[i]; u != nil; u = u.other {
			a.doubt(u, after, uses[i].other != nil)
			if m := u.frame.Mapping; u.form == formAbsolute && m != nil && u.hit.image != nil {
				u.foreign = u.foreign || !a.isOf(m, u.hit.image)
			}
		}
	}
	return uses
}

// isKernelAddress says which addresses lie in the kernel half and count there (section 1.1c).
func isKernelAddress(addr uint64) bool {
	return addr>>63 == 1 && addr&^0xfff != 0xffffffffff600000 && addr < 0xfffffffffffff000
}

// isCandidate is section 1.1.
func (a *asker) isCandidate(f rewritetest.Frame) bool {
	if f.Type != "" {
		return f.Type == "kernel"
	}
	if f.Mapping == nil || f.Mapping.File == "" {
		return isKernelAddress(f.Address)
	}
	file := f.Mapping.File
	last := file[strings.LastIndexByte(file, '/')+1:]
	for _, end := range []string{".ko", ".ko.gz", ".ko.xz", ".ko.zst"} {
		if strings.HasSuffix(file, end) {
			return true
		}
	}
	if name, ok := strings.CutPrefix(file, "["); ok {
		name, ok = strings.CutSuffix(name, "]")
		if ok && slices.ContainsFunc(a.texts(), func(m *modelImage) bool { return m != a.core && m.Name() == name }) {
			return true
		}
	}
	return strings.HasPrefix(file, "[kernel") || strings.HasPrefix(file, "[guest.kernel") || last == "vmlinux" ||
		strings.HasPrefix(last, "vmlinux-") || file == "[bpf]" || strings.HasPrefix(file, "bpf_prog_")
}

// knows reports whether the ids of a mapping are this kernel's (section 2.1).
func (a *asker) knows(m *rewritetest.Mapping) bool {
	build, file := m.BuildID == "", m.FileID == ""
	for _, text := range a.texts() {
		build = build || text.BuildID() == m.BuildID
		file = file || text.BuildID() != "" && a.isFileOf(m.FileID, text)
	}
	for _, im := range a.images {
		file = file || !im.isText() && im.Name() != "" && a.isFileOf(m.FileID, im)
	}
	return build && file
}

// isFileOf reports whether a file ID is one of an image's (sections 2.6, 4.2 and 4.3).
func (w *world) isFileOf(id string, m *modelImage) bool {
	if m.isText() {
		return m.BuildID() != "" && (id == buildid.FileID(m.BuildID()) || !w.guessed && id == buildid.LoadedFileID(m.BuildID(), m.Base()))
	}
	before := *m // its lines were known
	before.lines = nil
	for _, content := range []string{m.content(), before.content()} {
		if id == buildid.ContentFileID(content) || !w.guessed && id == buildid.LoadedFileID(content, m.start) {
			return true
		}
	}
	return false
}

// isOf reports whether the ids of a mapping are an image's.
func (w *world) isOf(m *rewritetest.Mapping, im *modelImage) bool {
	build := m.BuildID == "" || im.isText() && m.BuildID == im.BuildID()
	return build && (m.FileID == "" || w.isFileOf(m.FileID, im))
}

// setForm determines what the address counts from (section 2).
func (a *asker) setForm(u *use) {
	m := u.frame.Mapping
	switch {
	case u.frame.Address>>63 == 1:
		if !a.guessed {
			u.form = formAbsolute
		}
	case m != nil && (m.BuildID != "" || m.FileID != ""):
		for _, text := range a.texts() {
			if a.isOf(m, text) {
				u.form, u.of = formRelative, text
			}
		}
	case m != nil:
		of, reason := a.named(moduleName(m.File), a.q)
		u.noForm = reason
		if of != nil {
			u.form, u.of = formRelative, of
		}
	}
	u.lookedUp = u.form == formRelative && !a.profiler && m.Start == 0 && m.Limit == 0 && m.Offset == 0
}

// moduleName returns the name of the image that a mapping's file stands for.
func moduleName(file string) string {
	file = file[strings.LastIndexByte(file, '/')+1:]
	if file == "vmlinux" || strings.HasPrefix(file, "vmlinux-") {
		return timeline.KernelName
	}
	file, _, _ = strings.Cut(file, ".ko")
	if name, ok := strings.CutPrefix(file, "["); ok {
		file = strings.TrimSuffix(name, "]")
	}
	return strings.ReplaceAll(file, "-", "_")
}
