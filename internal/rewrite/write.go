// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// writeAnswers writes the frames that have one answer: first the names, in the order of the addresses, as frames
// in one function share an entry; then the locations, in their order.
func (p *pass) writeAnswers() {
	p.internNames()
	for i := range p.frames {
		f := &p.frames[i]
		if f.varies || f.answer == noAnswer {
			continue
		}
		a := &p.answers[f.answer]
		p.countPack(p.writer.write(p.message.Locations.At(f.location), f, a))
	}
}

// internNames interns the functions of frames that get a name and nothing more.
func (p *pass) internNames() {
	var image *timeline.Image
	var symbol symtab.Symbol
	function := int32(0)
	for i := range p.answers {
		a := &p.answers[i]
		f := &p.frames[p.questions.all[i].frame]
		if f.varies || f.answer != questionIndex(i) || f.code.Named || a.change.kind != writeName || a.change.lines != inline.NoChain {
			continue
		}
		if a.change.symbol != symbol || a.change.image != image {
			image, symbol = a.change.image, a.change.symbol
			function = p.writer.internSymbol(image.SymbolName(symbol), "")
		}
		a.function = function
	}
}

// A writer writes answers into locations.
type writer struct {
	message *otlp.Message
	lines   *inline.Lines
	changed bool // something was written

	lineFunctions []int32 // by the number that package inline has for them, the index in the function table
	buffer        []line

	mappings []wantedMapping
	byKey    map[mappingKey]int32 // positions in mappings
	last     int32                // the position that was looked for last
}

// line is a line of a location.
type line struct {
	function int32
	number   uint32
	column   uint32
}

// wantedMapping is a mapping that locations should have.
type wantedMapping struct {
	key     mappingKey
	content otlp.Mapping
	index   int32 // in the mapping table, 0 while no location has it
}

type mappingKey struct {
	image *timeline.Image
	form  addressForm
	flags otlp.Flags
}

func (w *writer) open(p *pass) {
	w.message, w.lines, w.changed = &p.message, &p.lines, false
}

func (w *writer) close() {
	clear(w.mappings)
	clear(w.byKey)
	w.mappings, w.lineFunctions = w.mappings[:0], w.lineFunctions[:0]
}

// write writes an answer into a location, which is the frame's or a copy of it (contract 4). It returns the pack's result
// if that counts, and [inline.NotAsked] if not: no pack was asked, or it gave lines that were not written.
func (w *writer) write(loc pprofile.Location, f *frame, a *answer) (gave inline.Result) {
	c := &a.change
	switch {
	case c.kind == leaveUntouched:
		return inline.NotAsked
	case f.keepsName && !w.isMoved(loc, f, c):
		return w.addLines(loc, a)
	}
	if !f.code.Typed {
		w.setType(loc)
	}
	if f.code.Named && c.kind != writeName {
		return inline.NotAsked // a name that it came with is better than none
	}
	switch c.kind {
	case writeType:
		return inline.NotAsked
	case writeNoMapping:
		w.removeMapping(loc)
		return inline.NotAsked
	case writeName:
		gave = w.writeName(loc, f, a)
	case writeImage:
		if c.label != 0 {
			name := label(c.image, c.label)
			w.setLines(loc, line{function: w.internSymbol(&symtab.Name{Name: name, System: name}, "")})
		}
	}
	if loc.Address() != c.address {
		w.changed = true
		loc.SetAddress(c.address)
	}
	w.setMapping(loc, c)
	return gave
}

// isMoved reports whether the absolute address of a frame that keeps its name becomes relative (see contract 1.2): its name
// is one of the kernel's for the code there.
func (w *writer) isMoved(loc pprofile.Location, f *frame, c *change) bool {
	isRelative := c.form == fromBase || c.form == hidden
	return c.kind == writeName && f.code.IsAbsolute() && isRelative && (w.hasName(loc, c) || w.hasAlias(loc, c))
}

// writeName writes the lines and the attributes of a location whose symbol is known (see contract 3.4 to 3.6, 4.3). It
// returns what write does.
func (w *writer) writeName(loc pprofile.Location, f *frame, a *answer) (gave inline.Result) {
	c := &a.change
	gave = a.gave
	switch {
	case a.function != 0:
		w.setLines(loc, line{function: a.function})
	case f.keepsName && !w.hasName(loc, c): // an alias of the name stays
		gave = a.gaveUnwritten()
	case f.code.Named && w.hasName(loc, c):
		if w.addsLines(loc, a) {
			w.setLines(loc, w.linesAroundNamed(loc, c.lines)...)
		} else { // it came with better lines
			gave = a.gaveUnwritten()
		}
	default:
		w.setLines(loc, w.linesOf(c)...)
	}
	if !f.keepsName && w.message.Attributes.Uses(otlp.IsFolded) {
		w.setFolded(loc, c.image.SymbolName(c.symbol).Folded)
	}
	if program := c.image.Program; program != nil {
		w.setAttribute(loc, otlp.ProgramID, otlp.NumberValue(int64(program.ID)))
		w.setAttribute(loc, otlp.ProgramTag, otlp.TextValue(program.Tag))
		if program.Type != "" {
			w.setAttribute(loc, otlp.ProgramType, otlp.TextValue(program.Type))
		}
	}
	return gave
}

