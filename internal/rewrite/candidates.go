package rewrite

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// candidate is a frame to look up.
type candidate struct {
	loc     int32
	named   bool // it has a name already, and is here because all frames are wanted
	untyped bool // it has no frame type yet
}

// findCandidates lists the unsymbolized kernel frames of the message (1.1, 1.2),
// and counts those that are invalid.
func (p *pass) findCandidates() {
	n := p.locTable.Len()
	if n == 0 {
		return
	}
	p.beginDangling()
	p.readAttributes()
	kinds := p.attributes.kinds
	for i := range n {
		loc := p.locTable.At(i)
		indices := loc.AttributeIndices()
		if indices.Len() == 1 { // nearly all have just their frame type
			at := uint(uint32(indices.At(0)))
			if at < uint(len(kinds)) && kinds[at] == attrOtherFrame {
				continue
			}
		}
		frameType := p.frameType(indices)
		if frameType == attrOtherFrame {
			continue
		}
		kernel, valid := p.isKernel(loc, frameType)
		if valid && !kernel {
			continue
		}
		named := false
		if valid {
			named, valid = p.isNamed(loc.Lines())
		}
		switch {
		case !valid:
			p.count(OutcomeInvalid, owner{})
		case named && !p.opts.All:
			p.anyNamed = true
		default:
			p.candidates = append(p.candidates,
				candidate{loc: int32(i), named: named, untyped: frameType == attrOther})
		}
	}
}

// isKernel reports whether a frame without another type is one of kernel code
// (1.1). It is not valid if it refers to an attribute or mapping that is not
// there.
func (p *pass) isKernel(loc pprofile.Location, frameType attribute) (kernel, valid bool) {
	switch frameType {
	case attrKernelFrame:
		return true, p.validMapping(loc.MappingIndex())
	case attrInvalid:
		return false, false
	}
	m := p.mappingAt(loc.MappingIndex())
	switch {
	case m.invalid:
		return false, false
	case m.fileName != "":
		return m.isKernel, true
	}
	return inKernelHalf(loc.Address()) && !isSpecial(loc.Address()), true
}

// frameType returns the kind of the first frame type among a location's
// attributes, attrOther if it has none.
func (p *pass) frameType(indices pcommon.Int32Slice) attribute {
	frameType, invalid := attrOther, false
	for i := range indices.Len() {
		index := indices.At(i)
		switch kind := p.attributes.kind(index); kind {
		case attrInvalid:
			p.dangling.attributes.see(index)
			invalid = true
		case attrKernelFrame, attrOtherFrame:
			if frameType == attrOther {
				frameType = kind
			}
		}
	}
	if invalid {
		return attrInvalid
	}
	return frameType
}

// isNamed reports whether one of the lines leads to a function with a name that
// is more than a placeholder (1.2).
func (p *pass) isNamed(lines pprofile.LineSlice) (named, valid bool) {
	valid = true
	for i := range lines.Len() {
		switch p.functionKind(lines.At(i).FunctionIndex()) {
		case functionNamed:
			named = true
		case functionInvalid:
			valid = false
		}
	}
	return named && valid, valid
}

// functionKind is what an entry of the function table says.
type functionKind uint8

const (
	functionUnknown functionKind = iota // was not looked at yet
	functionNamed
	functionUnnamed
	functionInvalid // is not in the table, or its name is not
)

// functionKind looks at a function once for a message.
func (p *pass) functionKind(index int32) functionKind {
	n := p.funcTable.Len()
	if uint(index) >= uint(n) {
		if index == 0 {
			return functionUnnamed // the zero value of a table that was left out
		}
		return functionInvalid
	}
	if len(p.functionKinds) == 0 {
		p.functionKinds = resized(p.functionKinds, n)
		clear(p.functionKinds)
	}
	kind := &p.functionKinds[index]
	if *kind == functionUnknown {
		switch name, ok := p.functionName(p.funcTable.At(int(index))); {
		case !ok:
			*kind = functionInvalid
		case isPlaceholder(name):
			*kind = functionUnnamed
		default:
			*kind = functionNamed
		}
	}
	return *kind
}

// functionName returns a function's name, the system's if it has no other.
func (p *pass) functionName(f pprofile.Function) (string, bool) {
	if name, ok := p.str(f.NameStrindex()); !ok || name != "" {
		return name, ok
	}
	return p.str(f.SystemNameStrindex())
}

// maxDigits is more digits than anybody writes an address with. Many functions can
// have one long name.
const maxDigits = 64

// isPlaceholder reports whether a name says no more than that there is none.
func isPlaceholder(name string) bool {
	if name == "" {
		return true
	}
	switch name[0] {
	case '[':
		switch name {
		case "[unknown]", "[symbolication_failed]", "[kernel.kallsyms]", "[[kernel.kallsyms]]":
			return true
		}
		return false
	case 'U':
		return name == "UNKNOWN"
	case '0':
		if digits, ok := strings.CutPrefix(name, "0x"); ok {
			return len(digits) <= maxDigits && isHex(digits)
		}
	}
	return len(name) == 16 && isHex(name)
}

func isHex(digits string) bool {
	for i := range len(digits) {
		switch c := digits[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return digits != ""
}
