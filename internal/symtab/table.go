package symtab

import (
	"cmp"
	"slices"
	"sort"
)

// A Table is what one source knows. It is immutable.
type Table struct {
	modules []*Module // by Start
	starts  []uint64  // of modules, to search in
	byName  map[string]*Module
	byBuild map[string]*Module
}

// NewTable returns a table of the modules, which may be given in any order. It
// takes the slice over. Of modules that overlap, the one that starts later has
// the addresses from its start on; of modules with the same name or the same
// build id, the first is the one found by it.
func NewTable(modules []*Module) *Table {
	t := &Table{
		modules: modules,
		starts:  make([]uint64, len(modules)),
		byName:  make(map[string]*Module, len(modules)),
		byBuild: make(map[string]*Module, len(modules)),
	}
	for _, m := range modules {
		if _, ok := t.byName[m.Name]; !ok {
			t.byName[m.Name] = m
		}
		if _, ok := t.byBuild[m.BuildID]; !ok && m.BuildID != "" {
			t.byBuild[m.BuildID] = m
		}
	}
	slices.SortStableFunc(t.modules, func(a, b *Module) int { return cmp.Compare(a.Start, b.Start) })
	for i, m := range t.modules {
		t.starts[i] = m.Start
	}
	return t
}

// Modules returns the modules in the order of their addresses. The slice must
// not be changed.
func (t *Table) Modules() []*Module { return t.modules }

// ModuleAt returns the module that has code at addr at some instant of at.
func (t *Table) ModuleAt(addr uint64, at Interval) (*Module, bool) {
	m := t.last(addr)
	if m == nil || !m.Contains(addr) || !m.Valid.Overlaps(at) {
		return nil, false
	}
	return m, true
}

// Lookup returns the symbol that covers addr at some instant of at. It is
// exact: it never returns the nearest symbol, nor one outside its time. It does
// not allocate.
func (t *Table) Lookup(addr uint64, at Interval) (Symbol, bool) {
	m := t.last(addr)
	if m == nil || !m.Contains(addr) || !m.Valid.Overlaps(at) {
		return Symbol{}, false
	}
	offset := addr - m.Start
	i := m.symbols.floor(uint32(offset))
	if i < 0 {
		return Symbol{}, false
	}
	start := uint64(m.symbols.extents[i].offset())
	end := start + m.symbols.size(i)
	return Symbol{Start: m.Start + start, End: m.Start + end, Module: m, number: uint32(i)}, offset < end
}

// last returns the last module that starts at or below addr, nil if there is
// none.
func (t *Table) last(addr uint64) *Module {
	n := len(t.starts)
	if n == 0 || addr < t.starts[0] {
		return nil
	}
	if n == 1 || addr >= t.starts[n-1] {
		return t.modules[n-1]
	}
	return t.modules[sort.Search(n, func(i int) bool { return t.starts[i] > addr })-1]
}
