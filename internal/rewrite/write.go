package rewrite

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// Values of attributes that are appended.
var (
	valueKernel = pcommon.NewValueStr(frameTypeKernel)
	valueTrue   = pcommon.NewValueBool(true)
	valueFalse  = pcommon.NewValueBool(false)
)

// write puts an answer into a location (section 4) and counts it. f is the frame
// that the location is, or is a copy of.
func (p *pass) write(loc pprofile.Location, f *frame, a answer) {
	switch {
	case a.foreign:
		p.count(OutcomeForeign, nil)
		return
	case a.named:
		p.count(OutcomeResolved, a.module)
	case f.named:
		return // what it has is better than nothing
	default:
		p.count(OutcomeUnresolved, a.module)
		if a.module == nil {
			return
		}
	}
	p.place(loc, f.target, a.module)
	if f.untyped {
		loc.AttributeIndices().Append(p.attributeIndex(attrKernelFrame, valueKernel))
	}
	switch {
	case a.named:
		if a.symbol != p.function.symbol {
			p.function = function{symbol: a.symbol, Name: a.symbol.Name(), index: -1}
		}
		p.setFunction(loc, &p.function)
		if p.attributes.uses[attrIsFolded] {
			p.setFolded(loc, p.function.Folded)
		}
	case p.opts.Label:
		name := label(a.module, f.target.addr)
		p.setFunction(loc, &function{Name: &symtab.Name{Name: name, System: name}, index: -1})
	}
}

// function is what a location is named after.
type function struct {
	symbol symtab.Symbol
	*symtab.Name
	index int32 // in the function table, -1 while not known
}

// place gives a location the mapping of its module, and the address to go with
// it.
func (p *pass) place(loc pprofile.Location, t target, m *symtab.Module) {
	relative := t.module != nil
	if !relative && !p.opts.KeepAddresses && t.addr >= m.Base {
		loc.SetAddress(t.addr - m.Base)
		relative = true
	}
	if has := loc.MappingIndex(); has == 0 || !p.isMappingOf(has, m, relative) {
		loc.SetMappingIndex(p.mappingIndex(m, relative))
	}
}

// setFunction makes the function the only line of a location, unless its
// outermost line is of that function already: then the lines know more.
func (p *pass) setFunction(loc pprofile.Location, f *function) {
	lines := loc.Lines()
	if n := lines.Len(); n > 0 {
		if p.isFunction(lines.At(n-1).FunctionIndex(), f.Name) {
			return
		}
		lines.RemoveIf(func(pprofile.Line) bool { return true })
	}
	if f.index < 0 {
		f.index = p.functionIndex(f.Name)
	}
	lines.AppendEmpty().SetFunctionIndex(f.index)
}

func (p *pass) isFunction(index int32, name *symtab.Name) bool {
	if uint(index) >= uint(p.funcTable.Len()) {
		return false
	}
	f := p.funcTable.At(int(index))
	hasName, _ := p.str(f.NameStrindex())
	hasSystem, _ := p.str(f.SystemNameStrindex())
	return hasName == name.Name && hasSystem == name.System
}

// setFolded keeps pprof.location.is_folded true to what it says: whether the
// name is one of several at the address. Locations without it are not folded.
func (p *pass) setFolded(loc pprofile.Location, folded bool) {
	indices := loc.AttributeIndices()
	switch has, _ := p.attributes.find(indices, attrIsFolded); {
	case folded:
		p.setAttribute(indices, attrIsFolded, valueTrue)
	case has >= 0:
		p.setAttribute(indices, attrIsFolded, valueFalse)
	}
}

// label names an address in a module for which there is no symbol.
func label(m *symtab.Module, addr uint64) string {
	name, offset := m.Name, "+0x"+strconv.FormatUint(addr-m.Base, 16)
	if m.Origin == symtab.OriginKernel {
		name = "[kernel]"
	}
	if addr < m.Base {
		offset = "-0x" + strconv.FormatUint(m.Base-addr, 16)
	}
	return name + offset
}

// isMappingOf reports whether a mapping names the module and its build already,
// and leaves room for addresses of that kind.
func (p *pass) isMappingOf(index int32, m *symtab.Module, relative bool) bool {
	has := p.mappingAt(index)
	if has.invalid || has.fileName != m.Name || has.buildID != m.BuildID ||
		has.saysNoFunctions && m.Len() > 0 {
		return false
	}
	table := p.mappingTable.At(int(index))
	start, limit := table.MemoryStart(), table.MemoryLimit()
	if relative {
		return start == 0
	}
	return start == 0 && limit == 0 || start <= m.Start && m.End <= limit
}

// moduleMapping is a mapping for frames of a module.
type moduleMapping struct {
	module   *symtab.Module
	relative bool // addresses count from the module's base
}

// mappingIndex returns the index of a mapping for addresses of that kind in the
// module, which is appended if none is there.
func (p *pass) mappingIndex(m *symtab.Module, relative bool) int32 {
	key := moduleMapping{module: m, relative: relative}
	if key == p.tables.lastModule {
		return p.tables.lastMapping
	}
	at := p.findMapping(key)
	p.tables.lastModule, p.tables.lastMapping = key, at
	return at
}

func (p *pass) findMapping(key moduleMapping) int32 {
	if at, ok := p.tables.modules[key]; ok {
		return at
	}
	m, relative := key.module, key.relative
	if p.tables.modules == nil {
		p.tables.modules = make(map[moduleMapping]int32)
	}
	name, fresh := p.stringIndex(m.Name)
	at, found := int32(0), false
	if !fresh { // else no mapping can have it
		at, found = p.mappingNamed(name, m, relative)
	}
	if !found {
		at = p.appendMapping(name, m, relative)
	}
	p.tables.modules[key] = at
	return at
}

// mappingNamed finds a mapping for addresses of that kind in the module, among
// those whose file name has that index. It is asked once for each module.
func (p *pass) mappingNamed(name int32, m *symtab.Module, relative bool) (int32, bool) {
	for i := range p.mappingTable.Len() {
		at := int32(i)
		if p.mappingTable.At(i).FilenameStrindex() != name || !p.isMappingOf(at, m, relative) {
			continue
		}
		// One without the file ID may stay, but nothing more is pointed to it.
		fileID, _ := p.attributes.find(p.mappingTable.At(i).AttributeIndices(), attrFileID)
		if p.stringValue(fileID) == m.FileID {
			return at, true
		}
	}
	return 0, false
}

func (p *pass) appendMapping(name int32, m *symtab.Module, relative bool) int32 {
	if p.mappingTable.Len() == 0 {
		p.mappingTable.AppendEmpty() // index 0 is the zero value
	}
	mapping := p.mappingTable.AppendEmpty()
	mapping.SetFilenameStrindex(name)
	if relative {
		mapping.SetMemoryLimit(m.End - m.Base)
	} else {
		mapping.SetMemoryStart(m.Start)
		mapping.SetMemoryLimit(m.End)
	}
	indices := mapping.AttributeIndices()
	if m.BuildID != "" {
		indices.Append(p.attributeIndex(attrBuildID, pcommon.NewValueStr(m.BuildID)))
		indices.Append(p.attributeIndex(attrFileID, pcommon.NewValueStr(m.FileID)))
	}
	if p.attributes.uses[attrHasFunctions] {
		value := valueFalse
		if m.Len() > 0 {
			value = valueTrue
		}
		indices.Append(p.attributeIndex(attrHasFunctions, value))
	}
	return int32(p.mappingTable.Len() - 1)
}
