// SPDX-License-Identifier: Apache-2.0

package inline

import (
	"iter"
	"math"
	"unique"
	"weak"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Result says what a pack gave for a frame.
type Result uint8

// The results.
const (
	NotAsked      Result = iota // no pack was asked
	GaveLines                   // file and line of its function
	GaveInlined                 // and functions that were inlined there
	GaveNothing                 // nothing: there is no pack, or it knows nothing there
	WrongFunction               // nothing, as the pack has another function there
	NumResults    = iota
)

// String returns the result's name in metrics.
func (r Result) String() string {
	return [NumResults]string{"not_asked", "lines", "inlined", "none", "name_mismatch"}[r]
}

// A Chain identifies the lines that a pack or a BPF program has for an address. Equal chains have equal lines, until the next
// call of [Lines.Open].
type Chain int32

// NoChain is the chain without lines.
const NoChain Chain = 0

// A Line is one line of a chain.
type Line struct {
	Function int    // for [Lines.Function]
	Number   uint32 // counted from 1, 0 if it is not known
	Column   uint32 // of a BPF function, counted from 1; 0 if it is not known
}

// A Function is a function that a pack has named, or the symbol of the code, with the file of the line.
type Function struct {
	Name *symtab.Name // nil if the pack has another function than the symbol
	File string       // empty if it is not known
}

// Lines finds the lines of addresses. It remembers what packs said, as long as the same packs are open, and keeps
// neither packs nor images alive between messages. Its zero value is ready for [Lines.Open]. It is not safe for
// concurrent use.
type Lines struct {
	Wanted Wanted // the builds of all images that were asked about

	packs   *pack.Set
	inlined bool
	images  map[*timeline.Image]packedImage // of this message
	found   []pack.Frame                    // a buffer

	remembered weak.Pointer[pack.Set] // the packs that said the rest
	numbers    map[weak.Pointer[timeline.Image]]uint32
	answers    map[address]answer
	functions  []Function
	byID       map[functionID]int
	nodes      []node // of the chains; the first is NoChain
	byNode     map[node]Chain
}

// packedImage is an image whose pack is known. pack is nil if there is none.
type packedImage struct {
	pack   *pack.Pack
	number uint32
}

// address is an address of an image: of a pack, that in the pack; of a BPF function, the number of its line.
type address struct{ image, addr uint32 }

type answer struct {
	chain  Chain
	result Result
}

// functionID identifies a function of a pack, or a line of a BPF function. symbol is the offset of the symbol that it is
// the code of, plus 1; 0 for a function that was inlined.
type functionID struct {
	image, symbol uint32
	frame         uint64 // pack.Frame.ID, or the number of the line
}

// node is a line, and the chain that it was inlined into.
type node struct {
	outer Chain
	line  Line
}

// If more is remembered, it is forgotten before the next message.
const (
	maxAnswers = 1 << 16
	maxNodes   = 1 << 18
)

// Open begins a message. inlined says whether chains have the functions that were inlined.
func (l *Lines) Open(packs *pack.Set, inlined bool) {
	l.packs, l.inlined, l.Wanted = packs, inlined, Wanted{}
	if of := weak.Make(packs); l.byNode == nil || l.remembered != of || len(l.answers) > maxAnswers || len(l.nodes) > maxNodes {
		l.forget(of)
	}
}

func (l *Lines) forget(packs weak.Pointer[pack.Set]) {
	l.remembered = packs
	l.numbers = make(map[weak.Pointer[timeline.Image]]uint32)
	l.answers = make(map[address]answer)
	l.functions, l.byID = nil, make(map[functionID]int)
	l.nodes, l.byNode = make([]node, 1), make(map[node]Chain)
}

// Close ends a message.
func (l *Lines) Close() {
	l.packs, l.images, l.Wanted = nil, nil, Wanted{}
	clear(l.found[:cap(l.found)])
}

// Remembered returns how many answers, functions and lines are remembered.
func (l *Lines) Remembered() int { return len(l.answers) + len(l.functions) + len(l.nodes) }

// OfProgram returns the chain for an address in a BPF function: the line that the program has for it (contract 3.6).
func (l *Lines) OfProgram(image *timeline.Image, symbol symtab.Symbol, addr uint64) Chain {
	number, ok := image.Lines.Find(uint32(addr - symbol.Start))
	if !ok {
		return NoChain
	}
	at := address{l.number(image), uint32(number)}
	found, ok := l.answers[at]
	if !ok {
		is := image.Lines.Position(number)
		id := functionID{image: at.image, symbol: 1, frame: uint64(number)}
		function := l.function(id, func() Function { return Function{Name: image.SymbolName(symbol), File: is.File} })
		found.chain = l.chain(node{NoChain, Line{function, is.Line, is.Column}})
		l.answers[at] = found
	}
	return found.chain
}

// At returns the chain for an address in a symbol of an image that has a build id, and the result (contract 10.1). The
// pack of that build is wanted from now on.
func (l *Lines) At(image *timeline.Image, symbol symtab.Symbol, addr uint64) (Chain, Result) {
	packed := l.packedImage(image)
	if packed.pack == nil {
		return NoChain, GaveNothing
	}
	offset := addr - image.Base() + uint64(packed.pack.Info().Base)
	if offset > math.MaxUint32 {
		return NoChain, GaveNothing
	}
	at := address{packed.number, uint32(offset)}
	found, ok := l.answers[at]
	if !ok {
		found.chain, found.result = l.read(packed, image, symbol, at.addr)
		l.answers[at] = found
	}
	return found.chain, found.result
}

func (l *Lines) packedImage(image *timeline.Image) packedImage {
	packed, ok := l.images[image]
	if ok {
		return packed
	}
	if packed.pack = l.packs.ByBuildID(image.BuildID()); packed.pack != nil {
		packed.number = l.number(image)
	}
	if l.images == nil {
		l.images = make(map[*timeline.Image]packedImage)
	}
	l.images[image] = packed
	l.Wanted.Add(image.BuildID(), "")
	return packed
}

// number returns the number of an image, which stands for it between messages.
func (l *Lines) number(image *timeline.Image) uint32 {
	key := weak.Make(image)
	number, ok := l.numbers[key]
	if !ok {
		number = uint32(len(l.numbers))
		l.numbers[key] = number
	}
	return number
}

// read is At for an address of a pack that is not remembered.
func (l *Lines) read(packed packedImage, image *timeline.Image, symbol symtab.Symbol, addr uint32) (Chain, Result) {
	l.found = packed.pack.Find(addr, l.found[:0])
	if len(l.found) == 0 {
		return NoChain, GaveNothing
	}
	inlined, outer := l.found[:len(l.found)-1], &l.found[len(l.found)-1]
	id := functionID{packed.number, uint32(symbol.Start-image.Start) + 1, outer.ID}
	function := l.function(id, func() Function { return outermost(image.SymbolName(symbol), outer) })
	if l.functions[function].Name == nil {
		return NoChain, WrongFunction
	}
	if !l.inlined {
		inlined = nil
	}
	if len(inlined) == 0 && outer.File == "" && outer.Line == 0 {
		return NoChain, GaveNothing
	}
	chain := l.chain(node{NoChain, Line{Function: function, Number: outer.Line}})
	for i := len(inlined) - 1; i >= 0; i-- {
		f := &inlined[i]
		function := l.function(functionID{image: packed.number, frame: f.ID}, func() Function { return innerFunction(f) })
		chain = l.chain(node{chain, Line{Function: function, Number: f.Line}})
	}
	if len(inlined) > 0 {
		return chain, GaveInlined
	}
	return chain, GaveLines
}

// outermost returns a symbol with the file that its pack has, without a name if the pack has another function.
func outermost(name *symtab.Name, f *pack.Frame) Function {
	if f.Function != "" && !pack.Agree(name.System, f.Function) {
		return Function{}
	}
	return Function{Name: name, File: unique.Make(f.File).Value()}
}

func innerFunction(f *pack.Frame) Function {
	name := symtab.NameOf(unique.Make(f.Function).Value())
	return Function{Name: &name, File: unique.Make(f.File).Value()}
}

func (l *Lines) function(id functionID, read func() Function) int {
	at, ok := l.byID[id]
	if !ok {
		at = len(l.functions)
		l.functions = append(l.functions, read())
		l.byID[id] = at
	}
	return at
}

func (l *Lines) chain(n node) Chain {
	at, ok := l.byNode[n]
	if !ok {
		at = Chain(len(l.nodes))
		l.nodes = append(l.nodes, n)
		l.byNode[n] = at
	}
	return at
}

// Of yields the lines of a chain: the innermost first, that of the symbol last.
func (l *Lines) Of(c Chain) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for c != NoChain && yield(l.nodes[c].line) {
			c = l.nodes[c].outer
		}
	}
}

// Inlined yields the lines of a chain but for that of the symbol.
func (l *Lines) Inlined(c Chain) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for l.nodes[c].outer != NoChain && yield(l.nodes[c].line) {
			c = l.nodes[c].outer
		}
	}
}

// Outermost returns the line of the symbol of a chain, which must not be NoChain.
func (l *Lines) Outermost(c Chain) Line {
	for l.nodes[c].outer != NoChain {
		c = l.nodes[c].outer
	}
	return l.nodes[c].line
}

// Function returns a function of a line.
func (l *Lines) Function(number int) *Function { return &l.functions[number] }

// NumFunctions returns the number of functions so far.
func (l *Lines) NumFunctions() int { return len(l.functions) }
