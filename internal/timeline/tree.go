// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"math/bits"
	"slices"
)

// A tree holds segments that do not overlap, by their addresses. It is a B+ tree, and a table shares its
// nodes: a change copies the nodes from the root to the leaf, unless that happened since the last call of
// share.
//
//	share ── change ── change ── share ── change
//	  │      copies    in place    │      copies
//	table 1                     table 2
type tree struct {
	root *node // nil if the tree is empty
	edit *edit // of the nodes that may be changed in place
}

// An edit is the time between two calls of share. It has a size because pointers to values without size may
// be equal.
type edit struct{ _ byte }

// maxNode is the maximum number of segments or children of a node. A small node is cheap to copy.
const maxNode = 15

// A node is a leaf with segments, or has children.
type node struct {
	// starts has the start of each segment, or the lowest start in each child, followed by noStart. It is
	// part of the node, so that a search needs no other memory.
	starts   [maxNode + 1]uint64
	segments []segment
	children []*node
	edit     *edit
}

// noStart is above all addresses at which code can start, since code has a last byte.
const noStart = math.MaxUint64

// newNode returns a node with segments or with children.
func newNode(e *edit, segments []segment, children []*node) *node {
	n := &node{edit: e, segments: segments, children: children}
	n.index()
	return n
}

func (n *node) len() int { return max(len(n.segments), len(n.children)) }

// index sets starts after a change.
func (n *node) index() {
	for i := range n.segments {
		n.starts[i] = n.segments[i].start
	}
	for i, child := range n.children {
		n.starts[i] = child.starts[0]
	}
	for i := n.len(); i < len(n.starts); i++ {
		n.starts[i] = noStart
	}
}

// share returns the root for readers. Its nodes never change again.
func (t *tree) share() *node {
	t.edit = new(edit)
	return t.root
}

// position returns the position of the last start at or below addr, -1 if there is none. It takes the
// same steps for every address, without a branch that depends on it: a mispredicted branch costs more
// than the rest of the search.
func (n *node) position(addr uint64) int {
	addr = min(addr, noStart-1) // where nothing starts either
	at := 0
	for step := len(n.starts) / 2; step > 0; step /= 2 {
		_, above := bits.Sub64(addr, n.starts[(at+step)&maxNode], 0)
		at += step &^ -int(above)
	}
	if n.starts[at&maxNode] > addr {
		return -1
	}
	return at
}

// floor returns the last segment that starts at or below addr, nil if there is
// none.
func (n *node) floor(addr uint64) *segment {
	for n != nil {
		i := n.position(addr)
		switch {
		case i < 0:
			return nil
		case n.children == nil:
			return &n.segments[i]
		}
		n = n.children[i]
	}
	return nil
}

// at returns the segment that holds an address, nil if there is none.
func (n *node) at(addr uint64) *segment {
	if s := n.floor(addr); s != nil && addr < s.end {
		return s
	}
	return nil
}

// each calls yield for the segments that overlap [start, end), in their order, until it returns false.
func (n *node) each(start, end uint64, yield func(*segment) bool) bool {
	if n == nil {
		return true
	}
	for i := max(0, n.position(start)); i < n.len() && n.starts[i] < end; i++ {
		if n.children != nil {
			if !n.children[i].each(start, end, yield) {
				return false
			}
		} else if s := &n.segments[i]; s.end > start && !yield(s) {
			return false
		}
	}
	return true
}

// isEmpty reports whether no segment overlaps [start, end).
func (n *node) isEmpty(start, end uint64) bool {
	return n.each(start, end, func(*segment) bool { return false })
}

// loadedIn returns the images that are loaded at addresses in [start, end), in the order of their
// addresses.
func (n *node) loadedIn(start, end uint64) (images []*Image) {
	n.each(start, end, func(s *segment) bool {
		if s.loaded != nil && (len(images) == 0 || images[len(images)-1] != s.loaded) {
			images = append(images, s.loaded)
		}
		return true
	})
	return images
}

