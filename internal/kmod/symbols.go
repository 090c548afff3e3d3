package kmod

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// parser builds modules of the symbols that a kernel lists for them.
type parser struct {
	modules map[string]symtab.ModuleInfo // those that are wanted
	built   []*symtab.Module

	current symtab.ModuleInfo // the one being read, zero if it is not wanted
	sorter  symtab.Sorter
	end     uint64 // of the page in which the last of its symbols starts
}

// parse reads a list of kernel symbols, no further than those of modules go. It
// returns kallsyms.ErrRestricted if it hides all their addresses.
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
			if err := p.finish(); err != nil {
				return err
			}
			name = string(line.Module)
			if name == "bpf" || strings.HasPrefix(name, "__builtin__") {
				break // what follows belongs to no module
			}
			p.current = p.modules[name]
		}
		hidden, anyLine = hidden && line.Addr == 0, true
		p.add(&line)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if anyLine && hidden {
		return kallsyms.ErrRestricted
	}
	return p.finish()
}

func (p *parser) add(line *kallsyms.Line) {
	if line.Addr < p.current.Start || line.Addr >= p.current.End {
		return
	}
	p.sorter.Add(line.Addr, line.Type, line.Name)
	if symtab.IsCode(line.Type) {
		p.end = max(p.end, (line.Addr|(pageSize-1))+1)
	}
}

// finish builds the current module, if it has a symbol.
func (p *parser) finish() error {
	info, end := p.current, p.end
	p.current, p.end = symtab.ModuleInfo{}, 0
	if end == 0 {
		p.sorter.Reset()
		return nil
	}
	info.End = min(info.End, end)
	m, err := p.sorter.Build(info)
	if err != nil {
		return fmt.Errorf("module %s: %w", info.Name, err)
	}
	p.built = append(p.built, m)
	return nil
}

const pageSize = 4096
