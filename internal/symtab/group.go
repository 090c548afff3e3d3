// SPDX-License-Identifier: Apache-2.0

package symtab

// A group is the names at one address.
type group struct {
	names []byte // one behind the other
	items []groupItem
}

type groupItem struct {
	from, to int // in names
	twin     bool
}

func (g *group) empty() bool { return len(g.items) == 0 }

func (g *group) reset() { g.names, g.items = g.names[:0], g.items[:0] }

func (g *group) add(name []byte, twin bool) {
	from := len(g.names)
	g.names = append(g.names, name...)
	g.items = append(g.items, groupItem{from: from, to: len(g.names), twin: twin})
}

// name returns the name that the kernel itself prints (contract 3.3): the first one that is no twin of another. folded
// says that it is one of several. The group must not be empty.
func (g *group) name() (name []byte, folded bool) {
	for _, item := range g.items {
		this := g.names[item.from:item.to]
		if item.twin && g.has(plainName(this)) {
			continue
		}
		if name != nil {
			return name, true
		}
		name = this
	}
	return name, false
}

// appendOthers appends the names that are not a symbol's own.
func (g *group) appendOthers(to []alias, symbol uint32, own []byte) []alias {
	for _, item := range g.items {
		if name := g.names[item.from:item.to]; string(name) != string(own) {
			to = append(to, alias{symbol: symbol, name: string(name)})
		}
	}
	return to
}

func (g *group) has(name []byte) bool {
	for _, item := range g.items {
		if string(g.names[item.from:item.to]) == string(name) {
			return true
		}
	}
	return false
}
