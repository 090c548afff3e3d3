// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// answer is what lookup says about an address, or about a function.
type answer struct {
	Address    where         `json:"address"`
	End        *where        `json:"end,omitempty"` // of a function; nil of an address
	Inlined    []sourceFrame `json:"inlined,omitempty"`
	Reason     string        `json:"reason,omitempty"`     // why there is no function
	Candidates []*answer     `json:"candidates,omitempty"` // if the reason is that there are several
	functionName
	imageName
	sourceLine
}

// functionName is a function with an offset in it.
type functionName struct {
	Function string  `json:"function,omitempty"`
	Alias    string  `json:"alias,omitempty"`  // by which it was asked for, if that is not its name
	Offset   *uint64 `json:"offset,omitempty"` // nil of a whole function
}

// imageName says what has the code.
type imageName struct {
	Image   string `json:"image,omitempty"`
	BuildID string `json:"build_id,omitempty"`
	Program uint32 `json:"program_id,omitempty"`
}

// sourceLine is a position in the source; parts that are not known are empty.
type sourceLine struct {
	File   string `json:"file,omitempty"`
	Line   uint32 `json:"line,omitempty"`
	Column uint32 `json:"column,omitempty"`
}

// sourceFrame is a function that was inlined, and the line in it.
type sourceFrame struct {
	Function string `json:"function"`
	sourceLine
}

// where is an address: an absolute one, or one that is relative to an image.
type where struct {
	addr     uint64
	relative string // empty if it is absolute
}

func (w where) String() string {
	if w.relative != "" {
		return w.relative
	}
	return hexadecimal(w.addr).String()
}

// MarshalText writes an absolute address as [hexadecimal] does.
func (w where) MarshalText() ([]byte, error) {
	if w.relative != "" {
		return []byte(w.relative), nil
	}
	return hexadecimal(w.addr).MarshalText()
}

// String returns the position with a space before it, or nothing.
func (s sourceLine) String() string {
	text := spaced(position(s.File, s.Line))
	if s.Line != 0 && s.Column != 0 {
		text += fmt.Sprintf(":%d", s.Column)
	}
	return text
}

// String returns the image with a space before it, or nothing.
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
func (a *answer) name() string {
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

// text returns a line for each function that was inlined and one for the function that has
// the code, with the address before the first.
func (a *answer) text(p palette) string {
	var b strings.Builder
	address := a.Address.String()
	if a.End != nil {
		address += "-" + a.End.String()
	}
	before := address
	line := func(what, where string) {
		fmt.Fprintln(&b, before+" "+what+where)
		before = strings.Repeat(" ", len(address))
	}
	for _, f := range a.Inlined {
		line(p.strong(f.Function), f.String()+" (inlined)")
	}
	name := p.strong(a.name())
	if a.Function == "" {
		name = p.faint(a.name())
	}
	line(name, p.faint(a.imageName.String())+a.sourceLine.String())
	for _, c := range a.Candidates {
		line(c.Address.String()+" "+c.name(), c.imageName.String())
	}
	return b.String()
}

// setFrames adds what a pack says of the address, innermost first.
func (a *answer) setFrames(frames []pack.Frame) {
	n := len(frames)
	if n == 0 {
		return
	}
	for _, f := range frames[:n-1] {
		a.Inlined = append(a.Inlined, sourceFrame{symtab.NameOf(f.Function).Name, sourceLine{File: f.File, Line: f.Line}})
	}
	a.sourceLine = sourceLine{File: frames[n-1].File, Line: frames[n-1].Line}
}

// spaced returns s with a space before it, unless it is empty.
func spaced(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

// decide returns the one answer that there is to a query, or one that says why there is none.
func decide(q *query, found []*answer, reason string) *answer {
	if len(found) == 1 {
		return found[0]
	}
	a := &answer{Address: where{relative: q.text}, Reason: reason}
	if len(found) > 1 {
		a.Reason, a.Candidates = timeline.ReasonAmbiguous.String(), found
	}
	return a
}
