// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"fmt"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// A node is a function with code in a unit, or one inlined there.
type node struct {
	parent   int32  // number of the node it is inlined into; noNode for a function with code of its own
	depth    uint8  // length of the chain
	asked    bool   // number is set
	callLine uint32 // the place of the call
	callFile uint64
	entry    uint64    // offset in .debug_info of the entry that has its name
	number   pack.Node // 0 if it or a node above has no name
}

const (
	// noNode stands for the absence of a node.
	noNode = -1
	// deadNode takes the place of a node whose entries are all irrelevant.
	deadNode = -2

	// maxDepth bounds the length of a chain, as [pack.Writer] does.
	maxDepth = 64
)

// A tree holds the functions of a unit.
type tree struct {
	code      code
	w         *pack.Writer
	functions *functions
	nodes     []node // in the order of their entries
	spans     []span // of the nodes, by number
	numbers   map[nodeKey]pack.Node
	scopes    []int32    // the nodes of the entries around the one being read
	attrs     attributes // of the entry being read
}

// A nodeKey identifies a node of a unit.
type nodeKey struct {
	parent   pack.Node
	function pack.Function
	file     pack.File
	line     uint32
}

// reset forgets a unit.
func (t *tree) reset() {
	t.nodes, t.spans, t.scopes = t.nodes[:0], t.spans[:0], t.scopes[:0]
	clear(t.functions.known)
	clear(t.numbers)
}

// An entry is an entry being read. It has the abbreviation, the offset in the unit, and the node of
// the entry around it.
type entry struct {
	abbreviation *abbreviation
	at           int
	scope        int32
}

// read reads the entries of a unit.
func (t *tree) read(u *unit) error {
	t.reset()
	r := &reader{data: u.data, pos: u.dies, order: u.sections.order}
	inC := u.isC()
	for r.left() {
		e := entry{at: r.pos, scope: noNode}
		if n := len(t.scopes); n > 0 {
			e.scope = t.scopes[n-1]
		}
		var err error
		if e.abbreviation, err = u.abbreviation(r); e.abbreviation != nil {
			err = t.readEntry(u, r, e, inC)
		} else if len(t.scopes) > 0 {
			t.scopes = t.scopes[:len(t.scopes)-1]
		}
		if err == nil && r.short {
			err = errShort
		}
		if err != nil {
			return fmt.Errorf("entry at %#x: %w", u.off+uint64(e.at), err)
		}
		if len(t.scopes) == 0 {
			return nil // what follows is padding
		}
	}
	return nil
}

// readEntry reads an entry after the number of its abbreviation.
func (t *tree) readEntry(u *unit, r *reader, e entry, inC bool) (err error) {
	inner, from := e.scope, r.pos
	switch {
	case e.scope == deadNode:
		err = r.pass(e.abbreviation, u.format)
	case e.abbreviation.kind == kindSubprogram:
		inner, err = t.readSubprogram(u, r, e, inC)
	case e.abbreviation.kind == kindInlined:
		inner, err = t.readInlined(u, r, e)
	case e.abbreviation.kind == kindOpaque, e.abbreviation.kind == kindType && inC:
		inner = deadNode
		err = r.pass(e.abbreviation, u.format)
	default:
		err = r.pass(e.abbreviation, u.format)
	}
	if err != nil || !e.abbreviation.children || r.short {
		return err
	}
	if inner == deadNode && e.abbreviation.sibling != variable {
		sibling := (&reader{data: u.data, pos: from + e.abbreviation.sibling, order: r.order}).uint(4)
		if sibling < uint64(r.pos) || sibling > uint64(len(u.data)) {
			return fmt.Errorf("%w: next entry at %#x of the unit", ErrMalformed, sibling)
		}
		r.pos = int(sibling)
		return nil
	}
	t.scopes = append(t.scopes, inner)
	return nil
}

// readSubprogram reads the entry of a function. In C, a function without code contains nothing
// relevant.
func (t *tree) readSubprogram(u *unit, r *reader, e entry, inC bool) (int32, error) {
	attrs := &t.attrs
	if err := u.attributes(r, e.abbreviation, attrs); err != nil || r.short {
		return noNode, err
	}
	const code = 1<<slotLowPC | 1<<slotRanges | 1<<slotOrigin
	if inC && attrs.has&code == 0 {
		return deadNode, nil
	}
	return t.addNode(u, node{parent: noNode, depth: 1, entry: u.off + uint64(e.at)}, attrs)
}

// readInlined reads the entry of an inlined function.
func (t *tree) readInlined(u *unit, r *reader, e entry) (int32, error) {
	attrs := &t.attrs
	if err := u.attributes(r, e.abbreviation, attrs); err != nil || r.short || e.scope == noNode {
		return noNode, err
	}
	n := node{
		parent: e.scope, depth: t.nodes[e.scope].depth + 1,
		entry: u.off + uint64(e.at), callFile: attrs.number(slotCallFile),
	}
	if n.depth > maxDepth {
		return noNode, fmt.Errorf("%w: more than %d functions inlined into one another", ErrUnsupported, maxDepth)
	}
	if line := attrs.number(slotCallLine); line <= maxLine {
		n.callLine = uint32(line)
	}
	return t.addNode(u, n, attrs)
}

// addNode adds a node and its ranges.
func (t *tree) addNode(u *unit, n node, attrs *attributes) (int32, error) {
	if len(t.nodes) > maxRecords || len(t.spans) > maxRecords {
		return noNode, errRecords
	}
	number := int32(len(t.nodes))
	t.nodes = append(t.nodes, n)
	return number, u.ranges(attrs, func(start, end uint64) {
		if r, ok := t.code.Offset(start, end); ok {
			t.spans = append(t.spans, span{r.Start, r.End, uint32(number)})
		}
	})
}

// number returns the number that a node has in the pack, or 0 if it or a node above has no name.
func (t *tree) number(u *unit, i int32) (pack.Node, error) {
	n := &t.nodes[i]
	if n.asked {
		return n.number, nil
	}
	n.asked = true
	var key nodeKey
	var err error
	if n.parent != noNode {
		if key.parent, err = t.number(u, n.parent); err != nil || key.parent == 0 {
			return 0, err
		}
		if key.file, err = t.functions.files.number(u, n.callFile); err != nil {
			return 0, err
		}
		if key.file != 0 {
			key.line = n.callLine
		}
	}
	if key.function, err = t.functions.at(u, n.entry); err != nil || key.function == 0 {
		return 0, err
	}
	number, ok := t.numbers[key]
	if !ok {
		number = t.w.Node(key.parent, key.function, key.file, key.line)
		t.numbers[key] = number
	}
	n.number = number
	return number, nil
}
