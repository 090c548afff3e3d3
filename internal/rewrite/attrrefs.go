// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// resolve finds the values that are given as an index into the string table. pdata does
// not show these; but it replaces them in the attributes of a resource when it
// unmarshals a message.
func (a *attributes) resolve(d *dictionary) {
	a.referenced, a.invalid = nil, false
	var refs stringRefs
	for i := range d.attrs.Len() {
		attr := d.attrs.At(i)
		switch attr.Value().Type() {
		case pcommon.ValueTypeEmpty:
			// Most messages have one that is empty: entry 0.
			if d.str(attr.KeyStrindex()) != "" || a.probe.isReference(attr.Value()) {
				refs.add(int32(i), attr.Value())
			}
		case pcommon.ValueTypeMap, pcommon.ValueTypeSlice:
			refs.add(int32(i), attr.Value())
		}
	}
	if len(refs.indices) == 0 {
		return
	}
	d.strings.CopyTo(refs.scratch.Dictionary().StringTable())
	wire, err := new(pprofile.ProtoMarshaler).MarshalProfiles(refs.scratch)
	if err == nil {
		refs.scratch, err = new(pprofile.ProtoUnmarshaler).UnmarshalProfiles(wire)
	}
	if err != nil {
		a.invalid = true
		return
	}
	a.referenced = make(map[int32]string)
	resolved, _ := refs.scratch.ResourceProfiles().At(0).Resource().Attributes().Get("")
	for i, index := range refs.indices {
		if value := resolved.Slice().At(refs.at[i]); value.Type() == pcommon.ValueTypeStr {
			a.referenced[index] = value.Str()
		}
	}
}

// stringRefs is a message whose only attribute is a list of values that are or have indices
// into the string table. It has no strings: marshalling would append them to the table, and an
// index behind its end would be of one of these.
type stringRefs struct {
	scratch pprofile.Profiles
	values  pcommon.Slice
	indices []int32 // of the attributes,
	at      []int   // and their positions in values
}

// add adds the value of an attribute.
func (r *stringRefs) add(index int32, value pcommon.Value) {
	if len(r.indices) == 0 {
		r.scratch = pprofile.NewProfiles()
		r.values = r.scratch.ResourceProfiles().AppendEmpty().Resource().Attributes().PutEmptySlice("")
	}
	own := pcommon.NewValueEmpty()
	value.CopyTo(own)
	r.strip(own)
	r.indices, r.at = append(r.indices, index), append(r.at, r.values.Len())
	own.MoveTo(r.values.AppendEmpty())
}

// strip removes strings from a value, and moves to the list what a map has by a key that is
// one.
func (r *stringRefs) strip(value pcommon.Value) {
	switch value.Type() {
	case pcommon.ValueTypeStr:
		value.SetBool(false)
	case pcommon.ValueTypeSlice:
		for _, v := range value.Slice().All() {
			r.strip(v)
		}
	case pcommon.ValueTypeMap:
		value.Map().RemoveIf(func(key string, v pcommon.Value) bool {
			r.strip(v)
			if key == "" { // or it is an index
				return false
			}
			v.MoveTo(r.values.AppendEmpty())
			return true
		})
	}
}

// probe tells a value that is empty from one that is an index into the string table, by its
// size.
type probe struct {
	scratch pprofile.Profiles
	value   pcommon.Value
	empty   int // the size without a value
}

func (p *probe) isReference(value pcommon.Value) bool {
	sizer := new(pprofile.ProtoMarshaler)
	if p.empty == 0 {
		p.scratch = pprofile.NewProfiles()
		p.value = p.scratch.ResourceProfiles().AppendEmpty().Resource().Attributes().PutEmpty("")
		p.empty = sizer.ProfilesSize(p.scratch)
	}
	value.CopyTo(p.value)
	return sizer.ProfilesSize(p.scratch) != p.empty
}
