// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// readStringsByIndex finds the values that are given as an index into the string table
// (string_value_strindex, contract 1.5). pdata shows such a value as empty. It replaces the index by the string
// only in the attributes of a resource, when it unmarshals a message. So the values travel through the wire
// format as attributes of a resource.
func (a *Attributes) readStringsByIndex() {
	a.byIndex, a.hasBadString = nil, false
	var round roundTrip
	for i := range a.table.Len() {
		attr := a.table.At(i)
		switch attr.Value().Type() {
		case pcommon.ValueTypeEmpty:
			// Most messages have one that is really empty: entry 0.
			if a.message.Strings.At(attr.KeyStrindex()) != "" || a.probe.isStringByIndex(attr.Value()) {
				round.add(int32(i), attr.Value())
			}
		case pcommon.ValueTypeMap, pcommon.ValueTypeSlice: // can contain one
			round.add(int32(i), attr.Value())
		}
	}
	if len(round.entries) == 0 {
		return
	}
	a.message.Strings.table.CopyTo(round.scratch.Dictionary().StringTable())
	wire, err := new(pprofile.ProtoMarshaler).MarshalProfiles(round.scratch)
	if err == nil {
		round.scratch, err = new(pprofile.ProtoUnmarshaler).UnmarshalProfiles(wire)
	}
	if err != nil {
		a.hasBadString = true
		return
	}
	a.byIndex = make(map[int32]string)
	values, _ := round.scratch.ResourceProfiles().At(0).Resource().Attributes().Get("")
	for i, entry := range round.entries {
		if v := values.Slice().At(round.positions[i]); v.Type() == pcommon.ValueTypeStr {
			a.byIndex[entry] = v.Str()
		}
	}
}

// roundTrip is a message whose only attribute is a list of values that are, or contain, indices into the
// string table. It must not contain strings: marshalling appends these to the table, where an index behind
// the end of the table would find them.
type roundTrip struct {
	scratch   pprofile.Profiles
	values    pcommon.Slice
	entries   []int32 // of the attribute table
	positions []int   // of their values in the list
}

func (r *roundTrip) add(entry int32, v pcommon.Value) {
	if len(r.entries) == 0 {
		r.scratch = pprofile.NewProfiles()
		r.values = r.scratch.ResourceProfiles().AppendEmpty().Resource().Attributes().PutEmptySlice("")
	}
	own := pcommon.NewValueEmpty()
	v.CopyTo(own)
	r.entries, r.positions = append(r.entries, entry), append(r.positions, r.move(own))
}

// move moves a value to the list, without strings, and returns its position there. The elements of slices and maps move
// there by themselves: pdata limits the depth of a message, and the list lies deeper than the attribute table.
func (r *roundTrip) move(v pcommon.Value) (position int) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		v.SetBool(false)
	case pcommon.ValueTypeSlice:
		v.Slice().RemoveIf(func(element pcommon.Value) bool {
			r.move(element)
			return true
		})
	case pcommon.ValueTypeMap:
		v.Map().RemoveIf(func(key string, element pcommon.Value) bool {
			r.move(element)
			return key != "" // otherwise the key may be an index
		})
	}
	position = r.values.Len()
	v.MoveTo(r.values.AppendEmpty())
	return position
}

// probe tells an empty value from an index into the string table by the size of a message that contains it.
type probe struct {
	scratch pprofile.Profiles
	value   pcommon.Value
	empty   int // the size with an empty value, 0 before the first use
}

func (p *probe) isStringByIndex(v pcommon.Value) bool {
	sizer := new(pprofile.ProtoMarshaler)
	if p.empty == 0 {
		p.scratch = pprofile.NewProfiles()
		p.value = p.scratch.ResourceProfiles().AppendEmpty().Resource().Attributes().PutEmpty("")
		p.empty = sizer.ProfilesSize(p.scratch)
	}
	v.CopyTo(p.value)
	return sizer.ProfilesSize(p.scratch) != p.empty
}
