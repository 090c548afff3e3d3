package kmod

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// parser builds the symbols of modules of a kernel's list.
//
// The kernel finds the place of a line by counting lines from the start, so that
// a module that comes while the list is read makes it repeat some, and one that
// goes makes it leave some out. What the parser can see of that, it calls torn: a
// module or a line that stands there twice, and a module that was not loaded. What
// it cannot see is that a module went that was there before. Lines can also stand
// there twice for good: variables of no size have one address, and can have one
// name. Then the next read gives the same sum.
type parser struct {
	loaded map[string]bool
	wanted map[string]*module
	built  map[*module]*symtab.Module
	torn   bool
	sum    uint64 // of all lines, in their order

	seen    map[string]bool // modules
	lines   map[uint64]bool // of the one being read, by their hash
	current *module         // the one being read, nil if it is not wanted
	sorter  symtab.Sorter
}

func newParser(list []identity, wanted []*module) *parser {
	p := &parser{
		loaded: make(map[string]bool),
		wanted: make(map[string]*module),
		built:  make(map[*module]*symtab.Module),
		seen:   make(map[string]bool),
		lines:  make(map[uint64]bool),
	}
	for _, id := range list {
		p.loaded[id.name] = true
	}
	for _, m := range wanted {
		p.wanted[m.name] = m
	}
	return p
}

// parse reads a list of kernel symbols, no further than to the last of the
// wanted modules. It returns kallsyms.ErrRestricted if it hides all addresses of
// modules.
func (p *parser) parse(r io.Reader) error {
	scanner := kallsyms.NewScanner(r)
	err := scanner.SkipToModules()
	hidden, anyLine := true, false
	name := ""
	for err == nil {
		var line kallsyms.Line
		if err = scanner.Scan(&line); err != nil {
			break
		}
		if string(line.Module) != name {
			p.finish()
			name = string(line.Module)
			if !isModule(name) {
				break
			}
			p.begin(name)
			if !hidden && len(p.built) == len(p.wanted) {
				break
			}
		}
		hidden, anyLine = hidden && line.Addr == 0, true
		p.note(&line)
		if m := p.current; m != nil && m.info.Start <= line.Addr && line.Addr < m.info.End {
			p.sorter.Add(line.Addr, line.Type, line.Name)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if anyLine && hidden {
		return kallsyms.ErrRestricted
	}
	p.finish()
	return nil
}

// begin begins a module.
func (p *parser) begin(name string) {
	p.torn = p.torn || p.seen[name] || !p.loaded[name]
	p.seen[name] = true
	clear(p.lines)
	p.current = p.wanted[name]
}

var lineSeed = maphash.MakeSeed()

// note looks whether a line stands there for the second time.
func (p *parser) note(line *kallsyms.Line) {
	hash := line.Addr ^ maphash.Bytes(lineSeed, line.Name)
	p.sum = p.sum*31 + hash
	if line.Addr == 0 {
		return // absent, or hidden
	}
	p.torn = p.torn || p.lines[hash]
	p.lines[hash] = true
}

// isModule reports whether a name in brackets is that of a module. Those that
// are not come last.
func isModule(name string) bool {
	return name != "bpf" && !strings.HasPrefix(name, "__builtin__")
}

// finish builds the current module.
func (p *parser) finish() {
	m := p.current
	p.current = nil
	if m == nil {
		return
	}
	built, err := p.sorter.Build(m.info)
	if err != nil {
		m.err = fmt.Errorf("frames of module %s get no names: %w", m.name, err)
	}
	p.built[m] = built
}

// assign gives the wanted modules their symbols. Those that are not in the list
// have none.
func (p *parser) assign() {
	for _, m := range p.wanted {
		m.whole = p.built[m]
		if m.whole == nil {
			m.whole = withoutSymbols(m.info)
		}
		m.noCode = m.whole == nil
	}
}
