// SPDX-License-Identifier: Apache-2.0

package rewritetest

import (
	"maps"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// A Frame is an OTLP Location with everything it refers to. Two equal frames are one Location.
type Frame struct {
	Address    uint64
	Mapping    *Mapping // nil for none
	Type       string   // the attribute profile.frame.type, empty for none
	Lines      []Line
	Attributes map[string]any // all others: strings, bools and ints
}

// A Mapping is an OTLP Mapping with everything it refers to.
type Mapping struct {
	File         string
	Start, Limit uint64
	Offset       uint64
	BuildID      string // process.executable.build_id.gnu
	FileID       string // process.executable.build_id.htlhash
	Attributes   map[string]any
}

// A Line is an OTLP Line and its Function.
type Line struct {
	Name, System, File string
	Line, Column       int64
	Start              int64 // the first line of the function
}

// Attribute keys that have fields of their own.
const (
	keyFrameType = "profile.frame.type"
	keyBuildID   = "process.executable.build_id.gnu"
	keyFileID    = "process.executable.build_id.htlhash"
)

// A Message builds a message. It fills the tables with pdata's helpers, which are slow and leave no
// duplicates.
type Message struct {
	Profiles pprofile.Profiles
	dict     pprofile.ProfilesDictionary
	profile  pprofile.Profile
}

// NewMessage returns a message without profiles. Each of its tables has only the zero value.
func NewMessage() *Message {
	m := &Message{Profiles: pprofile.NewProfiles()}
	m.dict = m.Profiles.Dictionary()
	m.dict.StringTable().Append("")
	m.dict.AttributeTable().AppendEmpty()
	m.dict.MappingTable().AppendEmpty()
	m.dict.FunctionTable().AppendEmpty()
	m.dict.LocationTable().AppendEmpty()
	m.dict.StackTable().AppendEmpty()
	m.dict.LinkTable().AppendEmpty()
	return m
}

// Profile begins a profile of a resource with the given attributes and of a scope with the given
// name. Samples are added to this profile from then on.
func (m *Message) Profile(resource map[string]any, scope string) *Message {
	rp := m.Profiles.ResourceProfiles().AppendEmpty()
	must(rp.Resource().Attributes().FromRaw(resource))
	sp := rp.ScopeProfiles().AppendEmpty()
	sp.Scope().SetName(scope)
	m.profile = sp.Profiles().AppendEmpty()
	m.profile.SampleType().SetTypeStrindex(m.string("samples"))
	m.profile.SampleType().SetUnitStrindex(m.string("count"))
	return m
}

// Sample adds a sample with the value 1 and the given stack, leaf first.
func (m *Message) Sample(stack ...Frame) *Message {
	s := m.profile.Samples().AppendEmpty()
	s.Values().Append(1)
	s.SetStackIndex(m.Stack(stack...))
	return m
}

// LastProfile returns the profile that was added last. The caller may change it.
func (m *Message) LastProfile() pprofile.Profile { return m.profile }

// LastSample returns the sample that was added last. The caller may change it.
func (m *Message) LastSample() pprofile.Sample {
	return m.profile.Samples().At(m.profile.Samples().Len() - 1)
}

// Stack returns the index of the stack, leaf first, and adds the stack if necessary. No sample
// needs to use it.
func (m *Message) Stack(frames ...Frame) int32 {
	s := pprofile.NewStack()
	for _, f := range frames {
		s.LocationIndices().Append(m.Location(f))
	}
	return index(pprofile.SetStack(m.dict.StackTable(), s))
}

// Location returns the index of the frame's location, and adds the location if necessary.
func (m *Message) Location(f Frame) int32 {
	loc := pprofile.NewLocation()
	loc.SetAddress(f.Address)
	if f.Mapping != nil {
		loc.SetMappingIndex(m.mapping(*f.Mapping))
	}
	if f.Type != "" {
		loc.AttributeIndices().Append(m.Attribute(keyFrameType, f.Type))
	}
	m.attributes(loc.AttributeIndices(), f.Attributes)
	for _, l := range f.Lines {
		line := loc.Lines().AppendEmpty()
		line.SetLine(l.Line)
		line.SetColumn(l.Column)
		line.SetFunctionIndex(m.function(l))
	}
	return index(pprofile.SetLocation(m.dict.LocationTable(), loc))
}

func (m *Message) function(l Line) int32 {
	f := pprofile.NewFunction()
	f.SetNameStrindex(m.string(l.Name))
	f.SetSystemNameStrindex(m.string(l.System))
	f.SetStartLine(l.Start)
	f.SetFilenameStrindex(m.string(l.File))
	return index(pprofile.SetFunction(m.dict.FunctionTable(), f))
}

func (m *Message) mapping(mp Mapping) int32 {
	mapping := pprofile.NewMapping()
	mapping.SetFilenameStrindex(m.string(mp.File))
	mapping.SetMemoryStart(mp.Start)
	mapping.SetMemoryLimit(mp.Limit)
	mapping.SetFileOffset(mp.Offset)
	if mp.BuildID != "" {
		mapping.AttributeIndices().Append(m.Attribute(keyBuildID, mp.BuildID))
	}
	if mp.FileID != "" {
		mapping.AttributeIndices().Append(m.Attribute(keyFileID, mp.FileID))
	}
	m.attributes(mapping.AttributeIndices(), mp.Attributes)
	return index(pprofile.SetMapping(m.dict.MappingTable(), mapping))
}

func (m *Message) attributes(indices pcommon.Int32Slice, attributes map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		indices.Append(m.Attribute(key, attributes[key]))
	}
}

