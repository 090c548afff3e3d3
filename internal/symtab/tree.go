package symtab

import "slices"

// tree holds segments that do not overlap, by their addresses. It is a B+ tree
// that shares what did not change with the trees it was copied to: a change
// copies the nodes from the root to the leaf, unless they were copied since the
// last call of share.
type tree[T piece] struct {
	root *node[T] // nil if it is empty
	edit *edit    // says which nodes may be changed
}

// edit is the time between two calls of share. It has a size because pointers to
// things without may be equal.
type edit struct{ _ byte }

// maxNode is the number of segments or children of a node at most.
const maxNode = 64

// node is a leaf with segments, or has children.
type node[T piece] struct {
	edit     *edit
	starts   []uint64 // of the segments, or the lowest of each child
	segments []segment[T]
	children []*node[T]
}

// share returns the root, for readers. What it leads to does not change any more.
func (t *tree[T]) share() *node[T] {
	t.edit = new(edit)
	return t.root
}

// position returns the position of the last start at or below addr, -1 if there is
// none. It halves what is left without a branch that depends on addr: one that is
// guessed wrong costs more than the rest.
func (n *node[T]) position(addr uint64) int {
	starts := n.starts
	at := 0
	for left := len(starts); left > 1; {
		half := left / 2
		middle := at + half
		if starts[middle] <= addr {
			at = middle
		}
		left -= half
	}
	if len(starts) == 0 || starts[at] > addr {
		return -1
	}
	return at
}

// floor returns the last segment that starts at or below addr, nil if there is
// none.
func (n *node[T]) floor(addr uint64) *segment[T] {
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

// each calls yield for the segments that overlap [start, end), in their order,
// while it returns true.
func (n *node[T]) each(start, end uint64, yield func(*segment[T]) bool) bool {
	if n == nil {
		return true
	}
	for i := max(0, n.position(start)); i < len(n.starts) && n.starts[i] < end; i++ {
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

// last returns the highest segment.
func (n *node[T]) last() *segment[T] {
	for n.children != nil {
		n = n.children[len(n.children)-1]
	}
	return &n.segments[len(n.segments)-1]
}

// put adds a segment, or replaces the one with the same start.
func (t *tree[T]) put(s segment[T]) {
	if t.root == nil {
		t.root = &node[T]{edit: t.edit, starts: []uint64{s.start}, segments: []segment[T]{s}}
		return
	}
	root, right := t.root.put(s, t.edit)
	if right != nil {
		root = &node[T]{
			edit:     t.edit,
			starts:   []uint64{root.starts[0], right.starts[0]},
			children: []*node[T]{root, right},
		}
	}
	t.root = root
}

// remove removes the segment with that start, if there is one.
func (t *tree[T]) remove(start uint64) {
	if t.root == nil {
		return
	}
	t.root = t.root.remove(start, t.edit)
	for t.root != nil && len(t.root.children) == 1 {
		t.root = t.root.children[0]
	}
}

// writable returns the node, or a copy of it, to be changed in this edit.
func (n *node[T]) writable(e *edit) *node[T] {
	if n.edit == e {
		return n
	}
	return &node[T]{
		edit:     e,
		starts:   slices.Clone(n.starts),
		segments: slices.Clone(n.segments),
		children: slices.Clone(n.children),
	}
}

// put returns what the node has become, and a right neighbor if it was split.
func (n *node[T]) put(s segment[T], e *edit) (left, right *node[T]) {
	n = n.writable(e)
	i := n.position(s.start)
	if n.children == nil {
		if i >= 0 && n.starts[i] == s.start {
			n.segments[i] = s
			return n, nil
		}
		n.starts = slices.Insert(n.starts, i+1, s.start)
		n.segments = slices.Insert(n.segments, i+1, s)
	} else {
		i = max(i, 0)
		child, second := n.children[i].put(s, e)
		n.children[i], n.starts[i] = child, child.starts[0]
		if second != nil {
			n.starts = slices.Insert(n.starts, i+1, second.starts[0])
			n.children = slices.Insert(n.children, i+1, second)
		}
	}
	if len(n.starts) > maxNode {
		return n, n.splitOff(len(n.starts)/2, e)
	}
	return n, nil
}

// splitOff moves everything from position i on to a new node.
func (n *node[T]) splitOff(i int, e *edit) *node[T] {
	right := &node[T]{edit: e, starts: slices.Clone(n.starts[i:])}
	n.starts = slices.Clone(n.starts[:i])
	if n.children != nil {
		right.children, n.children = slices.Clone(n.children[i:]), slices.Clone(n.children[:i])
	} else {
		right.segments, n.segments = slices.Clone(n.segments[i:]), slices.Clone(n.segments[:i])
	}
	return right
}

// remove returns what the node has become, nil if nothing is left.
func (n *node[T]) remove(start uint64, e *edit) *node[T] {
	i := n.position(start)
	if i < 0 || n.children == nil && n.starts[i] != start {
		return n
	}
	if len(n.starts) == 1 && n.children == nil {
		return nil
	}
	n = n.writable(e)
	if n.children == nil {
		n.segments = slices.Delete(n.segments, i, i+1)
		n.starts = slices.Delete(n.starts, i, i+1)
		return n
	}
	child := n.children[i].remove(start, e)
	if child == nil {
		n.children = slices.Delete(n.children, i, i+1)
		n.starts = slices.Delete(n.starts, i, i+1)
		if len(n.children) == 0 {
			return nil
		}
		return n
	}
	n.children[i], n.starts[i] = child, child.starts[0]
	n.merge(i, e)
	return n
}

// merge joins a small child with a neighbor that is small, too.
func (n *node[T]) merge(i int, e *edit) {
	if i > 0 {
		i--
	}
	if i+1 >= len(n.children) || len(n.children[i].starts)+len(n.children[i+1].starts) > maxNode/2 {
		return
	}
	left, right := n.children[i].writable(e), n.children[i+1]
	left.starts = append(left.starts, right.starts...)
	left.segments = append(left.segments, right.segments...)
	left.children = append(left.children, right.children...)
	n.children[i] = left
	n.children = slices.Delete(n.children, i+1, i+2)
	n.starts = slices.Delete(n.starts, i+1, i+2)
}