// change changes the images of the addresses [start, end), which may have none yet. Segments without
// images are removed.
func (t *tree) change(start, end uint64, change func(*segment)) {
	var old []segment
	t.root.each(start, end, func(s *segment) bool {
		old = append(old, *s)
		return true
	})
	apply := func(s segment) {
		change(&s)
		if s.isEmpty() {
			t.remove(s.start)
		} else {
			t.put(s)
		}
	}
	at := start
	for _, s := range old {
		if s.start < start {
			t.put(s.endingAt(start))
			s = s.startingAt(start)
		}
		if at < s.start {
			apply(segment{start: at, end: s.start})
		}
		if s.end > end {
			t.put(s.startingAt(end))
			s = s.endingAt(end)
		}
		apply(s)
		at = s.end
	}
	if at < end {
		apply(segment{start: at, end: end})
	}
}

// join makes one segment of the two that meet at an address, if they have the same images.
func (t *tree) join(addr uint64) {
	left, right := t.root.at(addr-1), t.root.at(addr)
	if left == nil || right == nil || left == right || !left.hasSameImages(right) {
		return
	}
	joined := *left
	joined.end = right.end
	t.remove(addr)
	t.put(joined)
}

// put adds a segment, or replaces the one with the same start.
func (t *tree) put(s segment) {
	if t.root == nil {
		t.root = newNode(t.edit, []segment{s}, nil)
		return
	}
	left, right := t.root.put(s, t.edit)
	t.root = left
	if right != nil {
		t.root = newNode(t.edit, nil, []*node{left, right})
	}
}

// remove removes the segment with a start, if there is one.
func (t *tree) remove(start uint64) {
	if t.root == nil {
		return
	}
	t.root = t.root.remove(start, t.edit)
	for t.root != nil && len(t.root.children) == 1 {
		t.root = t.root.children[0]
	}
}

// writable returns the node if it can be changed in this edit, else a copy.
func (n *node) writable(e *edit) *node {
	if n.edit == e {
		return n
	}
	c := *n
	c.edit, c.segments, c.children = e, slices.Clone(n.segments), slices.Clone(n.children)
	return &c
}

// put returns the node with the segment, and a right neighbor if the node was split.
func (n *node) put(s segment, e *edit) (left, right *node) {
	n = n.writable(e)
	i, start := n.position(s.start), s.start
	switch {
	case n.children != nil:
		i = max(i, 0)
		child, second := n.children[i].put(s, e)
		n.children[i], n.starts[i] = child, child.starts[0]
		if second == nil {
			return n, nil
		}
		i, start = i+1, second.starts[0]
		n.children = slices.Insert(n.children, i, second)
	case i >= 0 && n.starts[i] == s.start:
		n.segments[i] = s
		return n, nil
	default:
		i++
		n.segments = slices.Insert(n.segments, i, s)
	}
	switch {
	case n.len() <= maxNode:
		copy(n.starts[i+1:], n.starts[i:])
		n.starts[i] = start
	case i == maxNode: // segments that are added in the order of addresses leave full nodes behind
		right = n.splitOff(i)
	default:
		right = n.splitOff(maxNode / 2)
		n.index()
	}
	return n, right
}

// splitOff moves everything from position i on to a new node.
func (n *node) splitOff(i int) *node {
	if n.children != nil {
		right := newNode(n.edit, nil, slices.Clone(n.children[i:]))
		n.children = slices.Clone(n.children[:i])
		return right
	}
	right := newNode(n.edit, slices.Clone(n.segments[i:]), nil)
	n.segments = slices.Clone(n.segments[:i])
	return right
}

// remove returns the node without the segment, nil if nothing is left.
func (n *node) remove(start uint64, e *edit) *node {
	i := n.position(start)
	if i < 0 || n.children == nil && n.starts[i] != start {
		return n
	}
	n = n.writable(e)
	if n.children == nil {
		n.segments = slices.Delete(n.segments, i, i+1)
	} else if child := n.children[i].remove(start, e); child == nil {
		n.children = slices.Delete(n.children, i, i+1)
	} else {
		n.children[i] = child
		n.merge(i, e)
	}
	if n.len() == 0 {
		return nil
	}
	n.index()
	return n
}

// merge joins a small child with a small neighbor.
func (n *node) merge(i int, e *edit) {
	if i > 0 {
		i--
	}
	if i+1 >= len(n.children) || n.children[i].len()+n.children[i+1].len() > maxNode/2 {
		return
	}
	left, right := n.children[i].writable(e), n.children[i+1]
	left.segments = append(left.segments, right.segments...)
	left.children = append(left.children, right.children...)
	left.index()
	n.children[i] = left
	n.children = slices.Delete(n.children, i+1, i+2)
}
