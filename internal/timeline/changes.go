// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// Since compares a table with an earlier one of the same History. It returns the images that were loaded since
// then and the ones that are no longer loaded, each in the order of their addresses. An image that was
// replaced because more became known about it is in both lists. The cost grows with the number of changes;
// of the rest, only the leaves of the tree are compared.
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

// missing returns the loaded images of leaves that another tree does not have.
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
			m := n.segments[i].loaded
			if m == nil || m == last {
				continue
			}
			last = m
			if s := root.at(m.Start); s == nil || s.loaded != m {
				images = append(images, m)
			}
		}
	}
	return images
}

// Ended returns the instant at which an image of an earlier table of the same History was unloaded. It
// returns false if the image is loaded or no longer remembered.
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