// Attribute returns the index of an attribute, and adds the attribute if necessary.
func (m *Message) Attribute(key string, value any) int32 {
	attr := pprofile.NewKeyValueAndUnit()
	attr.SetKeyStrindex(m.string(key))
	must(attr.Value().FromRaw(value))
	return index(pprofile.SetAttribute(m.dict.AttributeTable(), attr))
}

func (m *Message) string(s string) int32 {
	return index(pprofile.SetString(m.dict.StringTable(), s))
}

// A Sample is an OTLP Sample with everything it refers to that a rewrite can change.
type Sample struct {
	Stack      []Frame
	Values     []int64
	Timestamps []uint64
}

// Samples returns all samples of a valid message, in order.
func Samples(pd pprofile.Profiles) (samples []Sample) {
	dict := pd.Dictionary()
	for _, profile := range Profiles(pd) {
		for _, s := range profile.Samples().All() {
			sample := Sample{Values: s.Values().AsRaw(), Timestamps: s.TimestampsUnixNano().AsRaw()}
			for _, loc := range dict.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
				sample.Stack = append(sample.Stack, FrameAt(dict, loc))
			}
			samples = append(samples, sample)
		}
	}
	return samples
}

// Profiles returns all profiles of a message, in order.
func Profiles(pd pprofile.Profiles) (profiles []pprofile.Profile) {
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, profile := range sp.Profiles().All() {
				profiles = append(profiles, profile)
			}
		}
	}
	return profiles
}

// entry returns an entry of a table, or the zero value if the table was left out.
func entry[T any](t table[T], i int32, zero func() T) T {
	if i == 0 && t.Len() == 0 {
		return zero()
	}
	return t.At(int(i))
}

// stringsOf returns a function that reads the string table, where an index beyond it stands for an empty string.
func stringsOf(dict pprofile.ProfilesDictionary) func(int32) string {
	return func(i int32) string { return entry(dict.StringTable(), i, func() string { return "" }) }
}

// MappingAt returns a mapping.
func MappingAt(dict pprofile.ProfilesDictionary, index int32) *Mapping {
	m := dict.MappingTable().At(int(index))
	is := &Mapping{
		File: stringsOf(dict)(m.FilenameStrindex()), Start: m.MemoryStart(), Limit: m.MemoryLimit(), Offset: m.FileOffset(),
		Attributes: attributesOf(dict, m.AttributeIndices()),
	}
	is.BuildID, is.FileID = cut(&is.Attributes, keyBuildID), cut(&is.Attributes, keyFileID)
	return is
}

// FrameAt returns the frame of a location. If several attributes have one key, it uses the first of
// them.
func FrameAt(dict pprofile.ProfilesDictionary, location int32) Frame {
	str := stringsOf(dict)
	loc := dict.LocationTable().At(int(location))
	f := Frame{Address: loc.Address(), Attributes: attributesOf(dict, loc.AttributeIndices())}
	f.Type = cut(&f.Attributes, keyFrameType)
	if i := loc.MappingIndex(); i != 0 {
		f.Mapping = MappingAt(dict, i)
	}
	for _, l := range loc.Lines().All() {
		fn := entry(dict.FunctionTable(), l.FunctionIndex(), pprofile.NewFunction)
		f.Lines = append(f.Lines, Line{
			Name: str(fn.NameStrindex()), System: str(fn.SystemNameStrindex()), Start: fn.StartLine(),
			File: str(fn.FilenameStrindex()), Line: l.Line(), Column: l.Column(),
		})
	}
	return f
}

func attributesOf(dict pprofile.ProfilesDictionary, indices pcommon.Int32Slice) map[string]any {
	var attributes map[string]any
	for _, i := range indices.All() {
		a := entry(dict.AttributeTable(), i, pprofile.NewKeyValueAndUnit)
		if attributes == nil {
			attributes = make(map[string]any)
		}
		key := entry(dict.StringTable(), a.KeyStrindex(), func() string { return "" })
		if _, ok := attributes[key]; !ok {
			attributes[key] = a.Value().AsRaw()
		}
	}
	return attributes
}

// cut removes a string from the attributes and returns it. If the map is then empty, it becomes
// nil.
func cut(attributes *map[string]any, key string) string {
	value, _ := (*attributes)[key].(string)
	delete(*attributes, key)
	if len(*attributes) == 0 {
		*attributes = nil
	}
	return value
}

func index(i int32, err error) int32 {
	must(err)
	return i
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
