// SPDX-License-Identifier: Apache-2.0

package rewrite

import "go.opentelemetry.io/collector/pdata/pcommon"

// attrValue is the value of an attribute that can be appended. The zero value stands for all
// others.
type attrValue struct {
	is     pcommon.ValueType // a string, bool or integer
	text   string
	number int64 // 1 for true
}

func textValue(s string) attrValue { return attrValue{is: pcommon.ValueTypeStr, text: s} }

func numberValue(i int64) attrValue { return attrValue{is: pcommon.ValueTypeInt, number: i} }

func boolValue(b bool) attrValue {
	v := attrValue{is: pcommon.ValueTypeBool}
	if b {
		v.number = 1
	}
	return v
}

func (v attrValue) hash(kind attribute) uint64 {
	return mix(mix(uint64(kind)<<8|uint64(v.is), uint64(v.number)), hashString(v.text))
}

// writeTo sets a value that is empty.
func (v attrValue) writeTo(to pcommon.Value) {
	switch v.is {
	case pcommon.ValueTypeStr:
		to.SetStr(v.text)
	case pcommon.ValueTypeBool:
		to.SetBool(v.number != 0)
	default:
		to.SetInt(v.number)
	}
}
