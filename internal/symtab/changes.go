package symtab

// FunctionsSince compares the functions that are there with those of an earlier table
// of the same Functions, and returns those that are not in it, and those of it that are
// there no more, each in the order of their addresses. One that was replaced, as more
// became known of it, is among both. What it costs grows with the number of changes;
// of what did not change it looks at one in some dozens only.
func (t *Table) FunctionsSince(earlier *Table) (came, went []*Function) {
	is, was := t.functions.root.leaves(nil), earlier.functions.root.leaves(nil)
	return missing(is, was, earlier.functions.root), missing(was, is, t.functions.root)
}

// leaves appends the leaves below a node.
func (n *node[T]) leaves(to []*node[T]) []*node[T] {
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

// missing returns the functions of leaves that are not there in another tree.
func missing(leaves, others []*node[*Function], root *node[*Function]) (functions []*Function) {
	shared := make(map[*node[*Function]]bool, len(others))
	for _, n := range others {
		shared[n] = true
	}
	var last *Function // a function can have several segments
	for _, n := range leaves {
		if shared[n] {
			continue
		}
		for i := range n.segments {
			f := n.segments[i].live
			if f == nil || f == last {
				continue
			}
			last = f
			if s := root.floor(f.Start); s == nil || f.Start >= s.end || s.live != f {
				functions = append(functions, f)
			}
		}
	}
	return functions
}
