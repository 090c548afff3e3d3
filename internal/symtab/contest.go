package symtab

// onlyFunction returns the segment of the functions that an address is in, nil if there
// is none, or if it may also be a module's.
func (s *Snapshot) onlyFunction(addr uint64) (only *segment[*Function]) {
	for _, t := range s.tables {
		if t.modules.segmentAt(addr) != nil {
			return nil
		}
		if f := t.functions.segmentAt(addr); f != nil {
			only = f
		}
	}
	return only
}

// owner returns who had an address in an interval, a module or a function, or neither.
// settled says that no instant of it has another answer.
func (s *Snapshot) owner(addr uint64, at Interval) (m *Module, f *Function, settled bool) {
	var module claim[*Module]
	var function claim[*Function]
	settled = true
	for _, t := range s.tables {
		if addr < t.low || addr >= t.high {
			continue
		}
		mc, fc := t.modules.ownerAt(addr, at), t.functions.ownerAt(addr, at)
		settled = settled && mc.settled && fc.settled
		if mc.owner != nil && (module.owner == nil || mc.isBetter(&module)) {
			module = mc
		}
		if fc.owner != nil && (function.owner == nil || fc.isBetter(&function)) {
			function = fc
		}
	}
	if module.owner != nil && function.owner != nil {
		settled = settled && module.whole && function.whole
		if beats(&module, &function, addr) {
			function.owner = nil
		} else {
			module.owner = nil
		}
	}
	switch {
	case function.owner != nil && (s.isPastGuess(function.owner, addr, at) || s.wasAnother(addr, at, function.whole)),
		module.owner != nil && (s.IsPastEnd(module.owner, addr, at) || s.wasAnother(addr, at, module.whole)):
		return nil, nil, settled
	}
	return module.owner, function.owner, settled
}

// beats reports whether the module has an address that both claim. One of them is not
// what it was taken for: the kernel says of some pages when they come, but not when they
// go, how far a module reaches is a guess, and so is the size of some functions.
func beats(m *claim[*Module], f *claim[*Function], addr uint64) bool {
	last := m.owner.lastStart()
	switch {
	case f.sure > 0 && addr > last && f.owner.Start > last:
		return false // the function ends the module
	case m.sure > 0 && f.owner.Guessed:
		return true
	case m.sure != f.sure:
		return m.sure > f.sure
	case m.sure > 0:
		return m.since > f.since // the later, as the memory can only be one of them
	case m.near != f.near:
		return m.near > f.near
	}
	return m.perhaps > f.perhaps
}

// lastStart returns the address of the module's last symbol: up to there, everything is
// its own. If its symbols are not known, that is its last address.
func (m *Module) lastStart() uint64 {
	if n := m.Len(); n > 0 {
		return m.Start + uint64(m.symbols.extents[n-1].offset())
	}
	return m.End - 1
}

// endOf returns where a module ended in an interval. How far it reaches is not
// known: what else begins behind its last symbol ends it (section 3.2 of the
// contract). If that is not below limit, it returns limit.
func (s *Snapshot) endOf(m *Module, limit uint64, at Interval) uint64 {
	end := min(m.End, limit)
	for _, t := range s.tables {
		end = t.functions.nextStart(m.lastStart(), end, at)
	}
	return end
}

// IsPastEnd reports whether an address lies behind the end that a module had in an
// interval.
func (s *Snapshot) IsPastEnd(m *Module, addr uint64, at Interval) bool {
	return addr >= m.End || addr > m.lastStart() && addr >= s.endOf(m, addr+1, at)
}

// isPastGuess reports whether a module begins between a function whose size is a guess
// and an address.
func (s *Snapshot) isPastGuess(f *Function, addr uint64, at Interval) bool {
	if !f.Guessed {
		return false
	}
	for _, t := range s.tables {
		if t.modules.nextStart(f.Start, addr+1, at) <= addr {
			return true
		}
	}
	return false
}

// wasAnother reports whether an address may have been another's for a part of an
// interval, that is forgotten. whole says that it was not.
func (s *Snapshot) wasAnother(addr uint64, at Interval, whole bool) bool {
	return !whole && s.Expired(addr, at)
}
