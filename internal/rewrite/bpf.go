package rewrite

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// writeFunction names a location after a function that belongs to no module, and
// says of which program it is and from which line it comes (3.6, 4.3).
func (p *pass) writeFunction(loc pprofile.Location, f *symtab.Function, line int32) {
	name := symtab.Symbol{Function: f}.Name()
	if line < 0 {
		p.setFunction(loc, &function{Name: name, index: -1})
	} else if at := f.Lines.Position(int(line)); p.setFunction(loc, &function{Name: name, file: at.File, index: -1}) {
		to := loc.Lines().At(0)
		to.SetLine(int64(at.Line))
		to.SetColumn(int64(at.Column))
	}
	if program := f.Program; program != nil {
		indices := loc.AttributeIndices()
		p.setAttribute(indices, attrProgramID, pcommon.NewValueInt(int64(program.ID)))
		p.setAttribute(indices, attrProgramTag, pcommon.NewValueStr(program.Tag))
		if program.Type != "" {
			p.setAttribute(indices, attrProgramType, pcommon.NewValueStr(program.Type))
		}
	} else if tag := f.Tag(); tag != "" {
		p.setAttribute(loc.AttributeIndices(), attrProgramTag, pcommon.NewValueStr(tag))
	}
}

// functionMapping is what the mapping of a function says.
type functionMapping struct {
	fileName     string
	fileID       string // empty if the function has no tag
	start, limit uint64
}

// functionFiles are the file names of mappings of functions: what the kernel's list of
// symbols has in brackets.
var functionFiles = [...]string{"[bpf]", "[__builtin__ftrace]", "[__builtin__kprobes]"}

func mappingFile(f *symtab.Function) string {
	switch {
	case f.Origin != symtab.OriginOOL:
		return functionFiles[0]
	case strings.HasPrefix(f.Name(), "ftrace"):
		return functionFiles[1]
	}
	return functionFiles[2]
}

// functionMapping returns the index of the mapping of a function, which is appended
// if it is not there.
func (p *pass) functionMapping(f *symtab.Function, relative bool) int32 {
	last := &p.tables.lastFunction
	if last.function != f || last.relative != relative {
		*last = lastFunction{function: f, relative: relative, mapping: p.findFunctionMapping(f, relative)}
	}
	return last.mapping
}

// lastFunction is the one whose mapping was asked for last.
type lastFunction struct {
	function *symtab.Function
	relative bool
	mapping  int32
}

func (p *pass) findFunctionMapping(f *symtab.Function, relative bool) int32 {
	key := functionMapping{fileName: mappingFile(f), limit: uint64(f.Size)}
	if tag := f.Tag(); tag != "" {
		key.fileID = buildid.FileID("bpf:" + tag)
	}
	if !relative {
		key.start, key.limit = f.Start, f.End()
	}
	all := &p.tables.functionMappings
	if *all == nil {
		*all = make(map[functionMapping]int32)
	}
	if len(*all) == 0 {
		p.findFunctionMappings(*all)
	}
	at, ok := (*all)[key]
	if !ok {
		at = p.appendFunctionMapping(key)
		(*all)[key] = at
	}
	return at
}

// findFunctionMappings finds the mappings of functions that there are.
func (p *pass) findFunctionMappings(all map[functionMapping]int32) {
	for i := range p.mappingTable.Len() {
		m := p.mappingAt(int32(i))
		if m.invalid || m.saysNoFunctions || !slices.Contains(functionFiles[:], m.fileName) {
			continue
		}
		table := p.mappingTable.At(i)
		fileID, _ := p.attributes.find(table.AttributeIndices(), attrFileID)
		key := functionMapping{
			fileName: m.fileName, fileID: p.stringValue(fileID),
			start: table.MemoryStart(), limit: table.MemoryLimit(),
		}
		if len(key.fileID) > buildid.FileIDLen {
			continue
		}
		if _, ok := all[key]; !ok {
			all[key] = int32(i)
		}
	}
}

func (p *pass) appendFunctionMapping(m functionMapping) int32 {
	if p.mappingTable.Len() == 0 {
		p.mappingTable.AppendEmpty() // index 0 is the zero value
	}
	mapping := p.mappingTable.AppendEmpty()
	name, _ := p.stringIndex(m.fileName)
	mapping.SetFilenameStrindex(name)
	mapping.SetMemoryStart(m.start)
	mapping.SetMemoryLimit(m.limit)
	indices := mapping.AttributeIndices()
	if m.fileID != "" {
		indices.Append(p.attributeIndex(attrFileID, pcommon.NewValueStr(m.fileID)))
	}
	if p.attributes.uses[attrHasFunctions] {
		indices.Append(p.attributeIndex(attrHasFunctions, valueTrue))
	}
	return int32(p.mappingTable.Len() - 1)
}