// internSymbol returns the index of a symbol in the function table.
func (w *writer) internSymbol(name *symtab.Name, file string) int32 {
	return w.message.Functions.Intern(otlp.Function{Name: name.Name, System: name.System, File: file})
}

// linesOf returns the lines of a change, innermost function first. They are valid until the next call.
func (w *writer) linesOf(c *change) []line {
	w.buffer = w.buffer[:0]
	if c.lines == inline.NoChain {
		w.buffer = append(w.buffer, line{function: w.internSymbol(c.image.SymbolName(c.symbol), "")})
	}
	for l := range w.lines.Of(c.lines) {
		w.buffer = append(w.buffer, line{w.internLineFunction(l.Function), l.Number, l.Column})
	}
	return w.buffer
}

// internLineFunction returns the index of a function of lines in the function table.
func (w *writer) internLineFunction(number int) int32 {
	if n := w.lines.NumFunctions(); len(w.lineFunctions) < n {
		w.lineFunctions = append(w.lineFunctions, make([]int32, n-len(w.lineFunctions))...)
	}
	index := &w.lineFunctions[number]
	if *index == 0 {
		f := w.lines.Function(number)
		*index = w.internSymbol(f.Name, f.File)
	}
	return *index
}

// linesAroundNamed returns the lines of a chain for a location that came with the name of the chain's outermost
// function, in its only line. That function gains a file, and keeps its names.
func (w *writer) linesAroundNamed(loc pprofile.Location, chain inline.Chain) []line {
	outer := w.lines.Outermost(chain)
	is := w.lines.Function(outer.Function)
	named := w.message.Functions.InternWithFile(loc.Lines().At(0).FunctionIndex(), otlp.Function{
		Name: is.Name.Name, System: is.Name.System, File: is.File,
	})
	w.buffer = w.buffer[:0]
	for l := range w.lines.Inlined(chain) {
		w.buffer = append(w.buffer, line{function: w.internLineFunction(l.Function), number: l.Number})
	}
	return append(w.buffer, line{function: named, number: outer.Number})
}

// setLines replaces the lines of a location.
func (w *writer) setLines(loc pprofile.Location, want ...line) {
	lines := loc.Lines()
	if hasLines(lines, want) {
		return
	}
	w.changed = true
	if lines.Len() > 0 {
		lines.RemoveIf(func(pprofile.Line) bool { return true })
	}
	lines.EnsureCapacity(len(want))
	for _, l := range want {
		added := lines.AppendEmpty()
		added.SetFunctionIndex(l.function)
		added.SetLine(int64(l.number))
		added.SetColumn(int64(l.column))
	}
}

func hasLines(lines pprofile.LineSlice, want []line) bool {
	if lines.Len() != len(want) {
		return false
	}
	for i, l := range want {
		has := lines.At(i)
		if has.FunctionIndex() != l.function || has.Line() != int64(l.number) || has.Column() != int64(l.column) {
			return false
		}
	}
	return true
}

// hasName reports whether the outermost function of a location has the name of the symbol of a change.
func (w *writer) hasName(loc pprofile.Location, c *change) bool {
	has, name := w.outermostName(loc), c.image.SymbolName(c.symbol)
	return has != "" && (has == name.Name || has == name.System)
}

// hasAlias reports whether the outermost function of a location has a name that was given up for that of the symbol (see
// contract 3.3).
func (w *writer) hasAlias(loc pprofile.Location, c *change) bool {
	has := w.outermostName(loc)
	return has != "" && !c.image.IsFunction() && c.image.Text.HasName(c.symbol, has)
}

// outermostName returns the name of the outermost function of a location, empty if there is none.
func (w *writer) outermostName(loc pprofile.Location) string {
	n := loc.Lines().Len()
	if n == 0 {
		return ""
	}
	return w.message.Functions.Name(loc.Lines().At(n - 1).FunctionIndex())
}

