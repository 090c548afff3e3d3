// SPDX-License-Identifier: Apache-2.0

package flame

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
)

const bodyStyle = "body { margin: 0 }"

// HTML writes the page of SVG as HTML: phones adapt only that to their width.
func (g *Graph) HTML(w io.Writer, p Page) error {
	d := newDrawing(w, g, p)
	d.printf("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"+
		"<title>%s</title>\n<style>%s</style>\n</head>\n<body>\n", p.Heading, markup(bodyStyle))
	if err := d.svg(&g.root); err != nil {
		return err
	}
	d.printf("</body>\n</html>\n")
	return d.w.Flush() // which returns the first error of any write
}

// ContentPolicy is the value of Content-Security-Policy for the page that HTML writes: it runs its own script, has its own
// styles, and loads nothing.
var ContentPolicy = "default-src 'none'; script-src " + hashOf(ownScript) + "; style-src " + hashOf(bodyStyle) + " " + hashOf(ownStyle) +
	"; frame-ancestors 'none'"

// hashOf returns the source expression for an element with this text (CSP 3, 2.3.1).
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
