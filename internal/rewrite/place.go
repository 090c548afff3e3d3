package rewrite

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

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
