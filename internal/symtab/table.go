package symtab

import (
	"cmp"
	"math"
	"slices"
)

// A Table is what one source knows: modules or functions, those that are in the
// kernel and those that were. It is immutable.
type Table struct {
	modules   view[*Module]
	functions view[*Function]

	low, high uint64 // nothing is known of addresses outside [low, high)

	byName, byBuild map[string]*Module
	ambiguous       map[string]bool // names that several builds had

	live      [NumOrigins]int // number of symbols
	memory    [NumOrigins]int64
	history   int // number of pieces that are not there any more
	forgotten Forgotten
}

// NewTable returns a table of modules, which may be given in any order, those that
// were unloaded included. Of modules that overlap, the one that starts later has
// the addresses from its start on. Of modules with the same name or the same build
// id, the one loaded last is found by it, of those loaded at once the first.
func NewTable(modules []*Module) *Table {
	t := &Table{
		byName:  make(map[string]*Module, len(modules)),
		byBuild: make(map[string]*Module, len(modules)),
	}
	modules = slices.Clone(modules)
	slices.SortStableFunc(modules, func(a, b *Module) int {
		return cmp.Or(cmp.Compare(a.Valid.To, b.Valid.To), cmp.Compare(a.Start, b.Start))
	})
	var tr tree[*Module]
	tr.share()
	end := uint64(0)
	for _, m := range modules {
		t.index(m)
		switch {
		case m.Start >= m.End:
		case m.isLive():
			end = max(end, m.End) // of those that start earlier, too
			tr.changeOwners(m.Start, end, func(s *segment[*Module]) { s.setLive(nil) })
			tr.changeOwners(m.Start, m.End, func(s *segment[*Module]) { s.setLive(m) })
		default:
			tr.changeOwners(m.Start, m.End, func(s *segment[*Module]) { s.dead = append(s.dead, m) })
		}
	}
	t.modules = newView(&tr)
	t.low, t.high = t.modules.low, t.modules.high
	return t
}

// NewTableWith returns a table of modules, as NewTable does, that also knows of what
// is forgotten.
func NewTableWith(modules []*Module, forgotten Forgotten) *Table {
	t := NewTable(modules)
	t.forgotten = forgotten
	return t
}

// index counts a module and makes it known by its name and build id.
func (t *Table) index(m *Module) {
	t.memory[m.Origin] += m.memory()
	if m.isLive() {
		t.live[m.Origin] += m.Len()
	} else {
		t.history++
	}
	was := t.byName[m.Name]
	if was != nil && was.BuildID != m.BuildID {
		if t.ambiguous == nil {
			t.ambiguous = make(map[string]bool)
		}
		t.ambiguous[m.Name] = true
	}
	if was == nil || was.Valid.To < m.Valid.To {
		t.byName[m.Name] = m
	}
	if was := t.byBuild[m.BuildID]; m.BuildID != "" && (was == nil || was.Valid.To < m.Valid.To) {
		t.byBuild[m.BuildID] = m
	}
}

func (m *Module) isLive() bool { return m.Valid.To == math.MaxInt64 }

func (m *Module) lifetime() (Interval, Slack) { return m.Valid, m.Slack }

func (m *Module) span() (start uint64, size uint32) { return m.Start, uint32(m.End - m.Start) }

// Modules returns the modules that are there, in the order of their addresses.
func (t *Table) Modules() (modules []*Module) {
	seen := make(map[*Module]bool)
	t.modules.all(func(s *segment[*Module]) bool {
		if s.live != nil && !seen[s.live] {
			seen[s.live] = true
			modules = append(modules, s.live)
		}
		return true
	})
	return modules
}

// Functions returns the functions that are there, in the order of their addresses.
func (t *Table) Functions() (functions []*Function) {
	t.functions.all(func(s *segment[*Function]) bool {
		if s.live != nil && (len(functions) == 0 || functions[len(functions)-1] != s.live) {
			functions = append(functions, s.live)
		}
		return true
	})
	return functions
}

// Symbols returns the number of symbols that are there, of each origin.
func (t *Table) Symbols() [NumOrigins]int { return t.live }

// History returns the number of modules and functions that are remembered,
// although they are not there any more.
func (t *Table) History() int { return t.history }

// ModuleAt returns the module that had code at addr in an interval; see [Snapshot.ModuleAt].
func (t *Table) ModuleAt(addr uint64, at Interval) (*Module, bool) {
	return NewSnapshot(t).ModuleAt(addr, at)
}

// Lookup returns the symbol that covered addr in an interval; see [Snapshot.Lookup].
func (t *Table) Lookup(addr uint64, at Interval) (Symbol, bool) {
	return NewSnapshot(t).Lookup(addr, at)
}

// functionOf returns the function that has a segment's addresses.
func functionOf(s *segment[*Function]) Symbol {
	start := s.start - uint64(s.offset)
	return Symbol{Start: start, End: start + uint64(s.size&^isGuess), Function: s.live}
}

// hasAlways reports whether who has an address always had it, or nobody ever had.
func (t *Table) hasAlways(addr uint64) bool {
	if addr < t.low || addr >= t.high {
		return true
	}
	return t.modules.isAlways(addr) && t.functions.isAlways(addr)
}

// Lookup returns the symbol of the module that covers an address, which must be one
// of the module's.
func (m *Module) Lookup(addr uint64) (Symbol, bool) {
	offset := addr - m.Start
	i := m.symbols.floor(uint32(offset))
	if i < 0 {
		return Symbol{}, false
	}
	start := uint64(m.symbols.extents[i].offset())
	end := start + m.symbols.size(i)
	return Symbol{Start: m.Start + start, End: m.Start + end, Module: m, number: uint32(i)}, offset < end
}
