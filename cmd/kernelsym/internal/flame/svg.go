// SPDX-License-Identifier: Apache-2.0

package flame

import (
	"bufio"
	_ "embed" // the style and the script
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

//go:embed flame.css
var style string

//go:embed flame.js
var script string

// Sizes of the picture, in pixels. In a browser, the script makes the page as wide as its window.
const (
	pageWidth  = 1200
	margin     = 8
	graphWidth = pageWidth - 2*margin
	graphTop   = 52
	rowHeight  = 18
	baseline   = 13  // of the text in a row
	charWidth  = 7.3 // of a monospaced font of 12 pixels, rounded up
	padding    = 4   // on each side of a name
)

// smallest is the share of all samples below which a frame is left out.
const smallest = 1e-4

// legend explains the colors.
var legend = []struct {
	kind Kind
	text string
}{
	{Core, "core kernel"},
	{Module, "kernel module"},
	{BPF, "BPF"},
	{Unnamed, "kernel, without a name"},
	{User, "user space"},
}

// A Page has what surrounds a graph.
type Page struct {
	Heading string
	Value   func(int64) string // formats a value with its unit
}

// SVG writes the graph as a page. Callers are drawn above the functions that they called.
func (g *Graph) SVG(w io.Writer, p Page) error {
	d := drawing{w: bufio.NewWriter(w), page: p, all: g.root.total, kinds: make(map[Kind]bool)}
	height := graphTop + rowHeight*d.measure(&g.root) + margin
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">`+"\n", pageWidth, height)
	d.printf("<title>%s</title>\n<style>\n%s</style>\n", escape(p.Heading), style)
	d.printf(`<rect id="page" width="100%%" height="100%%"/>` + "\n")
	d.printf(`<text id="heading" x="%d" y="20">%s</text>`+"\n", margin, escape(p.Heading))
	d.legend()
	d.printf(`<svg id="frames" x="%d" y="%d" width="%d" height="%d">`+"\n", margin, graphTop, graphWidth, height-graphTop)
	d.frame(&node{Frame: Frame{Name: "all", Kind: "all"}, total: d.all, self: g.root.self}, 0, 0)
	d.frames(&g.root, 0, 1)
	d.printf("</svg>\n<script><![CDATA[\n%s]]></script>\n</svg>\n", script)
	return d.w.Flush() // which returns the first error of any write
}

// drawing is a page that is being written.
type drawing struct {
	w     *bufio.Writer
	page  Page
	all   int64
	kinds map[Kind]bool // the kinds that occur
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d.w, format, args...) }

func (d *drawing) tooSmall(n *node) bool { return float64(n.total) < smallest*float64(d.all) }

// measure returns the number of rows from n down, and notes the kinds of code in them.
func (d *drawing) measure(n *node) int {
	rows := 0
	d.kinds[n.Kind] = true
	for _, child := range n.children {
		if !d.tooSmall(child) {
			rows = max(rows, d.measure(child))
		}
	}
	return rows + 1
}

func (d *drawing) legend() {
	d.printf(`<g id="legend">` + "\n")
	x := float64(margin)
	for _, l := range legend {
		if d.kinds[l.kind] {
			d.printf(`<g class="%s"><rect x="%.1f" y="31" width="12" height="12"/><text x="%.1f" y="41">%s</text></g>`+"\n",
				l.kind, x, x+18, l.text)
			x += 18 + charWidth*float64(len(l.text)) + 18
		}
	}
	d.printf("</g>\n")
}

// frames draws the functions that n called in a row, from the left edge of n on.
func (d *drawing) frames(n *node, left int64, row int) {
	for _, child := range n.sorted() {
		if !d.tooSmall(child) {
			d.frame(child, left, row)
			d.frames(child, left, row+1)
		}
		left += child.total
	}
}

func (d *drawing) frame(n *node, left int64, row int) {
	share := func(v int64) float64 { return float64(v) / float64(max(d.all, 1)) }
	y := row * rowHeight
	d.printf(`<g class="%s" data-x="%d" data-n="%d"><title>%s`, n.Kind, left, n.total, escape(n.Name))
	if n.Owner != "" {
		d.printf("\n%s", escape(n.Owner))
	}
	d.printf("\n%s, %.1f %%; self %s, %.1f %%</title>", d.page.Value(n.total), 100*share(n.total), d.page.Value(n.self), 100*share(n.self))
	d.printf(`<rect x="%.3f%%" y="%d" width="%.3f%%" height="%d"/>`, 100*share(left), y, 100*share(n.total), rowHeight-1)
	if name := fit(n.Name, share(n.total)*graphWidth); name != "" {
		d.printf(`<text x="%.3f%%" dx="%d" y="%d">%s</text>`, 100*share(left), padding, y+baseline, escape(name))
	}
	d.printf("</g>\n")
}

// fit returns a name, cut off with an ellipsis if there is not enough room for all of it. It
// returns an empty string if there is no room for three characters.
func fit(name string, width float64) string {
	room := int((width - 2*padding) / charWidth)
	if utf8.RuneCountInString(name) <= room {
		return name
	}
	if room < 3 {
		return ""
	}
	return string([]rune(name)[:room-1]) + "…"
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder never fails
	return b.String()
}
