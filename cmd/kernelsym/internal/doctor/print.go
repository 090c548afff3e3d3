// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// WriteJSON writes the report and its details as JSON, without kernel addresses and the names of this host. The fields of the
// report and of its findings are stable, and so are levels. The texts are for people, and the details for bug reports.
func (r *Report) WriteJSON(out *printable.Printer) error {
	return r.writeJSON(out, newScrubber(hostNames()))
}

func (r *Report) writeJSON(out *printable.Printer, s scrubber) error {
	return out.JSON(s.report(*r), "  ")
}

// colors are the colors of levels.
var colors = map[Level]printable.Color{OK: printable.Green, Note: printable.Cyan, Warn: printable.Yellow, Fail: printable.Red}

// summary explains a result.
var summary = map[Level]string{
	OK:   "Everything works: kernel frames get names and file IDs. Source lines of the core kernel and of modules need packs.",
	Warn: "Something is lost: see the lines marked warn.",
	Fail: "The core kernel has no names: see the lines marked fail.",
}

// Columns is the width of a report that is not for a terminal.
const Columns = 110

// WriteText writes the report for people, in lines of so many columns if words are not longer.
func (r *Report) WriteText(out *printable.Printer, columns int) error {
	width := 0
	for _, f := range r.Findings {
		width = max(width, len(f.Check))
	}
	indent := strings.Repeat(" ", len("warn  ")+width+2)
	return out.Buffered(func(out *printable.Printer) {
		labeled := func(label, text string) {
			out.Printf("%s%s ", indent, printable.Faint.Of(label))
			writeWrapped(out, text, indent+"        ", columns)
		}
		said := make(map[string]bool) // remedies that were printed, each only once
		for _, f := range r.Findings {
			out.Printf("%-4s  %-*s  ", colors[f.Level].Of(string(f.Level)), width, f.Check)
			writeWrapped(out, f.Found, indent, columns)
			if f.Lost != "" {
				labeled("lost:  ", f.Lost)
			}
			label := "remedy:"
			for _, line := range f.Remedy {
				if !said[line] {
					labeled(label, line)
					label = "       "
				}
				said[line] = true
			}
		}
		out.Printf("\n")
		for _, line := range wrap(summary[r.Result], 0, columns) {
			out.Printf("%s\n", colors[r.Result].Of(line))
		}
	})
}

// writeWrapped writes a text that begins in the column where indent ends.
func writeWrapped(out *printable.Printer, text, indent string, columns int) {
	for i, line := range wrap(text, len(indent), columns) {
		if i > 0 {
			out.Printf("\n%s", indent)
		}
		out.Printf("%s", line)
	}
	out.Printf("\n")
}

// wrap returns the lines of a text, broken for a column of the given indent.
func wrap(text string, indent, columns int) (lines []string) {
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			switch {
			case line == "":
				line = word
			case indent+len(line)+1+len(word) >= columns:
				lines = append(lines, line)
				line = word
			default:
				line += " " + word
			}
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
