// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"reflect"
	"unique"

	"github.com/kernelsym/kernelsym/internal/index"
)

// Count sums up the images of one origin.
type Count struct {
	Symbols int   // of the images that are loaded
	Memory  int64 // bytes of all images, unloaded ones included
}

// Count counts the images of each origin. It takes time in proportion to the number of images. Memory does not include
// the rounding of the allocator, the readable names that lookups cache, and the names of source files.
func (t *Table) Count() (counts [NumOrigins]Count) {
	var c counter
	t.images.loaded.eachIn(0, math.MaxUint64, func(m *Image) bool {
		counts[m.Origin].Symbols += m.Len()
		c.add(m, 1)
		return true
	})
	for m, entries := range t.images.past.all() {
		c.add(m, entries)
		c.memory[m.Origin] += sizeOf[*Image]() // in Builder.unloaded
	}
	c.addNodes(t.images.memory() + t.ids.memory())
	for origin, memory := range c.memory {
		counts[origin].Memory = memory
	}
	return counts
}

// A counter sums up the memory of images.
type counter struct {
	memory [NumOrigins]int64
	listed [NumOrigins]int64 // how many entries of nodes they have

	names  []unique.Handle[string] // each once
	byName index.Index             // of names
}

// interned is roughly the number of bytes that package unique needs for a string in addition to its
// bytes: an entry in a trie and a weak pointer, as measured with Go 1.26.
const interned = 190

// add adds an image that has some entries in nodes. The functions of a program share its memory.
func (c *counter) add(m *Image, entries int) {
	n := sizeOf[Image]() + m.Lines.Memory()
	if !m.IsFunction() {
		n += m.Text.Memory()
	}
	if p := m.Program; p != nil {
		n += (sizeOf[Program]() + int64(len(p.Tag))) / int64(max(1, p.Functions))
	}
	if c.isNew(m.name) {
		n += int64(len(m.Name())) + interned
	}
	c.memory[m.Origin] += n
	c.listed[m.Origin] += int64(entries)
}

// isNew reports whether no image before had a name.
func (c *counter) isNew(name unique.Handle[string]) bool {
	hash := index.Comparable(name)
	if _, ok := c.byName.Find(hash, func(i int32) bool { return c.names[i] == name }); ok {
		return false
	}
	c.byName.AddNew(hash, int32(len(c.names)))
	c.names = append(c.names, name)
	return true
}

// addNodes divides the memory of all nodes, and of the index of file IDs, among the origins, in proportion to their entries.
func (c *counter) addNodes(memory int64) {
	all := int64(0)
	for _, n := range c.listed {
		all += n
	}
	for origin, n := range c.listed {
		if n > 0 {
			c.memory[origin] += memory * n / all
		}
	}
}

// memory returns the number of bytes that the nodes take.
func (i *images) memory() int64 {
	n := i.loaded.memory()
	for _, root := range i.past.roots {
		n += root.memory()
	}
	return n
}

// memory returns the number of bytes that a node and the nodes below it take.
func (n *node) memory() int64 {
	if n == nil {
		return 0
	}
	bytes := sizeOf[node]()
	if n.children != nil {
		bytes += sizeOf[[maxNode]*node]()
		for _, child := range n.children[:n.len] {
			bytes += child.memory()
		}
	}
	return bytes
}

func sizeOf[T any]() int64 { return int64(reflect.TypeFor[T]().Size()) }
