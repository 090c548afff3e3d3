// SPDX-License-Identifier: Apache-2.0

package symtab

import "slices"

// Since compares the images that have not been unloaded with those of an earlier table
// of the same History, and returns those that are not in it, and those of it that were
// unloaded, each in the order of their addresses. One that was replaced, as more
// became known of it, is among both. What it costs grows with the number of changes;
// of what did not change it reads one in some dozens only.
func (t *Table) Since(earlier *Table) (came, went []*Image) {
	is, was := t.root.leaves(nil), earlier.root.leaves(nil)
	return missing(is, was, earlier.root), missing(was, is, t.root)
}

// leaves appends the leaves below a node.
func (n *node) leaves(to []*node) []*node {
	if n == nil {
		return to
	}
	if n.children == nil {
		return append(to, n)
	}
	for _, child := range n.children {
		to = child.leaves(to)
	}
	return to
}

// missing returns the images of leaves that are not there in another tree.
func missing(leaves, others []*node, root *node) (images []*Image) {
	shared := make(map[*node]bool, len(others))
	for _, n := range others {
		shared[n] = true
	}
	var last *Image // an image can have several segments
	for _, n := range leaves {
		if shared[n] {
			continue
		}
		for i := range n.segments {
			m := n.segments[i].live
			if m == nil || m == last {
				continue
			}
			last = m
			if s := root.at(m.Start); s == nil || s.live != m {
				images = append(images, m)
			}
		}
	}
	return images
}

// Ended returns when an image of an earlier table of the same History was unloaded, and
// false if it was not, or that is not remembered.
func (t *Table) Ended(m *Image) (at int64, ok bool) {
	s := t.root.at(m.Start)
	if s == nil {
		return 0, false
	}
	i := slices.IndexFunc(s.past, func(past *Image) bool {
		return past.Start == m.Start && past.Lifetime.From == m.Lifetime.From && past.name == m.name
	})
	if i < 0 {
		return 0, false
	}
	return s.past[i].Lifetime.To, true
}
