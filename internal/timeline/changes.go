// SPDX-License-Identifier: Apache-2.0

package timeline

// Since compares a table with an earlier one of the same Builder. It returns the images that were loaded since
// then and the ones that are no longer loaded, each in the order of their addresses. An image that was
// replaced because more became known about it is in both lists. The cost grows with the number of changes;
// of the rest, only the leaves of the tree are compared.
func (t *Table) Since(earlier *Table) (came, went []*Image) {
	is, was := t.images.loaded, earlier.images.loaded
	return missing(is.leaves(nil), was.leaves(nil), was), missing(was.leaves(nil), is.leaves(nil), is)
}

// leaves appends the leaves below a node.
func (n *node) leaves(to []*node) []*node {
	if n == nil {
		return to
	}
	if n.children == nil {
		return append(to, n)
	}
	for _, child := range n.children[:n.len] {
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
	for _, n := range leaves {
		if shared[n] {
			continue
		}
		for _, m := range n.images[:n.len] {
			if root.at(m.Start) != m {
				images = append(images, m)
			}
		}
	}
	return images
}

// Ended returns the instant at which an image of an earlier table of the same Builder was unloaded. It
// returns false if the image is loaded or no longer remembered.
func (t *Table) Ended(m *Image) (at int64, ok bool) {
	past := t.images.past.next(m.Start, m.Lifetime.From)
	if past == nil || past.Start != m.Start || past.Lifetime.From != m.Lifetime.From || past.name != m.name {
		return 0, false
	}
	return past.Lifetime.To, true
}
