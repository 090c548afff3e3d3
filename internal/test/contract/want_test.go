// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A want is the correct output for a frame: one of several mappings, and the rest as in frame.
type want struct {
	frame    rewritetest.Frame
	mappings []*rewritetest.Mapping
	resolved *modelSymbol       // the symbol whose name was written
	lines    []rewritetest.Line // what is known of its code, also where the frame keeps better lines
	gained   bool               // it came with the name and gained lines
	why      string             // for the outcome: named, foreign, or the reason
	label    string             // the name of a frame without a symbol
	or       []want             // also correct, where the contract leaves it open
}

// orUnchanged adds that the frame may stay as it came.
func (w want) orUnchanged(f rewritetest.Frame, why string) want {
	w.or = append(w.or, unchanged(f, why))
	return w
}

// outcomes are the names of reasons. An image without a symbol at an address is one.
var outcomes = map[timeline.Reason]string{
	timeline.ReasonNone: "unresolved", timeline.ReasonUnresolved: "unresolved",
	timeline.ReasonAmbiguous: "ambiguous", timeline.ReasonUnobserved: "unobserved",
}

// wants answers a stack.
func (a *asker) wants(stack []rewritetest.Frame) []want {
	wants := make([]want, len(stack))
	for i, u := range a.uses(stack) {
		wants[i] = a.hidden(a.want(&u))
	}
	return wants
}

// hides reports whether no absolute kernel address may come out (section 4.1).
func (a *asker) hides() bool {
	return a.opts.Addresses == rewrite.HideAddresses || a.opts.Addresses == rewrite.AutoAddresses && (a.core == nil || a.located)
}

// hidden returns the answer without absolute kernel addresses, if these must be hidden. Mappings are hidden in place, for
// all frames that have them.
func (a *asker) hidden(w want) want {
	if !a.hides() {
		return w
	}
	if f := &w.frame; isShown(f.Type, f.Address) {
		f.Address, f.Type, w.mappings = 0, "kernel", []*rewritetest.Mapping{nil}
	}
	var mappings []*rewritetest.Mapping
	for _, m := range w.mappings {
		if m == nil || !showsKernel(m.Start, m.Limit, m.Offset) {
			mappings = append(mappings, m)
			continue
		}
		for _, limit := range []uint64{0, min(max(m.Start+1, m.Limit)-m.Start, math.MaxInt64)} {
			without := *m
			without.Start, without.Limit, without.Offset = 0, limit, 0
			mappings = append(mappings, &without)
		}
	}
	w.mappings = mappings
	for i := range w.or {
		w.or[i] = a.hidden(w.or[i])
	}
	return w
}

// isShown reports whether a frame is one of those whose address is hidden (section 4.1).
func isShown(frameType string, addr uint64) bool {
	return isKernelAddress(addr) && (frameType == "" || frameType == "kernel")
}

// showsKernel reports whether a mapping is one of those whose range is hidden (section 4.1).
func showsKernel(start, limit, offset uint64) bool {
	return isKernelAddress(start) || isKernelAddress(limit-1) || isKernelAddress(offset)
}

func unchanged(f rewritetest.Frame, why string) want {
	return want{frame: f, mappings: []*rewritetest.Mapping{f.Mapping}, why: why}
}

// want answers a frame (sections 1.2 and 4.1).
func (a *asker) want(u *use) want {
	if u.other == nil {
		return a.wantAs(u)
	}
	w, exact := a.wantAs(u), a.wantAs(u.other)
	if key([]want{w}) == key([]want{exact}) && slices.Equal(w.lines, exact.lines) && w.label == exact.label && group(w.why) == group(exact.why) {
		if isNamed(u.frame) && !a.opts.All {
			w = w.orUnchanged(u.frame, w.why) // the address is part of the answer, also where it stays
		}
		return w
	}
	if isNamed(u.frame) && !a.opts.All {
		return unchanged(u.frame, "named")
	}
	w = unchanged(u.frame, "unresolved")
	w.frame.Type = "kernel"
	if isNamed(u.frame) {
		w.why = "named"
	}
	return w
}

