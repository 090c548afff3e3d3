// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"math"
	"slices"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// packLines finds the lines that packs have for addresses (contract 10.1).
type packLines struct {
	packs  *pack.Set
	inline bool // see Options.Inline
	wanted wanted

	images map[*timeline.Image]*packedImage // those of the message
	last   *packedImage
	memory packMemory
	found  []pack.Frame // at the address that was looked up last,
	lines  []packLine   // and the lines that this makes
}

// packedImage is an image and the pack of its build.
type packedImage struct {
	*timeline.Image
	pack   *pack.Pack // nil if there is none
	number uint32     // of the image in the memory
}

func (l *packLines) begin(packs *pack.Set, inline bool) {
	l.packs, l.inline = packs, inline
	l.memory.begin(packs)
}

func (l *packLines) end() {
	clear(l.images)
	clear(l.found[:cap(l.found)])
	l.packs, l.wanted, l.last = nil, wanted{}, nil
}

func (l *packLines) bytes() int { return l.memory.bytes() + bytesOf(l.found) + bytesOf(l.lines) }

// of returns an image with its pack, which is wanted from now on.
func (l *packLines) of(image *timeline.Image) *packedImage {
	if l.last != nil && l.last.Image == image {
		return l.last
	}
	p := l.images[image]
	if p == nil {
		if l.images == nil {
			l.images = make(map[*timeline.Image]*packedImage)
		}
		p = &packedImage{Image: image, pack: l.packs.ByBuildID(image.BuildID())}
		if p.pack != nil {
			p.number = l.memory.number(image)
		}
		l.images[image] = p
		l.wanted.addBuild(image.BuildID())
	}
	l.last = p
	return p
}

// at returns the chain for an address that a symbol covers: its number, noChain if there is
// none, and what the pack gave.
func (l *packLines) at(of *timeline.Image, symbol symtab.Symbol, addr uint64) packAnswer {
	image := l.of(of)
	if image.pack == nil {
		return packAnswer{noChain, PackNone}
	}
	packed := addr - image.Base() + uint64(image.pack.Info().Base)
	if packed > math.MaxUint32 {
		return packAnswer{noChain, PackNone}
	}
	at := packAddress{image.number, uint32(packed)}
	answer, ok := l.memory.find(at)
	if !ok {
		answer = l.read(image, symbol, at.addr)
		l.memory.add(at, answer)
	}
	return answer
}

// read is at for a pack address that is not in the memory.
func (l *packLines) read(image *packedImage, symbol symtab.Symbol, addr uint32) packAnswer {
	l.found = image.pack.Find(addr, l.found[:0])
	if len(l.found) == 0 {
		return packAnswer{noChain, PackNone}
	}
	outer := l.found[len(l.found)-1]
	functions := &l.memory.functions
	function, ok := functions.outermost(image, symbol, &outer)
	if !ok {
		return packAnswer{noChain, PackNameMismatch}
	}
	result := PackLines
	l.lines = l.lines[:0]
	if inlined := l.found[:len(l.found)-1]; l.inline && !slices.ContainsFunc(inlined, isNameless) {
		for i := range inlined {
			l.lines = append(l.lines, packLine{functions.inlined(image, &inlined[i]), inlined[i].Line})
			result = PackInlined
		}
	}
	if result == PackLines && outer.File == "" && outer.Line == 0 {
		return packAnswer{noChain, PackNone}
	}
	l.lines = append(l.lines, packLine{function, outer.Line})
	return packAnswer{l.memory.chains.intern(l.lines), result}
}

func isNameless(f pack.Frame) bool { return f.Function == "" }
