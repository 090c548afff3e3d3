// SPDX-License-Identifier: Apache-2.0

package kallsyms

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// CoreText is a name for [Extents]: the text of the core kernel, from the lower of _text and _stext to _etext. The kernel
// neither moves nor frees it.
const CoreText = "_text.._etext"

// Extents returns the addresses of some functions of the core kernel, by name. A function can have several ranges: gcc
// splits off parts, whose symbols have a suffix such as ".cold". Each range ends where the next symbol begins. If the
// list has the symbols NAME_start and NAME_end, such as __entry_text_start, the range of NAME is between them. Names
// that the list does not have get no ranges. Extents returns ErrRestricted if the kernel hides its addresses.
func Extents(r io.Reader, names ...string) (map[string][]symtab.Range, error) {
	e := extents{found: make(map[string][]symtab.Range)}
	for _, name := range names {
		e.found[name] = nil
	}
	isHidden := true
	scanner := NewScanner(r)
	for line := (Line{}); string(line.Name) != "_etext" && len(line.Module) == 0; {
		if err := scanner.Scan(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		isHidden = isHidden && line.Addr == 0
		e.addCoreText(&line)
		e.add(&line)
	}
	if isHidden {
		return nil, ErrRestricted
	}
	return e.found, nil
}

// ExtentsOf returns what Extents does, from the symbols of a core kernel. It finds a function by the one name that an image
// has of it, and of the pairs of symbols, those of __entry_text and CoreText only.
func ExtentsOf(core *timeline.Image, names ...string) map[string][]symtab.Range {
	found := make(map[string][]symtab.Range)
	for _, name := range names {
		found[name] = nil
	}
	for i := range core.Text.Len() {
		s := core.Text.Symbol(i)
		name, _, _ := strings.Cut(core.Text.Name(s).System, ".")
		if _, ok := found[name]; ok {
			found[name] = append(found[name], symtab.Range{Start: s.Start, End: s.End()})
		}
	}
	const entry = "__entry_text"
	if _, ok := found[entry]; ok && core.Text.Landmarks.Entry != (symtab.Range{}) {
		found[entry] = []symtab.Range{core.Text.Landmarks.Entry}
	}
	if _, ok := found[CoreText]; ok {
		found[CoreText] = []symtab.Range{core.Text.Main()}
	}
	return found
}

// extents collects the ranges of functions, from lines in the order of their addresses.
type extents struct {
	found map[string][]symtab.Range // has an entry for each wanted name
	open  []string                  // the names of symbols that begin
	start uint64                    // here; a symbol with a higher address ends them
}

func (e *extents) add(line *Line) {
	if line.Addr != e.start {
		e.end(line.Addr)
	}
	if !symtab.IsCode(line.Type) {
		return
	}
	if name, _, _ := bytes.Cut(line.Name, []byte(".")); e.isWanted(name) {
		e.open, e.start = append(e.open, string(name)), line.Addr
	}
	if name, ok := bytes.CutSuffix(line.Name, []byte("_start")); ok && e.isWanted(name) {
		e.found[string(name)] = append(e.found[string(name)], symtab.Range{Start: line.Addr, End: line.Addr})
	}
	if name, ok := bytes.CutSuffix(line.Name, []byte("_end")); ok && len(e.found[string(name)]) > 0 {
		e.found[string(name)][0].End = line.Addr
	}
}

// addCoreText begins the range of CoreText, or ends it.
func (e *extents) addCoreText(line *Line) {
	text, wanted := e.found[CoreText]
	switch name := string(line.Name); {
	case !wanted:
	case (name == "_text" || name == "_stext") && len(text) == 0:
		e.found[CoreText] = []symtab.Range{{Start: line.Addr, End: line.Addr}}
	case name == "_etext" && len(text) > 0:
		text[0].End = line.Addr
	}
}

func (e *extents) isWanted(name []byte) bool {
	_, ok := e.found[string(name)]
	return ok
}

// end ends the symbols that began. If the next address is lower, their ends are not known.
func (e *extents) end(addr uint64) {
	if addr > e.start {
		for _, name := range e.open {
			e.found[name] = append(e.found[name], symtab.Range{Start: e.start, End: addr})
		}
	}
	e.open = e.open[:0]
}
