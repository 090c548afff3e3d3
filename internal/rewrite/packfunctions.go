// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"
	"unique"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// packFunctions are the functions that packs named.
type packFunctions struct {
	known   []packFunction
	byID    index
	text    int    // the bytes of their names and files
	message uint32 // the number of the message that is rewritten
}

// packFunction is a function of a pack: one that was inlined or, for a symbol that it is the
// code of, the symbol with the function's file. It shares no memory with the pack.
type packFunction struct {
	packFunctionID
	functionText        // without a name if the symbol is of another function
	index        int32  // in the function table,
	message      uint32 // of the message with this number
}

// packFunctionID identifies it. symbol is the offset of the symbol in the image, plus 1; 0
// for a function that was inlined.
type packFunctionID struct {
	image, symbol uint32
	frame         uint64 // pack.Frame.ID
}

func (f *packFunctions) reset() {
	clear(f.known)
	f.known, f.byID.built, f.text = f.known[:0], false, 0
}

func (f *packFunctions) bytes() int { return bytesOf(f.known) + f.byID.bytes() + f.text }

// outermost returns the position of the function that a symbol is, with the file that a
// frame of its pack has. It reports false if they are of different functions.
func (f *packFunctions) outermost(image *packedImage, symbol symtab.Symbol, frame *pack.Frame) (at int32, ok bool) {
	at, isNew := f.find(packFunctionID{image.number, uint32(symbol.Start-image.Start) + 1, frame.ID})
	known := &f.known[at]
	if isNew {
		name := image.SymbolName(symbol)
		if frame.Function == "" || pack.Agree(name.System, frame.Function) {
			known.functionText = textOf(name, unique.Make(frame.File).Value())
			f.text += len(frame.File)
		}
	}
	return at, known.name != nil
}

// inlined returns the position of the function of a frame.
func (f *packFunctions) inlined(image *packedImage, frame *pack.Frame) (at int32) {
	at, isNew := f.find(packFunctionID{image: image.number, frame: frame.ID})
	if isNew {
		name := symtab.NameOf(unique.Make(frame.Function).Value())
		f.known[at].functionText = textOf(&name, unique.Make(frame.File).Value())
		f.text += len(name.Name) + len(name.System) + len(frame.File)
	}
	return at
}

// find returns the position of a function, and whether it was added by this call.
func (f *packFunctions) find(id packFunctionID) (at int32, isNew bool) {
	if !f.byID.built {
		f.byID.reset(0)
	}
	hash := mix(uint64(id.image)<<32|uint64(id.symbol), id.frame)
	if at, ok := f.byID.find(hash, func(pos int32) bool { return f.known[pos].packFunctionID == id }); ok {
		return at, false
	}
	at = int32(len(f.known))
	f.known = append(f.known, packFunction{packFunctionID: id})
	f.byID.addNew(hash, at)
	return at, true
}

// intern returns the index of a function in the function table, to which it is appended if
// it is not there.
func (f *packFunctions) intern(m *message, at int32) int32 {
	known := &f.known[at]
	if known.message != f.message {
		known.message, known.index = f.message, m.funcs.internText(m, &known.functionText)
	}
	return known.index
}

// chains are lists of lines, each of them once.
type chains struct {
	all     []chain
	lines   []packLine
	byLines index
}

// chain is a part of chains.lines, innermost line first.
type chain struct{ first, count int32 }

type packLine struct {
	function int32 // position in packFunctions
	number   uint32
}

// noChain is the number of a chain where there is none.
const noChain = int32(-1)

func (c *chains) reset() { c.all, c.lines, c.byLines.built = c.all[:0], c.lines[:0], false }

func (c *chains) bytes() int { return bytesOf(c.all) + bytesOf(c.lines) + c.byLines.bytes() }

// at returns the lines of a chain.
func (c *chains) at(number int32) []packLine {
	part := c.all[number]
	return c.lines[part.first : part.first+part.count]
}

// intern returns the number of the chain with these lines, which are not retained.
func (c *chains) intern(lines []packLine) int32 {
	if !c.byLines.built {
		c.byLines.reset(0)
	}
	hash := uint64(0)
	for _, line := range lines {
		hash = mix(hash, uint64(uint32(line.function))<<32|uint64(line.number))
	}
	if at, ok := c.byLines.find(hash, func(pos int32) bool { return slices.Equal(c.at(pos), lines) }); ok {
		return at
	}
	at := int32(len(c.all))
	c.all = append(c.all, chain{int32(len(c.lines)), int32(len(lines))})
	c.lines = append(c.lines, lines...)
	c.byLines.addNew(hash, at)
	return at
}
