package kmod

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// describe finds out where a module lies and which build it is.
func (s *Source) describe(id identity) *module {
	m := &module{
		identity: id,
		info: symtab.ModuleInfo{
			Name: id.name, Origin: symtab.OriginModule,
			Base: id.addr, Start: id.addr, End: id.addr + id.size,
		},
		highest: id.addr,
		starts:  []uint64{id.addr},
	}
	sys, err := readLoaded(s.dir(id.name))
	m.info.BuildID, m.info.FileID = sys.buildID, buildid.FileID(sys.buildID)
	switch {
	case errors.Is(err, errNoCode):
		m.noCode = true
		m.starts = sys.starts
		return m
	case errors.Is(err, fs.ErrNotExist) && !s.hasSysfs():
		m.err = fmt.Errorf("module frames get no build id and no file ID: %w: is sysfs mounted there?", err)
	case (err != nil || sys.buildID == "") && !s.isLoaded(id):
		m.noCode = true // removed in the meantime, the notes first
		return m
	case err != nil:
		m.err = fmt.Errorf("module frames get no build id and no file ID: %w", err)
	default:
		m.info.Base, m.info.Start, m.info.End = sys.text, sys.lowest, sys.text+id.size
		m.highest, m.starts = sys.highest, sys.starts
	}
	m.noCode = m.noCode || m.info.Base == 0
	return m
}

// withoutSymbols returns a module that says only what it is and where, nil if it
// cannot be there.
func withoutSymbols(info symtab.ModuleInfo) *symtab.Module {
	m, err := new(symtab.Builder).Build(info)
	if err != nil {
		return nil
	}
	return m
}
