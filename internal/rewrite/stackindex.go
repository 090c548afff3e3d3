// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// stackIndex appends to the stack table what is not there yet.
type stackIndex struct {
	p        *pass
	appended index
	all      index   // those that came with the message and may be equal, when that was needed
	stack    []int32 // see scratch
	other    []int32 // see is
}

func (x *stackIndex) begin(p *pass) {
	x.p = p
	x.appended.resetAgain()
}

func (x *stackIndex) end() { x.p, x.all.built = nil, false }

// scratch returns a copy of a stack's locations, valid until the next call.
func (x *stackIndex) scratch(stack int32) []int32 {
	x.stack = appendIndices(x.stack[:0], x.p.m.stacks.At(int(stack)).LocationIndices())
	return x.stack
}

func appendIndices(dst []int32, indices pcommon.Int32Slice) []int32 {
	for i := range indices.Len() {
		dst = append(dst, indices.At(i))
	}
	return dst
}

// intern returns the index of the stack with these locations, and whether it was
// appended. fresh says that one of them was, so that no stack that came has it.
func (x *stackIndex) intern(locations []int32, fresh bool) (at int32, appended bool) {
	hash := hashIndices(uint64(len(locations)), locations)
	is := func(pos int32) bool { return x.is(pos, locations) }
	if at, ok := x.appended.find(hash, is); ok {
		return at, false
	}
	if !fresh {
		x.indexAll()
		if at, ok := x.all.find(hash, is); ok {
			return at, false
		}
	}
	at = int32(x.p.m.stacks.Len())
	x.p.m.stacks.AppendEmpty().LocationIndices().FromRaw(locations)
	x.appended.addNew(hash, at)
	return at, true
}

func (x *stackIndex) is(pos int32, locations []int32) bool {
	x.other = appendIndices(x.other[:0], x.p.m.stacks.At(int(pos)).LocationIndices())
	return slices.Equal(x.other, locations)
}

// indexAll indexes the stacks that came with the message and have a location that copies of
// others were equal to: another stack can become equal to these only.
func (x *stackIndex) indexAll() {
	if x.all.built {
		return
	}
	x.all.resetAgain()
	var stack []int32
	for i := 1; i < x.p.m.stacks.Len(); i++ { // 0 means none
		indices := x.p.m.stacks.At(i).LocationIndices()
		if x.p.hasShared(indices) {
			stack = appendIndices(stack[:0], indices)
			x.all.add(hashIndices(uint64(len(stack)), stack), int32(i), func(pos int32) bool { return x.is(pos, stack) })
		}
	}
}

// hasShared reports whether a stack has a location that copies of others were equal to.
func (p *pass) hasShared(indices pcommon.Int32Slice) bool {
	for i := range indices.Len() {
		if loc := int(indices.At(i)); loc < len(p.marks) && p.marks[loc]&markShared != 0 {
			return true
		}
	}
	return false
}
