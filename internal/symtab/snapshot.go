package symtab

// A Snapshot is what all sources know at one moment. It is immutable. A nil
// Snapshot knows nothing.
type Snapshot struct {
	tables []*Table
	core   *Module // to which nearly all lookups go; nil if it is not known
}

// NewSnapshot returns a snapshot of the tables. Tables that are nil, of sources
// that have not published yet, are left out.
func NewSnapshot(tables ...*Table) *Snapshot {
	s := &Snapshot{}
	for _, t := range tables {
		if t != nil {
			s.tables = append(s.tables, t)
			if core := t.byName[KernelName]; core != nil && core.Valid == Always {
				s.core = core
			}
		}
	}
	return s
}

// Tables returns the tables. The slice must not be changed.
func (s *Snapshot) Tables() []*Table {
	if s == nil {
		return nil
	}
	return s.tables
}

// Lookup returns the symbol that covered addr in an interval; see [Table.Lookup].
// Of several tables, functions come before modules: where a function begins that
// is no part of it, a module ends.
func (s *Snapshot) Lookup(addr uint64, at Interval) (Symbol, bool) {
	if s == nil {
		return Symbol{}, false
	}
	if s.core != nil && s.core.Contains(addr) {
		return s.core.Lookup(addr)
	}
	for _, t := range s.tables {
		if f := t.functions.segmentAt(addr); f != nil && f.isLive(at, t.functions.slack) {
			return functionOf(f), true
		}
	}
	sym, ok, _ := s.lookup(addr, at)
	return sym, ok
}

// LookupSettled also says whether the answer, a symbol or none, holds for every
// instant of the interval.
func (s *Snapshot) LookupSettled(addr uint64, at Interval) (sym Symbol, ok, settled bool) {
	if s == nil {
		return Symbol{}, false, true
	}
	if core := s.core; core != nil && core.Contains(addr) {
		sym, ok = core.Lookup(addr)
		return sym, ok, true
	}
	return s.lookup(addr, at)
}

// LookupAlways returns the symbol that always covered addr. It reports settled false,
// and does not look further, if what covers it has not always been there, or something
// may have been there that is forgotten.
func (s *Snapshot) LookupAlways(addr uint64) (sym Symbol, ok, settled bool) {
	if s == nil {
		return Symbol{}, false, true
	}
	if s.core != nil && s.core.Contains(addr) {
		sym, ok = s.core.Lookup(addr)
		return sym, ok, true
	}
	for _, t := range s.tables {
		if t.forgotten.mayHold(addr) || !t.hasAlways(addr) {
			return Symbol{}, false, false
		}
	}
	return s.lookup(addr, Always)
}

func (s *Snapshot) lookup(addr uint64, at Interval) (best Symbol, ok, settled bool) {
	settled = true
	for _, t := range s.tables {
		if addr < t.low || addr >= t.high {
			continue
		}
		sym, found, same := t.lookup(addr, at)
		settled = settled && same
		if !found || ok && !same {
			continue
		}
		if m := sym.Module; m != nil && int(sym.number) == m.Len()-1 {
			sym.End = min(sym.End, s.EndOf(m, at))
			if addr >= sym.End {
				continue
			}
		}
		best, ok = sym, true
		if same {
			break
		}
	}
	return best, ok, settled
}

// EndOf returns where a module ended in an interval. How far it reaches is not
// known: what else begins behind its last symbol ends it (section 3.2 of the
// contract).
func (s *Snapshot) EndOf(m *Module, at Interval) uint64 {
	last := m.Start
	if n := m.Len(); n > 0 {
		last = m.Start + uint64(m.symbols.extents[n-1].offset())
	}
	end := m.End
	for _, t := range s.tables {
		end = t.functions.nextStart(last, end, at)
	}
	return end
}

// ModuleAt returns the module that had code at addr in an interval, or most of it.
func (s *Snapshot) ModuleAt(addr uint64, at Interval) (*Module, bool) {
	for _, t := range s.Tables() {
		if m, ok := t.ModuleAt(addr, at); ok && addr < s.EndOf(m, at) {
			return m, true
		}
	}
	return nil, false
}

// ModuleByName returns the module of that name, spelled as the kernel spells it:
// the one that is there or, if none is, the last that was. unique is false if there
// were others of that name, of another build.
func (s *Snapshot) ModuleByName(name string) (m *Module, unique, ok bool) {
	for _, t := range s.Tables() {
		if m, ok := t.byName[name]; ok {
			return m, !t.ambiguous[name], true
		}
	}
	return nil, false, false
}

// ModuleByBuildID returns the module with that GNU build id, in lower-case hex: the
// one that is there or, if none is, the last that was.
func (s *Snapshot) ModuleByBuildID(id string) (*Module, bool) {
	for _, t := range s.Tables() {
		if m, ok := t.byBuild[id]; ok {
			return m, true
		}
	}
	return nil, false
}

// Expired reports whether code that is forgotten may have been at an address in an
// interval.
func (s *Snapshot) Expired(addr uint64, at Interval) bool {
	for _, t := range s.Tables() {
		if t.forgotten.mayHoldAt(addr, at) {
			return true
		}
	}
	return false
}
