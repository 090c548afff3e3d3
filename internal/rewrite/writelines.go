// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// line is a line of a location.
type line struct {
	function int32
	number   uint32
	column   uint16 // 10 bits in the kernel
	last     bool   // of its location
}

// linesOf returns the lines of a symbol that an answer has found, valid until the next ones
// are asked for.
func (w *writer) linesOf(a *answer, name *symtab.Name) []line {
	switch {
	case a.line < 0:
		return w.oneLine(w.m.funcs.intern(w.m, name, ""))
	case a.image.Text != nil:
		return w.ofChain(a.line)
	}
	at := a.image.Lines.Position(int(a.line))
	function := w.m.funcs.intern(w.m, name, at.File)
	w.lines = append(w.lines[:0], line{function: function, number: at.Line, column: uint16(at.Column), last: true})
	return w.lines
}

// oneLine returns the lines of a function of which no more is known.
func (w *writer) oneLine(function int32) []line {
	w.lines = append(w.lines[:0], line{function: function, last: true})
	return w.lines
}

// ofChain returns the lines of a chain.
func (w *writer) ofChain(number int32) []line {
	w.lines = w.appendChain(w.lines[:0], number)
	return w.lines
}

// appendChain appends the lines of a chain.
func (w *writer) appendChain(to []line, number int32) []line {
	to = w.appendLines(to, w.packs.memory.chains.at(number))
	to[len(to)-1].last = true
	return to
}

func (w *writer) appendLines(to []line, from []packLine) []line {
	for _, l := range from {
		to = append(to, line{function: w.packs.memory.functions.intern(w.m, l.function), number: l.number})
	}
	return to
}

// aroundNamed returns the lines of a chain whose outermost function a location came with, in its
// only line. That gains its file, and keeps what it has.
func (w *writer) aroundNamed(loc pprofile.Location, number int32) []line {
	memory := &w.packs.memory
	chain := memory.chains.at(number)
	outer := chain[len(chain)-1]
	w.lines = w.appendLines(w.lines[:0], chain[:len(chain)-1])
	has := keyOf(w.m.functions.At(int(loc.Lines().At(0).FunctionIndex())))
	function := w.m.funcs.internFrom(w.m, has, &memory.functions.known[outer.function].functionText)
	w.lines = append(w.lines, line{function: function, number: outer.number, last: true})
	return w.lines
}

// keepChain keeps the lines of a chain until they are written, and returns their position.
func (w *writer) keepChain(number int32) int32 {
	at := len(w.kept)
	w.kept = w.appendChain(w.kept, number)
	return int32(at)
}

// keptAt returns the lines that were kept at a position.
func (w *writer) keptAt(at int32) []line {
	end := at
	for !w.kept[end].last {
		end++
	}
	return w.kept[at : end+1]
}

// setLines gives a location lines in place of those that it has.
func (w *writer) setLines(loc pprofile.Location, want []line) {
	lines := loc.Lines()
	same := lines.Len() == len(want)
	for i := 0; same && i < len(want); i++ {
		l := lines.At(i)
		same = l.FunctionIndex() == want[i].function && l.Line() == int64(want[i].number) && l.Column() == int64(want[i].column)
	}
	if same {
		return
	}
	w.wrote = true
	if lines.Len() > 0 {
		lines.RemoveIf(func(pprofile.Line) bool { return true })
	}
	lines.EnsureCapacity(len(want))
	for _, add := range want {
		l := lines.AppendEmpty()
		l.SetFunctionIndex(add.function)
		l.SetLine(int64(add.number))
		l.SetColumn(int64(add.column))
	}
}

// hasName reports whether a symbol's name is the one that a location came with: that of its
// outermost function.
func (w *writer) hasName(loc pprofile.Location, name *symtab.Name) bool {
	n := loc.Lines().Len()
	return n > 0 && w.m.funcs.hasName(&w.m.dictionary, loc.Lines().At(n-1).FunctionIndex(), name)
}

// hasMore reports whether a pack has more than a location whose name is right but whose only
// line has no number (contract 1.2): a file and a number, or anything where not even a file is
// known.
func (w *writer) hasMore(loc pprofile.Location, a *answer) bool {
	if a.image.Text == nil || a.line < 0 || !lacksNumber(loc.Lines()) {
		return false
	}
	memory := &w.packs.memory
	chain := memory.chains.at(a.line)
	outer := chain[len(chain)-1]
	return outer.number != 0 && memory.functions.known[outer.function].file != "" ||
		!w.m.funcs.hasFile(&w.m.dictionary, loc.Lines().At(0).FunctionIndex())
}

// lacksNumber reports whether a location has one line, and that has no number.
func lacksNumber(lines pprofile.LineSlice) bool { return lines.Len() == 1 && lines.At(0).Line() == 0 }

// addLines gives a location whose name is right what its pack has, and nothing else
// (contract 1.2).
func (w *writer) addLines(loc pprofile.Location, a *answer) {
	if a.kind != answerNamed || !w.hasName(loc, a.image.SymbolName(a.image.Lookup(a.looked))) {
		return
	}
	mp := w.m.maps.at(w.m, loc.MappingIndex())
	untrue := slices.Contains(mp.content.has[:], attrFalse) // perhaps, once there are lines (contract 4.4)
	gains := w.hasMore(loc, a) && (!untrue || mp.canBeCopied())
	w.countPack(a, gains)
	if !gains {
		return
	}
	w.setLines(loc, w.aroundNamed(loc, a.line))
	if !untrue {
		return
	}
	content := mp.content
	for i, has := range w.m.has(loc, a.image) {
		if has == attrTrue && content.has[i] == attrFalse {
			content.has[i] = attrTrue
		}
	}
	if content != mp.content {
		loc.SetMappingIndex(w.m.maps.intern(w.m, content))
	}
}

// countPack counts what the pack of an answer's image gave. taken says that its lines, if there
// are any, were not left in favor of those that the frame came with.
func (w *writer) countPack(a *answer, taken bool) {
	if w.opts.DebugInfo && a.image.Text != nil && a.image.BuildID() != "" && (taken || a.line < 0) {
		w.gave[a.pack]++
	}
}
