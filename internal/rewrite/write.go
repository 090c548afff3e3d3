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
		p.count(OutcomeForeign, owner{})
		return
	case a.named:
		p.count(OutcomeResolved, a.owner)
	case f.named:
		return // what it has is better than nothing
	case a.expired:
		p.count(OutcomeExpired, owner{})
		return
	default:
		p.count(OutcomeUnresolved, a.owner)
		if !a.owner.isKnown() {
			return
		}
	}
	p.wrote = true
	p.place(loc, f.target, a.owner)
	if f.untyped {
		loc.AttributeIndices().Append(p.attributeIndex(attrKernelFrame, valueKernel))
	}
	switch {
	case a.symbol.Function != nil:
		p.writeFunction(loc, a.symbol.Function, a.line)
	case a.named:
		if a.symbol != p.function.symbol {
			p.function = function{symbol: a.symbol, Name: a.symbol.Name(), index: -1}
		}
		p.setFunction(loc, &p.function)
	case p.opts.Label:
		name := label(a.owner.module, f.target.addr)
		p.setFunction(loc, &function{Name: &symtab.Name{Name: name, System: name}, index: -1})
	}
	if a.named && p.attributes.uses[attrIsFolded] {
		p.setFolded(loc, a.symbol.Module != nil && p.function.Folded)
	}
}

// function is what a location is named after.
type function struct {
	symbol symtab.Symbol
	*symtab.Name
	file  string // empty if it is not known
	index int32  // in the function table, -1 while not known
}

// place gives a location the mapping of the owner, and the address to go with it.
func (p *pass) place(loc pprofile.Location, t target, o owner) {
	relative := t.module != nil
	if base := o.base(); !relative && !p.opts.KeepAddresses {
		switch {
		case t.addr >= base:
			loc.SetAddress(t.addr - base)
			relative = true
		case t.addr+1 == base && (o.module == nil || o.module.Start == base): // the eBPF profiler has taken 1 off
			loc.SetAddress(0)
			relative = true
		}
	}
	if o.function != nil {
		loc.SetMappingIndex(p.functionMapping(o.function, relative))
	} else if has := loc.MappingIndex(); has == 0 || !p.isMappingOf(has, o.module, relative) {
		loc.SetMappingIndex(p.mappingIndex(o.module, relative))
	}
}

// setFunction makes the function the only line of a location and reports true,
// unless its outermost line is of that function already: then the lines know more.
func (p *pass) setFunction(loc pprofile.Location, f *function) bool {
	lines := loc.Lines()
	if n := lines.Len(); n > 0 {
		if p.isFunction(lines.At(n-1).FunctionIndex(), f.Name) {
			return false
		}
		lines.RemoveIf(func(pprofile.Line) bool { return true })
	}
	if f.index < 0 {
		f.index = p.functionIndex(f.Name, f.file)
	}
	lines.AppendEmpty().SetFunctionIndex(f.index)
	return true
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
