// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"math/bits"
)

// A tree holds images by keys. Several images can have one key: they are in the order in which their lifetimes end, and
// no two end at once. It is a B+ tree, and a table shares its nodes: a change copies the nodes from the root to the
// leaf, unless that happened since the last call of share.
//
//	share ── change ── change ── share ── change
//	  │      copies    in place    │      copies
//	table 1                     table 2
//
// tidwall/btree v1.8.2, whose copies share nodes as well, takes less memory, but more time below 50,000 images. It has
// no place for bounds, without which lookups in the past would go through the history. With images by their starts:
//
//	                      1,000            10,000           50,000
//	look-up, ns           27, btree 66     61, btree 99     189, btree 152
//	change and share, µs  1.2, btree 2.1   1.6, btree 3.8   2.8, btree 3.4
//	bytes for each        48, btree 18     47, btree 17     47, btree 16
type tree struct {
	root    *node  // nil if the tree is empty
	edit    uint64 // number of calls of share; nodes with this number may be changed in place
	bounded bool   // whether the nodes have bounds
}

// maxNode is the maximum number of entries of a node. A small node is cheap to copy.
const maxNode = 15

// A node is a leaf, whose entries are images, or has children. Its fields are arrays, not an array of entries, so that
// a search reads little memory.
type node struct {
	keys     [maxNode + 1]uint64 // followed by noKey
	ends     [maxNode]int64
	images   [maxNode]*Image
	children *[maxNode]*node // nil for a leaf
	len      int
	edit     uint64
	bounds   bounds
}

// noKey is above all keys.
const noKey = math.MaxUint64

// An entry of a node is an image, or a child with the key and the end of its first image.
type entry struct {
	key   uint64
	end   int64 // of the lifetime
	image *Image
	child *node
}

func entryOf(child *node) entry { return entry{key: child.keys[0], end: child.ends[0], child: child} }

// bounds say what images below a node may be.
type bounds struct {
	start, end uint64 // their addresses are in [start, end)
	last       int64  // the end of their last lifetime
}

// share returns the root for readers. Its nodes never change again.
func (t *tree) share() *node {
	t.edit++
	return t.root
}

// position returns the position of the last key at or below another, -1 if there is none. It takes the same steps for
// every key, without a branch that depends on it: a mispredicted branch costs more than the rest of the search.
func (n *node) position(key uint64) int {
	key = min(key, noKey-1)
	at := 0
	for step := len(n.keys) / 2; step > 0; step /= 2 {
		_, above := bits.Sub64(key, n.keys[(at+step)&maxNode], 0)
		at += step &^ -int(above)
	}
	if n.keys[at&maxNode] > key {
		return -1
	}
	return at
}

// positionOf returns the position of the last entry at or before a key and the end of a lifetime, -1 if there is none.
func (n *node) positionOf(key uint64, end int64) int {
	i := n.position(key)
	for i >= 0 && n.keys[i] == key && n.ends[i] > end {
		i--
	}
	return i
}

// floor returns the last image whose key is at or below another, nil if there is none.
func (n *node) floor(key uint64) *Image {
	for n != nil {
		i := n.position(key)
		switch {
		case i < 0:
			return nil
		case n.children == nil:
			return n.images[i]
		}
		n = n.children[i]
	}
	return nil
}

// each calls yield for the images whose keys are in [from, to), and for the last one before them, in their order, until
// it returns false. It reports whether it never did.
func (n *node) each(from, to uint64, yield func(key uint64, m *Image) bool) bool {
	if n == nil {
		return true
	}
	for i := max(0, n.positionOf(from, math.MinInt64)); i < n.len && n.keys[i] < to; i++ {
		if n.children == nil {
			if !yield(n.keys[i], n.images[i]) {
				return false
			}
		} else if !n.children[i].each(from, to, yield) {
			return false
		}
	}
	return true
}

// put adds an image, or replaces the one with the same key and end of its lifetime.
func (t *tree) put(key uint64, m *Image) {
	e := entry{key: key, end: m.Lifetime.To, image: m}
	if t.root == nil {
		t.root = t.newNode(e)
		return
	}
	left, right := t.putBelow(t.root, e)
	t.root = left
	if right != nil {
		t.root = t.newNode(entryOf(left), entryOf(right))
	}
}

// putBelow returns a node with an image below it, and a right neighbor if the node was split.
func (t *tree) putBelow(n *node, e entry) (left, right *node) {
	n = t.writable(n)
	i := n.positionOf(e.key, e.end)
	switch {
	case n.children != nil:
		i = max(i, 0)
		child, second := t.putBelow(n.children[i], e)
		n.set(i, entryOf(child))
		t.widen(n, i)
		if second == nil {
			return n, nil
		}
		e = entryOf(second)
	case i >= 0 && n.keys[i] == e.key && n.ends[i] == e.end:
		n.set(i, e)
		return n, nil
	}
	return t.insert(n, i+1, e)
}

