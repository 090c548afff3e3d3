// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/index"
	"github.com/kernelsym/kernelsym/internal/scratch"
)

// A Kind is a key of the semantic conventions for profiles. The frame type has two kinds, by its value.
type Kind uint8

// The kinds of attributes.
const (
	OtherAttribute  Kind = iota // any other key
	KernelFrameType             // profile.frame.type, "kernel"
	OtherFrameType              // profile.frame.type, any other value
	BuildID                     // process.executable.build_id.gnu
	FileID                      // process.executable.build_id.htlhash
	HasFunctions                // pprof.mapping.has_functions
	HasFilenames                // pprof.mapping.has_filenames
	HasLineNumbers              // pprof.mapping.has_line_numbers
	HasInlined                  // pprof.mapping.has_inline_frames
	IsFolded                    // pprof.location.is_folded
	ProgramID                   // bpf.program.id
	ProgramTag                  // bpf.program.tag
	ProgramType                 // bpf.program.type
	numKinds        = iota
)

// keyOf is the key of each kind that is appended.
var keyOf = [numKinds]string{
	KernelFrameType: "profile.frame.type",
	BuildID:         "process.executable.build_id.gnu",
	FileID:          "process.executable.build_id.htlhash",
	HasFunctions:    "pprof.mapping.has_functions",
	HasFilenames:    "pprof.mapping.has_filenames",
	HasLineNumbers:  "pprof.mapping.has_line_numbers",
	HasInlined:      "pprof.mapping.has_inline_frames",
	IsFolded:        "pprof.location.is_folded",
	ProgramID:       "bpf.program.id",
	ProgramTag:      "bpf.program.tag",
	ProgramType:     "bpf.program.type",
}

// maxKey is the length of the longest of these keys, or more. Many attributes of a hostile message can share one long
// key.
const maxKey = 64

func kindOfKey(key string) Kind {
	if len(key) > maxKey {
		return OtherAttribute
	}
	return kindOf[key]
}

var kindOf = func() map[string]Kind {
	kinds := make(map[string]Kind)
	for kind, key := range keyOf {
		if key != "" {
			kinds[key] = Kind(kind)
		}
	}
	return kinds
}()

// Attributes is the attribute table. [Attributes.Read] must be called first.
type Attributes struct {
	message  *Message
	table    pprofile.KeyValueAndUnitSlice
	interner interner[attribute]

	kinds []Kind // of each entry
	used  [numKinds]bool

	byIndex      map[int32]string // the strings that are values by index (see contract 1.5), by their entry
	hasBadString bool             // an index of one of these is not in the string table
	probe        probe
}

func (a *Attributes) open(m *Message) {
	a.message = m
	a.interner.open(a.table.Len())
	a.used, a.kinds = [numKinds]bool{}, a.kinds[:0]
}

func (a *Attributes) close() { a.table, a.byIndex = pprofile.KeyValueAndUnitSlice{}, nil }

// Read classifies the entries.
func (a *Attributes) Read() {
	n := a.table.Len()
	a.kinds = scratch.Resized(a.kinds, n)
	a.readStringsByIndex()
	lastKey, lastKind := int32(-1), OtherAttribute // most entries have the key of the one before
	for i := range n {
		if key := a.table.At(i).KeyStrindex(); key != lastKey {
			lastKey, lastKind = key, kindOfKey(a.message.Strings.At(key))
		}
		kind := lastKind
		if kind == KernelFrameType && a.Value(int32(i)).Text != "kernel" {
			kind = OtherFrameType
		}
		a.kinds[i], a.used[kind] = kind, true
	}
}

// Kind returns the kind of an attribute, OtherAttribute if there is none with that index.
func (a *Attributes) Kind(i int32) Kind {
	if uint(i) < uint(len(a.kinds)) {
		return a.kinds[i]
	}
	return OtherAttribute
}

// Uses reports whether the message came with an attribute of one of some kinds.
func (a *Attributes) Uses(kinds ...Kind) bool {
	for _, kind := range kinds {
		if a.used[kind] {
			return true
		}
	}
	return false
}

// FrameType returns KernelFrameType or OtherFrameType, whichever is the first among some attributes, and
// OtherAttribute if there is none.
func (a *Attributes) FrameType(indices pcommon.Int32Slice) Kind {
	for i := range indices.Len() {
		if kind := a.Kind(indices.At(i)); kind == KernelFrameType || kind == OtherFrameType {
			return kind
		}
	}
	return OtherAttribute
}

