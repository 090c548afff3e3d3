// SPDX-License-Identifier: Apache-2.0

package flame

import (
	"bufio"
	_ "embed" // the style and the script
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

//go:embed flame.css
var style string

//go:embed flame.js
var script string

// The contents of the elements with the style and the script.
var ownStyle, ownScript = "\n" + style, "\n" + script

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
	Filters []Filter           // that the reader can change, where the page is served
}

// A Filter selects samples. The page asks for its choice with a parameter of that name.
type Filter struct {
	Name     string   `json:"name"`
	Plural   string   `json:"plural"`
	Values   []string `json:"values"`
	Selected string   `json:"selected"` // one of the values; empty for all samples
}

// SVG writes the graph as a page. Callers are drawn above the functions that they called.
func (g *Graph) SVG(w io.Writer, p Page) error {
	d := newDrawing(w, g, p)
	if err := d.svg(&g.root); err != nil {
		return err
	}
	return d.w.Flush() // which returns the first error of any write
}

// drawing is a page that is being written.
type drawing struct {
	w     *bufio.Writer
	page  Page
	all   int64
	kinds map[Kind]bool   // the kinds that occur
	parts map[string]bool // the parts of the core kernel that occur, by directory; empty for those not known
}

func newDrawing(w io.Writer, g *Graph, p Page) *drawing {
	return &drawing{w: bufio.NewWriter(w), page: p, all: g.root.total, kinds: make(map[Kind]bool), parts: make(map[string]bool)}
}

// markup is an argument of printf that is part of the page's structure.
type markup string

// printf writes a part of the page. Arguments that are not markup are text: they cannot end an element or an attribute, nor
// change the direction of writing.
func (d *drawing) printf(format string, args ...any) {
	if false {
		_ = fmt.Sprintf(format, args...) // go vet checks the calls of a function that has this
	}
	safe := make([]any, len(args))
	for i, a := range args {
		if m, ok := a.(markup); ok {
			safe[i] = string(m)
		} else {
			safe[i] = printable.Arg(a, escape)
		}
	}
	fmt.Fprintf(d.w, format, safe...)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(printable.Text(s))) // a strings.Builder never fails
	return b.String()
}

// svg writes the graph from its root on.
func (d *drawing) svg(root *node) error {
	height := graphTop + rowHeight*d.measure(root) + margin
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">`+"\n", pageWidth, height)
	d.printf("<title>%s</title>\n<style>%s</style>\n", d.page.Heading, markup(ownStyle))
	d.printf(`<rect id="page" width="100%%" height="100%%"/>` + "\n")
	d.printf(`<text id="heading" x="%d" y="20">%s</text>`+"\n", margin, d.page.Heading)
	d.legend()
	if len(d.page.Filters) > 0 {
		text, err := json.Marshal(d.page.Filters)
		if err != nil {
			return err
		}
		d.printf(`<metadata id="filters">%s</metadata>`+"\n", text)
	}
	d.printf(`<svg id="frames" x="%d" y="%d" width="%d" height="%d">`+"\n", margin, graphTop, graphWidth, height-graphTop)
	d.frame(&node{frame: Frame{Name: "all", Kind: "all"}, total: d.all, self: root.self}, 0, 0)
	d.frames(root, 0, 1)
	d.printf("</svg>\n<script><![CDATA[%s]]></script>\n</svg>\n", markup(ownScript))
	return nil
}

func (d *drawing) tooSmall(n *node) bool { return float64(n.total) < smallest*float64(d.all) }

// measure returns the number of rows from n down, and notes what the legend explains.
func (d *drawing) measure(n *node) int {
	rows := 0
	d.kinds[n.frame.Kind] = true
	if n.frame.Kind == Core {
		d.parts[subsystem(n.frame.File)] = true
	}
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
	entry := func(class Kind, fill markup, text string) {
		d.printf(`<g class="%s"><rect x="%.1f" y="31" width="12" height="12"%s/><text x="%.1f" y="41">%s</text></g>`+"\n", class, x, fill, x+18, text)
		x += 18 + charWidth*float64(len(text)) + 18
	}
	for _, l := range legend {
		if l.kind == Core {
			for _, h := range hues {
				if d.parts[h.directory] {
					entry(Core, fill(rgb(h.hue, 0.88, 0.7)), h.directory+"/")
				}
			}
			if d.parts[""] {
				entry(Core, fill(rgb(baseHue, 0.88, 0.7)), l.text)
			}
		} else if d.kinds[l.kind] {
			entry(l.kind, "", l.text)
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
	d.printf(`<g class="%s" data-x="%d" data-n="%d"`, n.frame.Kind, left, n.total)
	if n.self > 0 {
		d.printf(` data-s="%d"`, n.self)
	}
	d.printf("><title>%s", n.frame.Name)
	if where := strings.TrimSpace(n.frame.Owner + " " + n.frame.File); where != "" {
		d.printf("\n%s", where)
	}
	d.printf("\n%s, %.1f %%; self %s, %.1f %%</title>", d.page.Value(n.total), 100*share(n.total), d.page.Value(n.self), 100*share(n.self))
	color := markup("")
	if n.frame.Kind == Core {
		color = fill(colorOf(n.frame.Name, subsystem(n.frame.File)))
	}
	d.printf(`<rect x="%.3f%%" y="%d" width="%.3f%%" height="%d"%s/>`, 100*share(left), y, 100*share(n.total), rowHeight-1, color)
	if name := fit(n.frame.Name, share(n.total)*graphWidth); name != "" {
		d.printf(`<text x="%.3f%%" dx="%d" y="%d">%s</text>`, 100*share(left), padding, y+baseline, name)
	}
	d.printf("</g>\n")
}

// fill returns the attribute for a color, which a rule of the style sheet overrides.
func fill(color string) markup { return markup(` fill="` + color + `"`) }

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
