package rewrite

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Attribute keys of the semantic conventions for profiles.
const (
	keyFrameType    = "profile.frame.type"
	keyBuildID      = "process.executable.build_id.gnu"
	keyFileID       = "process.executable.build_id.htlhash"
	keyHasFunctions = "pprof.mapping.has_functions"
	keyIsFolded     = "pprof.location.is_folded"
	keyProgramID    = "bpf.program.id"
	keyProgramTag   = "bpf.program.tag"
	keyProgramType  = "bpf.program.type"

	frameTypeKernel = "kernel"
)

// attribute says what an entry of the attribute table is to this package.
type attribute uint8

const (
	attrOther       attribute = iota
	attrInvalid               // its key is not in the string table
	attrKernelFrame           // frame type "kernel"
	attrOtherFrame            // another frame type
	attrBuildID
	attrFileID
	attrHasFunctions
	attrIsFolded
	attrProgramID
	attrProgramTag
	attrProgramType
	numAttributes = iota
)

// attributes is what is known of the attribute table.
type attributes struct {
	kinds []attribute // by index
	uses  [numAttributes]bool
}

// readAttributes classifies the attribute table.
func (p *pass) readAttributes() {
	a := &p.attributes
	n := p.attrTable.Len()
	a.kinds = resized(a.kinds, n)
	clear(a.uses[:])
	for i := range n {
		kind := p.attributeKind(i)
		a.kinds[i] = kind
		a.uses[kind] = true
	}
}

func (p *pass) attributeKind(i int) attribute {
	attr := p.attrTable.At(i)
	p.dangling.strings.see(attr.KeyStrindex())
	p.dangling.strings.see(attr.UnitStrindex())
	key, ok := p.str(attr.KeyStrindex())
	if !ok {
		return attrInvalid
	}
	switch key {
	case keyFrameType:
		if v := attr.Value(); v.Type() == pcommon.ValueTypeStr && v.Str() == frameTypeKernel {
			return attrKernelFrame
		}
		return attrOtherFrame
	case keyBuildID:
		return attrBuildID
	case keyFileID:
		return attrFileID
	case keyHasFunctions:
		return attrHasFunctions
	case keyIsFolded:
		return attrIsFolded
	case keyProgramID:
		return attrProgramID
	case keyProgramTag:
		return attrProgramTag
	case keyProgramType:
		return attrProgramType
	}
	return attrOther
}

// find returns the index of the first attribute of that kind among the indices,
// or -1. It reports false if one of them is not valid.
func (a *attributes) find(indices pcommon.Int32Slice, kind attribute) (at int32, valid bool) {
	at = -1
	for i := range indices.Len() {
		index := indices.At(i)
		switch a.kind(index) {
		case attrInvalid:
			return -1, false
		case kind:
			if at < 0 {
				at = index
			}
		}
	}
	return at, true
}

// kind returns the kind of an attribute. Index 0 is nothing, also where the table was
// left out.
func (a *attributes) kind(index int32) attribute {
	if uint(index) < uint(len(a.kinds)) {
		return a.kinds[index]
	}
	if index == 0 {
		return attrOther
	}
	return attrInvalid
}

// keys are the keys of the attributes that are appended, by their kind.
var keys = [...]string{
	attrKernelFrame:  keyFrameType,
	attrBuildID:      keyBuildID,
	attrFileID:       keyFileID,
	attrHasFunctions: keyHasFunctions,
	attrIsFolded:     keyIsFolded,
	attrProgramID:    keyProgramID,
	attrProgramTag:   keyProgramTag,
	attrProgramType:  keyProgramType,
}

// attributeIndex returns the index of the attribute of that kind, without unit,
// that has the value, a string, bool or integer. It is appended if it is not there.
func (p *pass) attributeIndex(kind attribute, value pcommon.Value) int32 {
	x := &p.tables.attributes
	if !x.built {
		if p.attrTable.Len() == 0 {
			p.attrTable.AppendEmpty() // index 0 is the zero value
			p.attributes.kinds = append(p.attributes.kinds, attrOther)
		}
		x.reset(0)
		for i, k := range p.attributes.kinds {
			attr := p.attrTable.At(i)
			if keys[k] == "" || attr.UnitStrindex() != 0 {
				continue // none that is asked for
			}
			if hash, ok := hashAttribute(k, attr.Value()); ok {
				x.add(hash, int32(i), p.isAttribute(k, attr.Value()))
			}
		}
	}
	hash, _ := hashAttribute(kind, value)
	at, ok := x.find(hash, p.isAttribute(kind, value))
	if ok {
		return at
	}
	at = int32(p.attrTable.Len())
	attr := p.attrTable.AppendEmpty()
	key, _ := p.stringIndex(keys[kind])
	attr.SetKeyStrindex(key)
	value.CopyTo(attr.Value())
	p.attributes.kinds = append(p.attributes.kinds, kind)
	x.addNew(hash, at)
	return at
}

// isAttribute returns what compares indexed attributes with that one.
func (p *pass) isAttribute(kind attribute, value pcommon.Value) func(pos int32) bool {
	return func(pos int32) bool {
		return p.attributes.kinds[pos] == kind && p.attrTable.At(int(pos)).Value().Equal(value)
	}
}

// hashAttribute reports false for a value of another type.
func hashAttribute(kind attribute, value pcommon.Value) (uint32, bool) {
	h := uint32(kind)
	switch value.Type() {
	case pcommon.ValueTypeStr:
		return mix(h, uint64(hashString(value.Str()))), true
	case pcommon.ValueTypeBool:
		if value.Bool() {
			return mix(h, 1), true
		}
		return h, true
	case pcommon.ValueTypeInt:
		return mix(h, uint64(value.Int())), true
	}
	return 0, false
}

// setAttribute puts the attribute in the place of the first of its kind among the
// indices, or behind them.
func (p *pass) setAttribute(indices pcommon.Int32Slice, kind attribute, value pcommon.Value) {
	at := p.attributeIndex(kind, value)
	for i := range indices.Len() {
		if p.attributes.kind(indices.At(i)) == kind {
			indices.SetAt(i, at)
			return
		}
	}
	indices.Append(at)
}

// resized returns s with length n. What it holds is not defined.
func resized[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}