// Find returns the value of the first attribute of a kind among some.
func (a *Attributes) Find(indices pcommon.Int32Slice, kind Kind) (v Value, ok bool) {
	for i := range indices.Len() {
		if index := indices.At(i); a.Kind(index) == kind {
			return a.Value(index), true
		}
	}
	return Value{}, false
}

// Set puts an attribute in the place of the first of its kind among some, or behind them. It reports whether
// that is a change.
func (a *Attributes) Set(indices pcommon.Int32Slice, kind Kind, v Value) (changed bool) {
	for i := range indices.Len() {
		index := indices.At(i)
		if a.Kind(index) != kind {
			continue
		}
		if a.Value(index) == v {
			return false
		}
		indices.SetAt(i, a.Intern(kind, v))
		return true
	}
	indices.Append(a.Intern(kind, v))
	return true
}

// Value returns the value of an attribute, as a string where it is given as the index of one.
func (a *Attributes) Value(i int32) Value {
	v := ValueOf(a.table.At(int(i)).Value())
	if text, ok := a.byIndex[i]; ok && v == (Value{}) {
		return TextValue(text)
	}
	return v
}

// Key returns the key of an attribute, empty if there is none with that index.
func (a *Attributes) Key(i int32) string {
	if uint(i) >= uint(a.table.Len()) {
		return ""
	}
	return a.message.Strings.At(a.table.At(int(i)).KeyStrindex())
}

// Text returns the value of an attribute, of any type, as text.
func (a *Attributes) Text(i int32) string {
	if text, ok := a.byIndex[i]; ok {
		return text
	}
	return a.table.At(int(i)).Value().AsString()
}

// attribute is the content of an entry that can be interned.
type attribute struct {
	kind  Kind
	value Value
}

// Intern returns the index of an attribute without a unit.
func (a *Attributes) Intern(kind Kind, v Value) int32 {
	at, _ := a.interner.intern(a, attribute{kind, v}, true)
	return at
}

func (a *Attributes) content(i int32) (c attribute, isFindable bool) {
	kind, attr := a.kinds[i], a.table.At(int(i))
	if keyOf[kind] == "" || attr.KeyStrindex() == 0 || a.message.Strings.At(attr.UnitStrindex()) != "" {
		return attribute{}, false // never interned
	}
	v := a.Value(i)
	return attribute{kind, v}, len(v.Text) <= maxID // no interned value is longer
}

func (a *Attributes) has(i int32, c attribute) bool {
	return a.kinds[i] == c.kind && a.Value(i) == c.value
}

func (a *Attributes) hash(c attribute) uint64 {
	v := &c.value
	return index.Mix(index.Mix(uint64(c.kind)<<8|uint64(v.Type), uint64(v.Number)), index.String(v.Text))
}

func (a *Attributes) append(c attribute) int32 {
	if a.table.Len() == 0 {
		a.table.AppendEmpty() // index 0 means none
		a.kinds = append(a.kinds, OtherAttribute)
	}
	attr := a.table.AppendEmpty()
	attr.SetKeyStrindex(a.message.Strings.Intern(keyOf[c.kind]))
	attr.SetUnitStrindex(a.message.Strings.Intern(""))
	c.value.writeTo(attr.Value())
	a.kinds = append(a.kinds, c.kind)
	return int32(a.table.Len() - 1)
}

// A Value is the value of an attribute: a string, a bool or an integer. The zero value stands for any other.
type Value struct {
	Type   pcommon.ValueType
	Text   string
	Number int64 // 1 for true
}

// ValueOf returns a value of pdata.
func ValueOf(v pcommon.Value) Value {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return TextValue(v.Str())
	case pcommon.ValueTypeBool:
		return BoolValue(v.Bool())
	case pcommon.ValueTypeInt:
		return NumberValue(v.Int())
	}
	return Value{}
}

// TextValue returns a string.
func TextValue(s string) Value { return Value{Type: pcommon.ValueTypeStr, Text: s} }

// NumberValue returns an integer.
func NumberValue(i int64) Value { return Value{Type: pcommon.ValueTypeInt, Number: i} }

// BoolValue returns a bool.
func BoolValue(b bool) Value {
	v := Value{Type: pcommon.ValueTypeBool}
	if b {
		v.Number = 1
	}
	return v
}

// writeTo sets an empty value.
func (v Value) writeTo(to pcommon.Value) {
	switch v.Type {
	case pcommon.ValueTypeStr:
		to.SetStr(v.Text)
	case pcommon.ValueTypeBool:
		to.SetBool(v.Number != 0)
	default:
		to.SetInt(v.Number)
	}
}