// wantAs is want for a frame whose role is known.
func (a *asker) wantAs(u *use) want {
	named := isNamed(u.frame)
	switch {
	case !u.candidate:
		return unchanged(u.frame, "")
	case named && !a.opts.All:
		return a.cameNamed(u)
	case u.foreign:
		return unchanged(u.frame, "foreign")
	}
	w := a.selected(u, named)
	if named && w.resolved == nil {
		w = w.orUnchanged(w.frame, "named") // it is not said what it counts as
	}
	return w
}

// cameNamed answers a frame that came with a name, which it keeps. It may gain lines, and a relative address if the name is
// one of the kernel's.
func (a *asker) cameNamed(u *use) want {
	w := unchanged(u.frame, "named")
	lines := a.gains(u)
	if u.form == formAbsolute && !u.foreign && a.opts.Addresses != rewrite.KeepAddresses && a.agrees(u) {
		moved := w
		a.place(&moved, u)
		if moved.frame.Address>>63 == 0 || a.hides() {
			moved.frame.Type = "kernel"
			a.attribute(&moved, u)
			if lines != nil {
				moved.frame.Lines = lines
			}
			return moved
		}
	}
	if lines == nil || u.foreign {
		return w
	}
	w.frame.Lines, w.gained = lines, true
	if m := u.frame.Mapping; m != nil && hasFalse(m.Attributes) {
		w = w.orUnchanged(u.frame, "named") // it may be impossible to keep the mapping true
	}
	return w
}

// agrees reports whether the outermost name of a frame is one of the kernel's for its symbol.
func (a *asker) agrees(u *use) bool {
	n, s := len(u.frame.Lines), u.hit.symbol
	if n == 0 || s == nil {
		return false
	}
	name := cmp.Or(u.frame.Lines[n-1].Name, u.frame.Lines[n-1].System)
	return name == s.name || name == s.system || slices.Contains(s.others, name)
}

func hasFalse(attributes map[string]any) bool {
	for _, value := range attributes {
		if value == false {
			return true
		}
	}
	return false
}

// selected answers a frame that is rewritten.
func (a *asker) selected(u *use, named bool) want {
	w := unchanged(u.frame, outcomes[u.hit.reason])
	w.frame.Type = "kernel"
	m := u.hit.image
	switch {
	case u.form == formNone:
		w.why = outcomes[u.noForm]
		return w
	case m == nil:
		if u.form == formAbsolute && !named {
			w.mappings = []*rewritetest.Mapping{nil} // the one it came with does not cover it
		}
		return w
	case named && u.hit.symbol == nil:
		return w // what it has is better than nothing
	}
	placed := w
	if hasForm := a.place(&placed, u); !hasForm {
		w.why = outcomes[timeline.ReasonUnresolved]
		return w
	}
	w = placed
	switch s := u.hit.symbol; {
	case s != nil:
		w.resolved, w.why = s, "resolved"
		a.name(&w, u)
	case a.opts.Label && m.base() != 0:
		w.label = fmt.Sprintf("%s+0x%x", m.Name(), u.addr-m.base())
		if u.addr < m.base() {
			w.label = fmt.Sprintf("%s-0x%x", m.Name(), m.base()-u.addr)
		}
	}
	return w
}

// name writes the lines and the attributes of a frame with a name (sections 3.4 to 3.6, 4.3).
func (a *asker) name(w *want, u *use) {
	m, s := u.hit.image, u.hit.symbol
	a.attribute(w, u)
	w.lines = a.linesOf(m, s, u.addr)
	if n := len(u.frame.Lines); isNamed(u.frame) && n > 0 && u.frame.Lines[n-1].Name == s.name {
		if gained := a.gains(u); gained != nil {
			w.frame.Lines = gained
		}
		return // what came is at least as good
	}
	w.frame.Lines = w.lines
}

