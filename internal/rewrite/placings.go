// SPDX-License-Identifier: Apache-2.0

package rewrite

// placings remembers how images are written: many locations are of one.
type placings struct {
	all   []placed
	index index
	last  int // position of the one that was asked for last

	ofContent placing
	content   mappingContent // of that
}

// placed is how the locations of an image are written.
type placed struct {
	placing
	mapping  int32 // its index in the mapping table, 0 while nothing refers to it
	function int32 // of an image with one name: its index in the function table, likewise
}

// kept returns the memory, with nothing in it.
func (t *placings) kept() placings {
	clear(t.all)
	t.index.built = false
	return placings{all: t.all[:0], index: t.index}
}

func (t *placings) bytes() int { return bytesOf(t.all) + t.index.bytes() }

// placed returns what is remembered, valid until another is asked for.
func (t *placings) placed(pl placing) *placed {
	if t.last < len(t.all) && t.all[t.last].placing == pl {
		return &t.all[t.last]
	}
	if !t.index.built {
		t.index.resetAgain()
	}
	hash := pl.hash()
	at, ok := t.index.find(hash, func(pos int32) bool { return t.all[pos].placing == pl })
	if !ok {
		at = int32(len(t.all))
		t.all = append(t.all, placed{placing: pl})
		t.index.addNew(hash, at)
	}
	t.last = int(at)
	return &t.all[at]
}

// contentOf returns what a mapping says, valid until another is asked for.
func (t *placings) contentOf(pl placing) *mappingContent {
	if t.ofContent != pl {
		t.ofContent, t.content = pl, pl.content()
	}
	return &t.content
}

// functionOf returns the function of an answer whose image has one name for all of it.
func (w *writer) functionOf(a *answer) int32 {
	at := w.placed(placing{image: a.image, relative: a.isRel, bare: a.bare})
	if at.function == 0 {
		at.function = w.m.funcs.intern(w.m, a.image.SymbolName(a.image.Lookup(a.looked)), "")
	}
	return at.function
}

func (p placing) hash() uint64 {
	h := mix(p.image.Start, uint64(p.image.Lifetime.From))
	for _, flag := range [...]attrBool{boolOf(p.relative), boolOf(p.bare), p.has[0], p.has[1], p.has[2], p.has[3]} {
		h = h<<2 ^ uint64(flag)
	}
	return h
}
