// SPDX-License-Identifier: Apache-2.0

// Package flame draws flame graphs of kernel stacks. The SVG is a static picture where scripts do
// not run, and a page with zoom and search in a browser.
package flame

import (
	"bufio"
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// A Kind is the kind of code in a frame. Each kind has a color.
type Kind string

// The kinds of code.
const (
	Core    Kind = "core"    // the core kernel
	Module  Kind = "module"  // a kernel module
	BPF     Kind = "bpf"     // BPF programs and trampolines
	Unnamed Kind = "unnamed" // kernel code without a name
	User    Kind = "user"    // everything else
)

// A Frame is a function in a stack.
type Frame struct {
	Name  string // the text drawn in the frame
	Owner string // module of the function; empty if unknown
	File  string // its source file; empty if unknown
	Kind  Kind
}

// A Graph is the sum of stacks.
type Graph struct{ root node }

type node struct {
	frame       Frame
	total, self int64
	children    map[Frame]*node
}

// Add adds the value of a stack, which begins with the outermost frame. Values below 1 have
// no place in a flame graph and are ignored.
func (g *Graph) Add(stack []Frame, value int64) {
	if value < 1 {
		return
	}
	n := &g.root
	n.total += value
	for _, f := range stack {
		child := n.children[f]
		if child == nil {
			if n.children == nil {
				n.children = make(map[Frame]*node)
			}
			child = &node{frame: f}
			n.children[f] = child
		}
		n = child
		n.total += value
	}
	n.self += value
}

// sorted returns the children of n by name.
func (n *node) sorted() []*node {
	return slices.SortedFunc(maps.Values(n.children), func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.frame.Name, b.frame.Name), cmp.Compare(a.frame.Owner, b.frame.Owner), cmp.Compare(a.frame.File, b.frame.File), cmp.Compare(a.frame.Kind, b.frame.Kind))
	})
}

// Folded writes a line for each stack, in the format of the scripts of
// https://github.com/brendangregg/FlameGraph: the names of its frames, outermost first and
// separated by semicolons, then a space and its value. A semicolon in a name becomes a colon.
func (g *Graph) Folded(w io.Writer) error {
	b := bufio.NewWriter(w)
	g.root.fold(printable.New(b, false), nil)
	return b.Flush()
}

func (n *node) fold(out *printable.Printer, path []string) {
	if n.self > 0 && len(path) > 0 {
		out.Printf("%s %d\n", strings.Join(path, ";"), n.self)
	}
	for _, child := range n.sorted() {
		child.fold(out, append(path, strings.ReplaceAll(child.frame.Name, ";", ":")))
	}
}
