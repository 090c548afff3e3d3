// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteJSON writes the report as JSON. Fields and levels are stable. The texts are for people.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// The colors of levels and of labels (ECMA-48).
var colors = map[Level]string{OK: "\x1b[32m", Note: "\x1b[36m", Warn: "\x1b[33m", Fail: "\x1b[31m"}

const (
	faint = "\x1b[2m"
	plain = "\x1b[0m"
)

// summary explains a result.
var summary = map[Level]string{
	OK:   "Everything works: kernel frames get names and file IDs. Source lines of the core kernel and of modules need packs.",
	Warn: "Something is lost: see the lines marked warn.",
	Fail: "The core kernel has no names: see the lines marked fail.",
}

// Columns is the width of a report that is not for a terminal.
const Columns = 110

// WriteText writes the report for people, in lines of so many columns if words are not longer.
func (r *Report) WriteText(w io.Writer, color bool, columns int) error {
	paint := func(code, text string) string {
		if !color {
			return text
		}
		return code + text + plain
	}
	width := 0
	for _, f := range r.Findings {
		width = max(width, len(f.Check))
	}
	var b strings.Builder
	said := make(map[string]bool) // remedies that were printed, each only once
	indent := strings.Repeat(" ", len("warn  ")+width+2)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s  %-*s  %s\n", paint(colors[f.Level], fmt.Sprintf("%-4s", f.Level)), width, f.Check,
			wrap(f.Found, indent, columns))
		if f.Lost != "" {
			fmt.Fprintf(&b, "%s%s %s\n", indent, paint(faint, "lost:  "), wrap(f.Lost, indent+"        ", columns))
		}
		label := "remedy:"
		for _, line := range f.Remedy {
			if !said[line] {
				fmt.Fprintf(&b, "%s%s %s\n", indent, paint(faint, label), wrap(line, indent+"        ", columns))
				label = "       "
			}
			said[line] = true
		}
	}
	fmt.Fprintf(&b, "\n%s\n", paint(colors[r.Result], wrap(summary[r.Result], "", columns)))
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks the lines of a text, which begins in the column where indent ends.
func wrap(text, indent string, columns int) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		column := 0
		for _, word := range strings.Fields(line) {
			switch {
			case column == 0 && i > 0 || column > 0 && len(indent)+column+len(word) >= columns:
				b.WriteString("\n" + indent)
				column = 0
			case column > 0:
				b.WriteByte(' ')
			}
			b.WriteString(word)
			column += len(word) + 1
		}
	}
	return b.String()
}
