// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Answer is the answer about an address or a function.
type Answer struct {
	Address    where         `json:"address"`
	End        *where        `json:"end,omitempty"` // end of a function; nil for an address
	Inlined    []SourceFrame `json:"inlined,omitempty"`
	Reason     string        `json:"reason,omitempty"`     // why there is no function
	Candidates []*Answer     `json:"candidates,omitempty"` // set if the reason is that there are several
	functionName
	imageName
	SourceLine
}

// functionName is a function and an offset in it.
type functionName struct {
	Function string  `json:"function,omitempty"`
	Alias    string  `json:"alias,omitempty"`  // the name asked for, if it is not the function's own
	Offset   *uint64 `json:"offset,omitempty"` // nil for a whole function
}

// imageName identifies the image that contains the code.
type imageName struct {
	Image   string `json:"image,omitempty"`
	BuildID string `json:"build_id,omitempty"`
	Program uint32 `json:"program_id,omitempty"`
}

// SourceLine is a position in the source. Unknown parts are empty.
type SourceLine struct {
	File   string `json:"file,omitempty"`
	Line   uint32 `json:"line,omitempty"`
	Column uint32 `json:"column,omitempty"`
}

// SourceFrame is an inlined function and the line in it.
type SourceFrame struct {
	Function string `json:"function"`
	SourceLine
}

// where is an absolute address, or an address relative to an image.
type where struct {
	addr     uint64
	relative string // empty for an absolute address
}

func (w where) String() string {
	if w.relative != "" {
		return w.relative
	}
	return printable.Address(w.addr).String()
}

// MarshalText writes an absolute address as [printable.Address] does.
func (w where) MarshalText() ([]byte, error) {
	if w.relative != "" {
		return []byte(w.relative), nil
	}
	return printable.Address(w.addr).MarshalText()
}

// String returns the position after a space, or an empty string.
func (s SourceLine) String() string {
	text := spaced(packview.Position(s.File, s.Line))
	if s.Line != 0 && s.Column != 0 {
		text += fmt.Sprintf(":%d", s.Column)
	}
	return text
}

// String returns the image after a space, or an empty string.
func (i imageName) String() string {
	if i.Image == "" {
		return ""
	}
	s := " [" + i.Image + "]" + spaced(i.BuildID)
	if i.Program != 0 {
		s += fmt.Sprintf(" id %d", i.Program)
	}
	return s
}

// name returns the function with the offset, or a question mark.
func (a *Answer) name() string {
	switch {
	case a.Function == "" && a.Image != "":
		return "?"
	case a.Function == "":
		return "? (" + a.Reason + ")"
	case a.Offset != nil:
		return fmt.Sprintf("%s+%#x", a.Function, *a.Offset)
	case a.Alias != "":
		return a.Function + " (alias " + a.Alias + ")"
	}
	return a.Function
}

// Print prints a line for each inlined function, and one for the function that contains the code.
// The first line begins with the address.
func (a *Answer) Print(out *printable.Printer) {
	address := a.Address.String()
	if a.End != nil {
		address += "-" + a.End.String()
	}
	before := address
	line := func(name printable.Painted, image, where string) {
		out.Printf("%s %s%s%s\n", before, name, printable.Faint.Of(image), where)
		before = strings.Repeat(" ", len(address))
	}
	for _, f := range a.Inlined {
		line(printable.Bold.Of(f.Function), "", f.String()+" (inlined)")
	}
	style := printable.Bold
	if a.Function == "" {
		style = printable.Faint
	}
	line(style.Of(a.name()), a.imageName.String(), a.SourceLine.String())
	for _, c := range a.Candidates {
		out.Printf("%s %s %s%s\n", before, c.Address, c.name(), c.imageName)
	}
}

// setFrames adds the pack's frames for the address. They must be in order, innermost first.
func (a *Answer) setFrames(frames []pack.Frame) {
	n := len(frames)
	if n == 0 {
		return
	}
	for _, f := range frames[:n-1] {
		a.Inlined = append(a.Inlined, SourceFrame{symtab.NameOf(f.Function).Name, SourceLine{File: f.File, Line: f.Line}})
	}
	a.SourceLine = SourceLine{File: frames[n-1].File, Line: frames[n-1].Line}
}

// spaced returns s with a space before it, unless it is empty.
func spaced(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

// IsStart reports whether the answer is about the first byte of a function.
func (a *Answer) IsStart() bool { return a.Offset != nil && *a.Offset == 0 }

// Common returns what two answers about one address have in common: all, or the function without its lines, or nil.
func (a *Answer) Common(b *Answer) *Answer {
	if a.Text() == b.Text() {
		return a
	}
	common := a.withoutLines()
	if common.Text() != b.withoutLines().Text() {
		return nil
	}
	return common
}

// withoutLines returns the answer with the function, but without its source line and what was inlined there.
func (a *Answer) withoutLines() *Answer {
	bare := *a
	bare.Inlined, bare.SourceLine = nil, SourceLine{}
	return &bare
}

// Text returns the answer in one line, without its address.
func (a *Answer) Text() string {
	text := a.inlined() + a.name()
	if a.Image != timeline.KernelName {
		text += " [" + a.Image + "]"
	}
	return text + a.SourceLine.String()
}

// Source returns the inlined functions and the source line in one line, without the function.
func (a *Answer) Source() string {
	return a.inlined() + strings.TrimSpace(a.SourceLine.String())
}

func (a *Answer) inlined() string {
	var b strings.Builder
	for _, f := range a.Inlined {
		b.WriteString(f.Function + f.String() + " (inlined) ")
	}
	return b.String()
}

// decide returns the answer to a query if there is exactly one, or an answer that explains why
// there is none.
func decide(q *query, found []*Answer, reason string) *Answer {
	if len(found) == 1 {
		return found[0]
	}
	a := &Answer{Address: where{relative: q.text}, Reason: reason}
	if len(found) > 1 {
		a.Reason, a.Candidates = timeline.ReasonAmbiguous.String(), found
	}
	return a
}