// linesOf returns the lines of a symbol's code at an address.
func (a *asker) linesOf(m *modelImage, s *modelSymbol, addr uint64) []rewritetest.Line {
	if packed := a.packLines(m, s, addr); packed != nil {
		return packed
	}
	line := rewritetest.Line{Name: s.name, System: s.system}
	for _, l := range m.lines {
		if m.start+uint64(l.offset) <= addr {
			line.File, line.Line, line.Column = l.file, l.line, l.column
		}
	}
	return []rewritetest.Line{line}
}

// attribute writes the attributes of a BPF function (section 4.3).
func (a *asker) attribute(w *want, u *use) {
	program := u.hit.image.Program
	if program == nil {
		return
	}
	w.frame.Attributes = maps.Clone(w.frame.Attributes)
	if w.frame.Attributes == nil {
		w.frame.Attributes = map[string]any{}
	}
	w.frame.Attributes["bpf.program.id"] = int64(program.ID)
	w.frame.Attributes["bpf.program.tag"] = program.Tag
	if program.Type != "" {
		w.frame.Attributes["bpf.program.type"] = program.Type
	}
}

// place writes address and mapping (sections 4.1 to 4.3). It reports false for an address that came
// relative and has no relative form.
func (a *asker) place(w *want, u *use) (hasForm bool) {
	m, came := u.hit.image, u.frame.Address
	relative, bare := u.form == formRelative, false
	isUncertain := m.Origin == timeline.OriginTrampoline && a.landmarks().SharedTrampolines // see section 3.5
	switch {
	case isUncertain && a.opts.Addresses == rewrite.KeepAddresses:
		bare = true
	case isUncertain:
		relative, w.frame.Address = true, 0
	case relative && (a.profiler || u.lookedUp), !relative && a.opts.Addresses == rewrite.KeepAddresses:
	default:
		sent := u.addr
		if a.profiler {
			sent = came // ip-1, as the profiler writes its own
		}
		relative = m.base() != 0 && sent >= m.base()
		if bare = !relative; relative {
			w.frame.Address = sent - m.base()
		} else if u.form == formRelative {
			return false
		}
	}
	ours := mappingFor(m, relative, bare)
	w.mappings = []*rewritetest.Mapping{&ours}
	if o := u.frame.Mapping; o != nil && isRight(o, &ours) {
		w.mappings = append(w.mappings, o)
	}
	return true
}

// mappingFor returns the mapping that is written for an image; bare, the mapping for addresses without a
// relative form.
func mappingFor(m *modelImage, relative, bare bool) rewritetest.Mapping {
	ours := rewritetest.Mapping{File: m.Name()}
	if !m.isText() {
		ours.File, ours.FileID = "[bpf]", buildid.ContentFileID(m.content())
	} else if m.BuildID() != "" {
		ours.BuildID, ours.FileID = m.BuildID(), buildid.FileID(m.BuildID())
	}
	switch {
	case relative:
	case bare:
		ours.BuildID, ours.FileID = "", ""
	default:
		ours.Start, ours.Limit = m.start, m.end
		if !m.isText() {
			ours.FileID = buildid.LoadedFileID(m.content(), m.start)
		} else if m.BuildID() != "" {
			ours.FileID = buildid.LoadedFileID(m.BuildID(), m.Base())
		}
	}
	return ours
}

// isRight reports whether a frame may keep the mapping that it came with: the mapping has the correct IDs and
// fits the form of the address (section 4.2).
func isRight(o, ours *rewritetest.Mapping) bool {
	if o.File != ours.File || o.FileID != ours.FileID || o.BuildID != ours.BuildID || o.Offset != 0 {
		return false
	}
	if ours.Limit == 0 {
		return o.Start == 0 && o.Limit == 0
	}
	return o.Start <= ours.Start && ours.Limit <= o.Limit
}
