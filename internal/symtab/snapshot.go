package symtab

// A Snapshot is what all sources know at one moment. It is immutable. A nil
// Snapshot knows nothing.
type Snapshot struct {
	tables []*Table
}

// NewSnapshot returns a snapshot of the tables. Tables that are nil, of sources
// that have not published yet, are left out.
func NewSnapshot(tables ...*Table) *Snapshot {
	s := &Snapshot{}
	for _, t := range tables {
		if t != nil {
			s.tables = append(s.tables, t)
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

// Lookup returns the symbol that covers addr at some instant of at; see
// [Table.Lookup].
func (s *Snapshot) Lookup(addr uint64, at Interval) (Symbol, bool) {
	for _, t := range s.Tables() {
		if sym, ok := t.Lookup(addr, at); ok {
			return sym, true
		}
	}
	return Symbol{}, false
}

// ModuleAt returns the module that has code at addr at some instant of at.
func (s *Snapshot) ModuleAt(addr uint64, at Interval) (*Module, bool) {
	for _, t := range s.Tables() {
		if m, ok := t.ModuleAt(addr, at); ok {
			return m, true
		}
	}
	return nil, false
}

// ModuleByName returns the module of that name, spelled as the kernel spells it.
func (s *Snapshot) ModuleByName(name string) (*Module, bool) {
	for _, t := range s.Tables() {
		if m, ok := t.byName[name]; ok {
			return m, true
		}
	}
	return nil, false
}

// ModuleByBuildID returns the module with that GNU build id, in lower-case hex.
func (s *Snapshot) ModuleByBuildID(id string) (*Module, bool) {
	for _, t := range s.Tables() {
		if m, ok := t.byBuild[id]; ok {
			return m, true
		}
	}
	return nil, false
}
