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

// Lookup returns the symbol that covered addr in an interval. It is exact: it never
// returns the nearest symbol, nor one outside its time but for the tolerance of section
// 5.2 of the contract. Of several that had the address in the interval, it returns the
// one that had it for most of it. It does not allocate.
func (s *Snapshot) Lookup(addr uint64, at Interval) (Symbol, bool) {
	if s == nil {
		return Symbol{}, false
	}
	if s.core != nil && s.core.Contains(addr) {
		return s.core.Lookup(addr)
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

func (s *Snapshot) lookup(addr uint64, at Interval) (sym Symbol, ok, settled bool) {
	at = notEmpty(at)
	if f := s.onlyFunction(addr); f != nil && f.isLive(at) && f.size&isGuess == 0 {
		return functionOf(f), true, true
	}
	m, f, settled := s.owner(addr, at)
	switch {
	case f != nil:
		return Symbol{Start: f.Start, End: f.End(), Function: f}, true, settled
	case m == nil:
		return Symbol{}, false, settled
	}
	sym, ok = m.Lookup(addr)
	if ok && sym.Start == m.lastStart() {
		sym.End = min(sym.End, s.endOf(m, sym.End, at))
	}
	return sym, ok, settled
}

// ModuleAt returns the module that had code at addr in an interval, or most of it.
func (s *Snapshot) ModuleAt(addr uint64, at Interval) (*Module, bool) {
	if s == nil {
		return nil, false
	}
	m, _, _ := s.owner(addr, notEmpty(at))
	return m, m != nil
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
