// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// writeResults writes the frames that have one answer, in the order of their locations.
func (p *pass) writeResults() {
	for i := range p.frames {
		switch f := &p.frames[i]; {
		case p.functions[i] != 0:
			p.w.writeCore(f, p.functions[i], p.r.snapshot.Core())
		case f.answer != 0:
			p.w.write(p.m.locations.At(int(f.loc)), f, &p.answers[f.answer-1])
		}
	}
}

// writer writes answers into locations.
type writer struct {
	m     *message
	opts  *Options
	packs *packLines
	wrote bool       // the message is another than before
	gave  PackCounts // what packs gave for the frames
	placings
	lines []line // that are being written
	kept  []line // of frames in the core kernel
}

// writeCore writes a symbol of the core kernel into a frame without a name: its function, or
// ^ where the lines are kept that a pack has for it.
func (w *writer) writeCore(f *frame, function int32, core *timeline.Image) {
	w.wrote = true
	loc := w.m.locations.At(int(f.loc))
	if function < 0 {
		w.setLines(loc, w.keptAt(^function))
	} else {
		w.setLines(loc, w.oneLine(function))
	}
	if !w.opts.KeepAddresses {
		looked, _ := f.plainLooked()
		if f.uses == 1<<(useExact|useEBPF) {
			looked = f.addr // as the eBPF profiler writes its own
		}
		loc.SetAddress(looked - core.Base())
	}
	w.place(loc, placing{image: core, relative: !w.opts.KeepAddresses})
	if f.untyped {
		loc.AttributeIndices().Append(w.m.attributes.intern(w.m, attrKernelFrame, textValue(frameTypeKernel)))
	}
}

// write puts an answer into a location, which is the frame's or a copy of it
// (contract 4).
func (w *writer) write(loc pprofile.Location, f *frame, a *answer) {
	if a.kind == answerUntouched {
		return
	}
	if f.onlyLines {
		w.addLines(loc, a)
		return
	}
	if f.untyped {
		w.wrote = true
		loc.AttributeIndices().Append(w.m.attributes.intern(w.m, attrKernelFrame, textValue(frameTypeKernel)))
	}
	if f.named && a.kind != answerNamed {
		return // what it has is better than nothing
	}
	switch a.kind {
	case answerTyped:
		return
	case answerUnknown:
		if loc.MappingIndex() != 0 && w.m.maps.hasNone {
			w.wrote = true
			loc.SetMappingIndex(0)
		}
		return
	case answerNamed:
		w.writeSymbol(loc, f, a)
	case answerOwned:
		if a.looked != 0 {
			name := label(a.image, a.looked)
			w.setLines(loc, w.oneLine(w.m.funcs.intern(w.m, &symtab.Name{Name: name, System: name}, "")))
		}
	}
	if loc.Address() != a.address {
		w.wrote = true
		loc.SetAddress(a.address)
	}
	w.place(loc, placing{image: a.image, relative: a.isRel, bare: a.bare})
}

// writeSymbol writes the symbol that an answer has found (contract 3.4 to 3.6).
func (w *writer) writeSymbol(loc pprofile.Location, f *frame, a *answer) {
	folded := false
	if a.image.Text == nil && a.line < 0 && !f.named {
		w.setLines(loc, w.oneLine(w.functionOf(a)))
	} else {
		name := a.image.SymbolName(a.image.Lookup(a.looked))
		taken := true
		switch {
		case !f.named || !w.hasName(loc, name):
			w.setLines(loc, w.linesOf(a, name))
		case w.hasMore(loc, a):
			w.setLines(loc, w.aroundNamed(loc, a.line))
		default: // the lines that it came with know more
			taken = false
		}
		w.countPack(a, taken)
		folded = name.Folded
	}
	if w.m.attributes.used[attrIsFolded] {
		w.setFolded(loc, folded)
	}
	if a.image.Text != nil {
		return
	}
	if program := a.image.Program; program != nil {
		w.setAttribute(loc, attrProgramID, numberValue(int64(program.ID)))
		w.setAttribute(loc, attrProgramTag, textValue(program.Tag))
		if program.Type != "" {
			w.setAttribute(loc, attrProgramType, textValue(program.Type))
		}
	}
}

// setAttribute gives a location an attribute.
func (w *writer) setAttribute(loc pprofile.Location, kind attribute, value attrValue) {
	indices := loc.AttributeIndices()
	if has := w.m.attributes.find(indices, kind); has >= 0 && w.m.attributes.value(&w.m.dictionary, has) == value {
		return
	}
	w.wrote = true
	w.m.attributes.set(w.m, indices, kind, value)
}

// setFolded keeps pprof.location.is_folded true to what it says: whether the
// name is one of several at the address. Locations without it are not folded.
func (w *writer) setFolded(loc pprofile.Location, folded bool) {
	switch {
	case folded:
		w.setAttribute(loc, attrIsFolded, boolValue(true))
	case w.m.attributes.find(loc.AttributeIndices(), attrIsFolded) >= 0:
		w.setAttribute(loc, attrIsFolded, boolValue(false))
	}
}

// place gives a location, whose lines are written, the mapping that goes with its
// address, unless it has it already.
func (w *writer) place(loc pprofile.Location, pl placing) {
	used := &w.m.attributes.used
	if used[attrHasFunctions] || used[attrHasFilenames] || used[attrHasLineNumbers] || used[attrHasInlined] {
		pl.has = w.m.has(loc, pl.image)
	}
	at := w.placed(pl)
	has := loc.MappingIndex()
	if has != 0 && (has == at.mapping || w.m.maps.at(w.m, has).content.isRight(w.contentOf(pl))) {
		return
	}
	if at.mapping == 0 {
		at.mapping = w.m.maps.intern(w.m, *w.contentOf(pl))
	}
	if has != at.mapping {
		w.wrote = true
		loc.SetMappingIndex(at.mapping)
	}
}

// has returns what the attributes of a location's mapping have to say of its lines, where
// the message uses them (contract 4.4).
func (m *message) has(loc pprofile.Location, image *timeline.Image) (has hasFlags) {
	var files, numbers bool
	lines := loc.Lines()
	for i := range lines.Len() {
		line := lines.At(i)
		numbers = numbers || line.Line() != 0
		files = files || m.funcs.hasFile(&m.dictionary, line.FunctionIndex())
	}
	for i, value := range [...]bool{image.Len() > 0 || lines.Len() > 0, files, numbers, lines.Len() > 1} {
		if m.attributes.used[attrHasFunctions+attribute(i)] {
			has[i] = boolOf(value)
		}
	}
	return has
}

// label names an address in an image for which there is no symbol.
func label(image *timeline.Image, addr uint64) string {
	base := image.Base()
	if addr < base {
		return image.Name() + "-0x" + strconv.FormatUint(base-addr, 16)
	}
	return image.Name() + "+0x" + strconv.FormatUint(addr-base, 16)
}