// insert inserts an entry. It returns the node, and a right neighbor if the node was split.
func (t *tree) insert(n *node, i int, e entry) (left, right *node) {
	const half = maxNode / 2
	switch {
	case n.len < maxNode:
		n.insert(i, e)
		t.widen(n, i)
		return n, nil
	case i == maxNode: // images that are added in the order of keys leave full nodes behind
		return n, t.newNode(e)
	case i <= half:
		right = t.splitOff(n, half)
		n.insert(i, e)
	default:
		right = t.splitOff(n, half)
		right.insert(i-half, e)
	}
	t.bound(n)
	t.bound(right)
	return n, right
}

// splitOff moves the entries from a position on to a new node.
func (t *tree) splitOff(n *node, i int) *node {
	right := &node{edit: t.edit}
	if n.children != nil {
		right.children = new([maxNode]*node)
	}
	right.copy(0, n, i, n.len)
	right.truncate(n.len - i)
	n.truncate(i)
	return right
}

// newNode returns a node with entries: one or more, all images or all children.
func (t *tree) newNode(entries ...entry) *node {
	n := &node{edit: t.edit}
	if entries[0].child != nil {
		n.children = new([maxNode]*node)
	}
	n.truncate(0)
	for i, e := range entries {
		n.insert(i, e)
	}
	t.bound(n)
	return n
}

// remove removes an image, if the tree has it with a key.
func (t *tree) remove(key uint64, m *Image) {
	if t.root == nil {
		return
	}
	t.root = t.removeBelow(t.root, key, m)
	for t.root != nil && t.root.children != nil && t.root.len == 1 {
		t.root = t.root.children[0]
	}
}

// removeBelow returns a node without the image, nil if nothing is left.
func (t *tree) removeBelow(n *node, key uint64, m *Image) *node {
	i := n.positionOf(key, m.Lifetime.To)
	if i < 0 || n.children == nil && (n.keys[i] != key || n.images[i] != m) {
		return n
	}
	n = t.writable(n)
	if n.children == nil {
		n.delete(i)
	} else if child := t.removeBelow(n.children[i], key, m); child == nil {
		n.delete(i)
	} else {
		n.set(i, entryOf(child))
		t.merge(n, i)
	}
	if n.len == 0 {
		return nil
	}
	if b := &n.bounds; b.start == m.Start || b.end == m.End || b.last == m.Lifetime.To {
		t.bound(n)
	}
	return n
}

// merge joins a child with a neighbor if both are small.
func (t *tree) merge(n *node, i int) {
	const small = maxNode * 4 / 5
	if i > 0 && n.children[i-1].len+n.children[i].len <= small {
		i--
	}
	if i+1 >= n.len || n.children[i].len+n.children[i+1].len > small {
		return
	}
	left, right := t.writable(n.children[i]), n.children[i+1]
	left.copy(left.len, right, 0, right.len)
	left.len += right.len
	t.bound(left)
	n.set(i, entryOf(left))
	n.delete(i + 1)
}

// writable returns a node if it can be changed in this edit, else a copy.
func (t *tree) writable(n *node) *node {
	if n.edit == t.edit {
		return n
	}
	c := *n
	c.edit = t.edit
	if n.children != nil {
		children := *n.children
		c.children = &children
	}
	return &c
}

// set replaces an entry.
func (n *node) set(i int, e entry) {
	n.keys[i], n.ends[i] = e.key, e.end
	if n.children != nil {
		n.children[i] = e.child
	} else {
		n.images[i] = e.image
	}
}

// insert inserts an entry into a node that has room for it.
func (n *node) insert(i int, e entry) {
	n.copy(i+1, n, i, n.len)
	n.len++
	n.set(i, e)
}

func (n *node) delete(i int) {
	n.copy(i, n, i+1, n.len)
	n.truncate(n.len - 1)
}

// copy copies the entries in [start, end) of another node, or of the same.
func (n *node) copy(to int, from *node, start, end int) {
	copy(n.keys[to:maxNode], from.keys[start:end])
	copy(n.ends[to:], from.ends[start:end])
	if n.children != nil {
		copy(n.children[to:], from.children[start:end])
	} else {
		copy(n.images[to:], from.images[start:end])
	}
}

// truncate sets the number of entries, and clears what follows them.
func (n *node) truncate(count int) {
	n.len = count
	for i := count; i < len(n.keys); i++ {
		n.keys[i] = noKey
	}
	if n.children != nil {
		clear(n.children[count:])
	} else {
		clear(n.images[count:])
	}
}

// bound sets the bounds of a node.
func (t *tree) bound(n *node) {
	if t.bounded {
		n.bounds = n.boundsOf(0)
		for i := 1; i < n.len; i++ {
			n.bounds.add(n.boundsOf(i))
		}
	}
}

// widen adds an entry to the bounds of its node.
func (t *tree) widen(n *node, i int) {
	if t.bounded {
		n.bounds.add(n.boundsOf(i))
	}
}

// boundsOf returns the bounds of an entry.
func (n *node) boundsOf(i int) bounds {
	if n.children != nil {
		return n.children[i].bounds
	}
	m := n.images[i]
	return bounds{start: m.Start, end: m.End, last: m.Lifetime.To}
}

func (b *bounds) add(o bounds) {
	b.start, b.end, b.last = min(b.start, o.start), max(b.end, o.end), max(b.last, o.last)
}
