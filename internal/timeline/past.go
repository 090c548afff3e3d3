// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"iter"
	"math"
	"math/bits"
)

// A past holds the images that were unloaded, in classes by their lengths. An image of the class that is longer than g,
// a power of two, and at most 2 × g long covers one or two multiples of g. It is listed at these, however many others
// have had its addresses. So each image that had an address is listed at the multiple below the address or at the one
// above, in its class:
//
//	multiples of g    │             │             │
//	A                     ══════════╪══════
//	B                 ╪═════════════╪═
//	an address                   ▲        both have had it and are listed at the multiple above, B also below
//
// All images that are listed at one multiple cover it, so they were loaded one after the other, and together they cover
// addresses without a gap. So the bounds of a node that has only images of one multiple say exactly whether one of them
// had an address: no search goes through images that did not.
//
// Images that yield to others have classes of their own, which say at once whether there are any.
type past struct {
	classes [numClasses]tree // by multiples of g, divided by g
	used    classSet         // those with images
}

const (
	numSizes   = 32           // images have up to 1<<32 - 1 bytes
	numClasses = 2 * numSizes // the second half is for images that yield
	yielding   = classSet(math.MaxUint32) << numSizes
)

// A classSet is a set of classes.
type classSet uint64

// all yields the classes.
func (c classSet) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; c != 0; c &= c - 1 {
			if !yield(bits.TrailingZeros64(uint64(c))) {
				return
			}
		}
	}
}

// classOf returns the class of an image.
func classOf(m *Image) int {
	class := max(0, bits.Len64(m.End-m.Start-1)-1)
	if m.Yields() {
		class += numSizes
	}
	return class
}

// shiftOf returns the logarithm of g.
func shiftOf(class int) int { return class % numSizes }

// keysOf returns the first and the last multiple of g that an image of a class covers, divided by g.
func keysOf(m *Image, class int) (first, last uint64) {
	shift := shiftOf(class)
	if first = m.Start >> shift; first<<shift < m.Start {
		first++
	}
	return first, (m.End - 1) >> shift
}

// add adds an image, which was loaded after all others that have had one of its addresses.
func (p *past) add(m *Image) {
	class := classOf(m)
	t := &p.classes[class]
	t.bounded = true
	for key, last := keysOf(m, class); key <= last; key++ {
		t.put(key, m)
	}
	p.used |= 1 << class
}

func (p *past) remove(m *Image) {
	class := classOf(m)
	t := &p.classes[class]
	for key, last := keysOf(m, class); key <= last; key++ {
		t.remove(key, m)
	}
	if t.root == nil {
		p.used &^= 1 << class
	}
}

// share returns the past for readers.
func (p *past) share() sharedPast {
	s := sharedPast{used: p.used}
	for class := range p.used.all() {
		s.roots[class] = p.classes[class].share()
	}
	return s
}

// A sharedPast is a past that never changes again.
type sharedPast struct {
	roots [numClasses]*node
	used  classSet
}

// next returns the first image that had an address and was unloaded after an instant, nil if there is none.
func (p *sharedPast) next(addr uint64, after int64) *Image { return p.nextOf(p.used, addr, after) }

// hasYielding reports whether an image that yields to others has had an address.
func (p *sharedPast) hasYielding(addr uint64) bool {
	return p.nextOf(p.used&yielding, addr, math.MinInt64) != nil
}

// nextOf is next for the images of some classes.
func (p *sharedPast) nextOf(classes classSet, addr uint64, after int64) (next *Image) {
	for class := range classes.all() {
		root, below := p.roots[class], addr>>shiftOf(class)
		if !root.mayHave(addr, after) {
			continue
		}
		for _, key := range [...]uint64{below, below + 1} {
			m := root.next(key, addr, after)
			switch {
			case m == nil:
			case m.Lifetime.From <= after:
				return m // any other was loaded later
			case next == nil || m.Lifetime.To < next.Lifetime.To:
				next = m
			}
		}
	}
	return next
}

// all yields each image, and how many times it is listed.
func (p *sharedPast) all() iter.Seq2[*Image, int] {
	return func(yield func(*Image, int) bool) {
		for class := range p.used.all() {
			if !p.roots[class].each(0, noKey, func(key uint64, m *Image) bool {
				first, last := keysOf(m, class)
				return key != first || yield(m, int(last-first)+1)
			}) {
				return
			}
		}
	}
}

// next returns the first image with a key that had an address and was unloaded after an instant, nil if there is none.
func (n *node) next(key, addr uint64, after int64) *Image {
	if !n.mayHave(addr, after) {
		return nil
	}
	i := n.positionOf(key, after)
	if n.children == nil {
		for i++; i < n.len && n.keys[i] == key; i++ {
			if m := n.images[i]; m.Start <= addr && addr < m.End {
				return m
			}
		}
		return nil
	}
	for i = max(0, i); i < n.len && n.keys[i] <= key; i++ {
		if m := n.children[i].next(key, addr, after); m != nil {
			return m
		}
	}
	return nil
}

// mayHave reports whether an image below a node may have had an address and may have been unloaded after an instant.
func (n *node) mayHave(addr uint64, after int64) bool {
	return n.bounds.last > after && n.bounds.start <= addr && addr < n.bounds.end
}
