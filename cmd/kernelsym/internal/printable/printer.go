// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
)

// A Printer prints text that cannot control the terminal.
type Printer struct {
	w      io.Writer
	colors bool
	indent string // of each further line of a text in Write
}

// New returns a Printer that prints to w, with colors or without.
func New(w io.Writer, colors bool) *Printer { return &Printer{w: w, colors: colors} }

// NewMessages returns a Printer for messages. Each call of Write is one; its further lines are indented, so that none that is
// in a name can pass for another message.
func NewMessages(w io.Writer, colors bool) *Printer {
	return &Printer{w: w, colors: colors, indent: "  "}
}

// Printf prints as fmt.Printf does. Line breaks and tabs pass in the format only: each argument passes through Text. A
// [Painted] argument gets its color.
func (p *Printer) Printf(format string, args ...any) error {
	if false {
		_ = fmt.Sprintf(format, args...) // go vet checks the calls of a function that has this
	}
	safe := make([]any, len(args))
	for i, a := range args {
		if painted, ok := a.(Painted); ok {
			safe[i] = Arg(painted.text, func(s string) string { return p.paint(painted.color, Text(s)) })
		} else {
			safe[i] = Arg(a, Text)
		}
	}
	_, err := fmt.Fprintf(p.w, format, safe...)
	return err
}

// Write prints a text that has line breaks and tabs of its own, such as an error or a table, and replaces other characters as
// Text does. A character must not be split between two calls.
func (p *Printer) Write(b []byte) (int, error) {
	text := replace(string(b), "\n\t")
	if p.indent != "" {
		text = furtherLine.ReplaceAllString(text, "\n"+p.indent+"$1")
	}
	if _, err := io.WriteString(p.w, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// furtherLine matches a line break and the character that begins the next line.
var furtherLine = regexp.MustCompile(`\n([^\n])`)

// JSON prints a value as JSON, and a line break. With an indent, each field has a line of its own. Strings keep every
// character: the encoder leaves some as they are that Text replaces, and JSON escapes these.
func (p *Printer) JSON(value any, indent string) error {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // names of Rust functions have angle brackets
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	var escaped strings.Builder
	for _, r := range text.String() {
		if unicode.IsPrint(r) || r == '\n' { // the encoder's own: it escapes those in strings
			escaped.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&escaped, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(p.w, escaped.String())
	return err
}

// Buffered prints in one piece everything that write prints. Within write, no Printf fails.
func (p *Printer) Buffered(write func(*Printer)) error {
	var b bytes.Buffer
	write(New(&b, p.colors))
	_, err := p.w.Write(b.Bytes())
	return err
}

// Raw returns the writer behind the Printer, for anything but text of the tool: files, and copies of its input.
func (p *Printer) Raw() io.Writer { return p.w }

// A Color is an escape sequence for a terminal (ECMA-48).
type Color string

// The colors.
const (
	Bold   Color = "\x1b[1m"
	Faint  Color = "\x1b[2m"
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"
	Cyan   Color = "\x1b[36m"
)

// Painted is a text that Printf prints in a color.
type Painted struct {
	color Color
	text  string
}

// Of returns a text in the color.
func (c Color) Of(text string) Painted { return Painted{c, text} }

// paint puts the color before a text and a reset after it, if the Printer prints colors.
func (p *Printer) paint(color Color, text string) string {
	if !p.colors || text == "" {
		return text
	}
	return string(color) + text + "\x1b[0m"
}
