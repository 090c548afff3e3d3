// SPDX-License-Identifier: Apache-2.0

package rewrite

import "go.opentelemetry.io/collector/pdata/pcommon"

// Attribute keys of the semantic conventions for profiles.
const (
	keyFrameType      = "profile.frame.type"
	keyBuildID        = "process.executable.build_id.gnu"
	keyFileID         = "process.executable.build_id.htlhash"
	keyHasFunctions   = "pprof.mapping.has_functions"
	keyHasFilenames   = "pprof.mapping.has_filenames"
	keyHasLineNumbers = "pprof.mapping.has_line_numbers"
	keyHasInlined     = "pprof.mapping.has_inline_frames"
	keyIsFolded       = "pprof.location.is_folded"
	keyProgramID      = "bpf.program.id"
	keyProgramTag     = "bpf.program.tag"
	keyProgramType    = "bpf.program.type"

	frameTypeKernel = "kernel"
)

// attribute says what an entry of the attribute table is to this package.
type attribute uint8

const (
	attrOther       attribute = iota
	attrKernelFrame           // frame type "kernel"
	attrOtherFrame            // another frame type
	attrBuildID
	attrFileID
	attrHasFunctions
	attrHasFilenames
	attrHasLineNumbers
	attrHasInlined
	attrIsFolded
	attrProgramID
	attrProgramTag
	attrProgramType
	numAttributes = iota
)

// keys are the keys of the attributes that are appended, by their kind.
var keys = [numAttributes]string{
	attrKernelFrame:    keyFrameType,
	attrBuildID:        keyBuildID,
	attrFileID:         keyFileID,
	attrHasFunctions:   keyHasFunctions,
	attrHasFilenames:   keyHasFilenames,
	attrHasLineNumbers: keyHasLineNumbers,
	attrHasInlined:     keyHasInlined,
	attrIsFolded:       keyIsFolded,
	attrProgramID:      keyProgramID,
	attrProgramTag:     keyProgramTag,
	attrProgramType:    keyProgramType,
}

var kindOfKey = func() map[string]attribute {
	kinds := make(map[string]attribute)
	for kind, key := range keys {
		if key != "" {
			kinds[key] = attribute(kind)
		}
	}
	return kinds
}()

// attributes is what is known of the attribute table.
type attributes struct {
	kinds []attribute // by index
	used  [numAttributes]bool

	// referenced are the values that are given as an index into the string table
	// (contract 1.5). They are not valid if one of these is not in it.
	referenced map[int32]string
	invalid    bool
	probe      probe

	index index // of those that can be appended
}

// read classifies the attribute table.
func (a *attributes) read(d *dictionary) {
	n := d.attrs.Len()
	a.kinds = resized(a.kinds, n)
	clear(a.used[:])
	a.resolve(d)
	key, ofKey := int32(-1), attrOther // most have the key of the one before
	for i := range n {
		if k := d.attrs.At(i).KeyStrindex(); k != key {
			key, ofKey = k, kindOfKey[d.str(k)]
		}
		kind := ofKey
		if kind == attrKernelFrame && a.text(d, int32(i)) != frameTypeKernel {
			kind = attrOtherFrame
		}
		a.kinds[i] = kind
		a.used[kind] = true
	}
}

// kind returns the kind of an attribute, attrOther if there is none with that index.
func (a *attributes) kind(index int32) attribute {
	if uint(index) < uint(len(a.kinds)) {
		return a.kinds[index]
	}
	return attrOther
}

// frameType returns the kind of the frame type among attributes, attrOther if there is none.
func (a *attributes) frameType(indices pcommon.Int32Slice) attribute {
	for i := range indices.Len() {
		if kind := a.kind(indices.At(i)); kind == attrKernelFrame || kind == attrOtherFrame {
			return kind
		}
	}
	return attrOther
}

// find returns the index of the first attribute of that kind among the indices, or -1.
func (a *attributes) find(indices pcommon.Int32Slice, kind attribute) int32 {
	for i := range indices.Len() {
		if index := indices.At(i); a.kind(index) == kind {
			return index
		}
	}
	return -1
}

// text returns the value of an attribute, empty if its index is -1 or it is no string.
func (a *attributes) text(d *dictionary, index int32) string {
	if index < 0 {
		return ""
	}
	return a.value(d, index).text
}

// value returns the value of an attribute, a string also where it is given as an index.
func (a *attributes) value(d *dictionary, index int32) attrValue {
	switch v := d.attrs.At(int(index)).Value(); v.Type() {
	case pcommon.ValueTypeStr:
		return textValue(v.Str())
	case pcommon.ValueTypeBool:
		return boolValue(v.Bool())
	case pcommon.ValueTypeInt:
		return numberValue(v.Int())
	}
	if text, ok := a.referenced[index]; ok {
		return textValue(text)
	}
	return attrValue{}
}

// intern returns the index of the attribute of that kind, without unit, that has the
// value. It is appended if it is not there.
func (a *attributes) intern(m *message, kind attribute, value attrValue) int32 {
	d := &m.dictionary
	is := func(kind attribute, value attrValue) func(int32) bool {
		return func(pos int32) bool { return a.kinds[pos] == kind && a.value(d, pos) == value }
	}
	if !a.index.built {
		if d.attrs.Len() == 0 {
			d.attrs.AppendEmpty() // index 0 is the zero value
			a.kinds = append(a.kinds, attrOther)
		}
		a.index.resetAgain()
		for i, k := range a.kinds {
			if attr := d.attrs.At(i); keys[k] == "" || attr.KeyStrindex() == 0 || d.str(attr.UnitStrindex()) != "" {
				continue // none that is asked for
			}
			value := a.value(d, int32(i))
			a.index.add(value.hash(k), int32(i), is(k, value))
		}
	}
	hash := value.hash(kind)
	at, ok := a.index.find(hash, is(kind, value))
	if ok {
		return at
	}
	at = int32(d.attrs.Len())
	attr := d.attrs.AppendEmpty()
	key, _ := m.strs.intern(d, keys[kind])
	attr.SetKeyStrindex(key)
	if d.str(0) != "" { // contract 1.6: 0 may not mean none
		unit, _ := m.strs.intern(d, "")
		attr.SetUnitStrindex(unit)
	}
	value.writeTo(attr.Value())
	a.kinds = append(a.kinds, kind)
	a.index.addNew(hash, at)
	return at
}

// set puts the attribute in the place of the first of its kind among the indices, or
// behind them.
func (a *attributes) set(m *message, indices pcommon.Int32Slice, kind attribute, value attrValue) {
	at := a.intern(m, kind, value)
	for i := range indices.Len() {
		if a.kind(indices.At(i)) == kind {
			indices.SetAt(i, at)
			return
		}
	}
	indices.Append(at)
}
