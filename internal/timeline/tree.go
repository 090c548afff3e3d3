// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"math"
	"math/bits"
	"slices"
)

// tree holds segments that do not overlap, by their addresses. It is a B+ tree
// that shares what did not change with the trees it was copied to: a change
// copies the nodes from the root to the leaf, unless they were copied since the
// last call of share.
type tree struct {
	root *node // nil if it is empty
	edit *edit // says which nodes may be changed
}

// edit is the time between two calls of share. It has a size because pointers to
// things without may be equal.
type edit struct{ _ byte }

// maxNode is the number of segments or children of a node at most. With 64 of them, the
// allocator's own 8 bytes would make segments take 20 % more.
const maxNode = 63

// node is a leaf with segments, or has children.
type node struct {
	// starts are those of the segments, or the lowest of each child, and then noStart.
	// They stand in the node itself, so that a search finds them without another step.
	starts   [maxNode + 1]uint64
	segments []segment
	children []*node
	edit     *edit
}

// noStart is above all addresses at which code can start, as it has a last byte.
const noStart = math.MaxUint64

// newNode returns a node with one of the two.
func newNode(e *edit, segments []segment, children []*node) *node {
	n := &node{edit: e, segments: segments, children: children}
	n.index()
	return n
}

func (n *node) len() int { return max(len(n.segments), len(n.children)) }

// index fills starts after a change.
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

// share returns the root, for readers. What it leads to does not change any more.
func (t *tree) share() *node {
	t.edit = new(edit)
	return t.root
}

// position returns the position of the last start at or below addr, -1 if there is
// none. It takes the same steps for all, without a branch that depends on addr: one
// that is guessed wrong costs more than the rest.
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

// at returns the segment that an address is in, nil if there is none.
func (n *node) at(addr uint64) *segment {
	if s := n.floor(addr); s != nil && addr < s.end {
		return s
	}
	return nil
}

// each calls yield for the segments that overlap [start, end), in their order,
// while it returns true.
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

// remove removes the segment with that start, if there is one.
func (t *tree) remove(start uint64) {
	if t.root == nil {
		return
	}
	t.root = t.root.remove(start, t.edit)
	for t.root != nil && len(t.root.children) == 1 {
		t.root = t.root.children[0]
	}
}

// writable returns the node, or a copy of it, to be changed in this edit.
func (n *node) writable(e *edit) *node {
	if n.edit == e {
		return n
	}
	c := *n
	c.edit, c.segments, c.children = e, slices.Clone(n.segments), slices.Clone(n.children)
	return &c
}

// put returns what the node has become, and a right neighbor if it was split.
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
	case i == maxNode: // what comes in the order of addresses leaves full nodes behind
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

// remove returns what the node has become, nil if nothing is left.
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

// merge joins a small child with a neighbor that is small, too.
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
