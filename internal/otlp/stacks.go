// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/index"
)

// Stacks is the stack table.
type Stacks struct {
	table     pprofile.StackSlice
	appended  index.Index // of the entries that were appended
	came      index.Index // of the entries of the message
	isIndexed bool        // came is filled, which is seldom needed
	owned     int         // the number of those
	buffer    []int32
}

func (s *Stacks) open() {
	s.appended.Clear()
	s.isIndexed = false
	s.owned = s.table.Len()
}

// Len returns the number of stacks.
func (s *Stacks) Len() int { return s.table.Len() }

// At returns the locations of a stack, leaf first. It panics if there is no stack with that index.
func (s *Stacks) At(i int32) pcommon.Int32Slice { return s.table.At(int(i)).LocationIndices() }

// Intern returns the index of a stack. isNew says that one of its locations was appended, so that no stack
// that came with the message has it.
func (s *Stacks) Intern(locations []int32, isNew bool) (at int32, appended bool) {
	hash := index.Ints(uint64(len(locations)), locations)
	is := func(i int32) bool { return s.equals(i, locations) }
	if at, ok := s.appended.Find(hash, is); ok {
		return at, false
	}
	if !isNew {
		if !s.isIndexed {
			s.buildIndex()
		}
		if at, ok := s.came.Find(hash, is); ok {
			return at, false
		}
	}
	at = int32(s.table.Len())
	s.table.AppendEmpty().LocationIndices().FromRaw(locations)
	s.appended.AddNew(hash, at)
	return at, true
}

func (s *Stacks) equals(i int32, locations []int32) bool {
	s.buffer = AppendIndices(s.buffer[:0], s.At(i))
	return slices.Equal(s.buffer, locations)
}

func (s *Stacks) buildIndex() {
	s.isIndexed = true
	s.came.Reset(s.owned)
	var stack []int32
	for i := 1; i < s.owned; i++ { // 0 means none
		stack = AppendIndices(stack[:0], s.At(int32(i)))
		s.came.Add(index.Ints(uint64(len(stack)), stack), int32(i), func(other int32) bool { return s.equals(other, stack) })
	}
}

// AppendIndices appends indices to a slice.
func AppendIndices(dst []int32, indices pcommon.Int32Slice) []int32 {
	for i := range indices.Len() {
		dst = append(dst, indices.At(i))
	}
	return dst
}
