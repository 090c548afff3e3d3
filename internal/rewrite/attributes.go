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
)

// attributes is what is known of the attribute table.
type attributes struct {
	kinds []attribute // by index
	uses  [attrIsFolded + 1]bool
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
	}
	return attrOther
}

// find returns the index of the first attribute of that kind among the indices,
// or -1. It reports false if one of them is not valid.
func (a *attributes) find(indices pcommon.Int32Slice, kind attribute) (at int32, valid bool) {
	at = -1
	for i := range indices.Len() {
		index := indices.At(i)
		if uint(index) >= uint(len(a.kinds)) || a.kinds[index] == attrInvalid {
			return -1, false
		}
		if at < 0 && a.kinds[index] == kind {
			at = index
		}
	}
	return at, true
}

// keys are the keys of the attributes that are appended, by their kind.
var keys = map[attribute]string{
	attrKernelFrame:  keyFrameType,
	attrBuildID:      keyBuildID,
	attrFileID:       keyFileID,
	attrHasFunctions: keyHasFunctions,
	attrIsFolded:     keyIsFolded,
}

// attributeIndex returns the index of the attribute of that kind, without unit,
// that has the value, a string or a bool. It is appended if it is not there.
func (p *pass) attributeIndex(kind attribute, value pcommon.Value) int32 {
	x := &p.tables.attributes
	if !x.built {
		if p.attrTable.Len() == 0 {
			p.attrTable.AppendEmpty() // index 0 is the zero value
			p.attributes.kinds = append(p.attributes.kinds, attrOther)
		}
		x.reset(0)
		for i, k := range p.attributes.kinds {
			if k != attrOther && k != attrInvalid {
				x.add(hashAttribute(k, p.attrTable.At(i).Value()), int32(i))
			}
		}
	}
	hash := hashAttribute(kind, value)
	at, ok := x.find(hash, func(pos int32) bool {
		attr := p.attrTable.At(int(pos))
		return p.attributes.kinds[pos] == kind && attr.UnitStrindex() == 0 && attr.Value().Equal(value)
	})
	if ok {
		return at
	}
	at = int32(p.attrTable.Len())
	attr := p.attrTable.AppendEmpty()
	key, _ := p.stringIndex(keys[kind])
	attr.SetKeyStrindex(key)
	value.CopyTo(attr.Value())
	p.attributes.kinds = append(p.attributes.kinds, kind)
	x.add(hash, at)
	return at
}

func hashAttribute(kind attribute, value pcommon.Value) uint32 {
	h := uint32(kind)
	switch value.Type() {
	case pcommon.ValueTypeStr:
		h = mix(h, uint64(hashString(value.Str())))
	case pcommon.ValueTypeBool:
		if value.Bool() {
			h = mix(h, 1)
		}
	}
	return h
}

// setAttribute makes the attribute the only one of its kind among the indices.
func (p *pass) setAttribute(indices pcommon.Int32Slice, kind attribute, value pcommon.Value) {
	at := p.attributeIndex(kind, value)
	for i := range indices.Len() {
		if p.attributes.kinds[indices.At(i)] == kind {
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
