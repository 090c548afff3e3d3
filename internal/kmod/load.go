package kmod

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// load makes a table of the listed modules that are live. What degraded says is
// missing from it.
func (s *Source) load(list []listed) (table *symtab.Table, degraded, err error) {
	modules := make(map[string]symtab.ModuleInfo)
	for _, l := range list {
		if !l.live {
			continue
		}
		info, err := s.describe(l)
		if errors.Is(err, errNoCode) {
			continue
		}
		if err != nil {
			degraded = fmt.Errorf("module frames get no build id and no file ID: %w", err)
		}
		modules[l.name] = info
	}
	clip(modules)
	built, err := s.readSymbols(modules)
	if err != nil {
		return nil, nil, err
	}
	return symtab.NewTable(built), degraded, nil
}

// describe says where a module lies and which build it is. With an error, it
// says only what the list tells.
func (s *Source) describe(l listed) (symtab.ModuleInfo, error) {
	info := symtab.ModuleInfo{
		Name:   l.name,
		Origin: symtab.OriginModule,
		Base:   l.addr,
		Start:  l.addr,
		End:    l.addr + l.size,
		Valid:  symtab.Always,
	}
	sys, err := readLoaded(s.dir(l.name))
	info.BuildID, info.FileID = sys.buildID, buildid.FileID(sys.buildID)
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Stat(filepath.Join(s.sysfs, "module")); statErr == nil {
			return info, errNoCode // removed in the meantime
		}
		return info, fmt.Errorf("%w: is sysfs mounted there?", err)
	}
	if err != nil {
		return info, err
	}
	info.Base, info.Start = sys.text, sys.lowest
	info.End = sys.text + l.size
	return info, nil
}

// clip ends each module at the latest where the next one starts.
func clip(modules map[string]symtab.ModuleInfo) {
	for name, m := range modules {
		for _, other := range modules {
			if other.Start > m.Start {
				m.End = min(m.End, other.Start)
			}
		}
		modules[name] = m
	}
}

// readSymbols reads the symbols of the modules from kallsyms.
func (s *Source) readSymbols(modules map[string]symtab.ModuleInfo) ([]*symtab.Module, error) {
	if len(modules) == 0 {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(s.procfs, "kallsyms"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := parser{modules: modules}
	if err := p.parse(f); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return p.built, nil
}