// addsLines reports whether a pack has more than a location that came with the right name and with one line
// without a number (see contract 1.2): a file and a number, or anything where not even a file is known.
func (w *writer) addsLines(loc pprofile.Location, a *answer) bool {
	c := &a.change
	if a.gave == inline.NotAsked || c.lines == inline.NoChain || !lacksNumber(loc.Lines()) {
		return false
	}
	outer := w.lines.Outermost(c.lines)
	return outer.Number != 0 && w.lines.Function(outer.Function).File != "" ||
		w.message.Functions.At(loc.Lines().At(0).FunctionIndex()).File == ""
}

// addLines gives a location whose name is right the lines of a pack, and changes nothing else (see contract 1.2). It
// returns what write does.
func (w *writer) addLines(loc pprofile.Location, a *answer) (gave inline.Result) {
	c := &a.change
	switch {
	case a.gave == inline.NotAsked, !w.hasName(loc, c):
		return inline.NotAsked
	case !w.addsLines(loc, a):
		return a.gaveUnwritten()
	}
	index := loc.MappingIndex()
	content, _ := w.message.Mappings.At(index)
	mayBeUntrue := slices.Contains(content.Flags[:], otlp.FlagFalse) // once there are lines (see contract 4.4)
	if mayBeUntrue && !w.message.Mappings.CanCopy(index) {
		return inline.NotAsked
	}
	w.setLines(loc, w.linesAroundNamed(loc, c.lines)...)
	if mayBeUntrue {
		w.correctFlags(loc, *content, c)
	}
	return a.gave
}

// correctFlags gives a location a copy of its mapping if the flags deny something that the location has now.
func (w *writer) correctFlags(loc pprofile.Location, content otlp.Mapping, c *change) {
	corrected := content
	for i, flag := range w.message.FlagsOf(loc, c.image.Len() > 0) {
		if flag == otlp.FlagTrue && content.Flags[i] == otlp.FlagFalse {
			corrected.Flags[i] = otlp.FlagTrue
		}
	}
	if corrected != content {
		loc.SetMappingIndex(w.message.Mappings.Intern(corrected))
	}
}

// setType gives a location the frame type of kernel code.
func (w *writer) setType(loc pprofile.Location) {
	w.setAttribute(loc, otlp.KernelFrameType, otlp.TextValue("kernel"))
}

func (w *writer) setAttribute(loc pprofile.Location, kind otlp.Kind, v otlp.Value) {
	if w.message.Attributes.Set(loc.AttributeIndices(), kind, v) {
		w.changed = true
	}
}

// setFolded keeps pprof.location.is_folded true: whether the name is one of several at the address. A location
// without it is not folded.
func (w *writer) setFolded(loc pprofile.Location, isFolded bool) {
	_, has := w.message.Attributes.Find(loc.AttributeIndices(), otlp.IsFolded)
	if isFolded || has {
		w.setAttribute(loc, otlp.IsFolded, otlp.BoolValue(isFolded))
	}
}

// removeMapping takes the mapping away that does not cover the address of a location, unless index 0 may mean a
// mapping (see contract 1.6).
func (w *writer) removeMapping(loc pprofile.Location) {
	if loc.MappingIndex() != 0 && w.message.Mappings.NoneIsZero() {
		w.changed = true
		loc.SetMappingIndex(0)
	}
}

// setMapping gives a location, whose lines are written, the mapping that goes with its address, unless the one
// that it has is right.
func (w *writer) setMapping(loc pprofile.Location, c *change) {
	if c.form == hidden {
		return // it has none any more
	}
	want := w.wantedMapping(mappingKey{c.image, c.form, w.message.FlagsOf(loc, c.image.Len() > 0)})
	index := loc.MappingIndex()
	if index != 0 {
		if index == want.index {
			return
		}
		if content, _ := w.message.Mappings.At(index); isRight(content, &want.content) {
			return
		}
	}
	if want.index == 0 {
		want.index = w.message.Mappings.Intern(want.content)
	}
	w.changed = true
	loc.SetMappingIndex(want.index)
}

// wantedMapping returns the mapping for a key. It is valid until the next call.
func (w *writer) wantedMapping(key mappingKey) *wantedMapping {
	if int(w.last) < len(w.mappings) && w.mappings[w.last].key == key {
		return &w.mappings[w.last]
	}
	at, ok := w.byKey[key]
	if !ok {
		if w.byKey == nil {
			w.byKey = make(map[mappingKey]int32)
		}
		at = int32(len(w.mappings))
		w.mappings = append(w.mappings, wantedMapping{key: key, content: mappingFor(key.image, key.form, key.flags)})
		w.byKey[key] = at
	}
	w.last = at
	return &w.mappings[at]
}
