// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/index"
)

// Stacks is the stack table. [Message.Check] copies all stacks to one slice: they are read several times, and to read
// them through pdata takes as long as to copy them.
type Stacks struct {
	table     pprofile.StackSlice
	locations []int32 // of all stacks, one stack after the other
	ends      []int   // where each stack ends in locations
	interner  interner[[]int32]
}

func (s *Stacks) open() {
	s.interner.open(s.table.Len())
	s.locations, s.ends = s.locations[:0], s.ends[:0]
}

// Len returns the number of stacks.
func (s *Stacks) Len() int { return s.table.Len() }

// Entries returns the number of locations in all stacks.
func (s *Stacks) Entries() int { return len(s.locations) }

// At returns the locations of a stack, leaf first. They must not be changed. At panics if there is no stack with that
// index, or if the message was not checked.
func (s *Stacks) At(i int32) []int32 {
	start := 0
	if i > 0 {
		start = s.ends[i-1]
	}
	return s.locations[start:s.ends[i]]
}

// read copies the stacks, and reports whether all of their locations are in a table of some length. Here,
// index 0 means entry 0.
func (s *Stacks) read(locations int) bool {
	highest := uint32(0)
	for i := range s.table.Len() {
		indices := s.table.At(i).LocationIndices()
		start := len(s.locations)
		s.locations = slices.Grow(s.locations, indices.Len())[:start+indices.Len()]
		stack := s.locations[start:]
		for k := range stack {
			stack[k] = indices.At(k)
			highest = max(highest, uint32(stack[k]))
		}
		s.ends = append(s.ends, len(s.locations))
	}
	return len(s.locations) == 0 || uint64(highest) < uint64(locations)
}

// Intern returns the index of a stack. isNew says that one of its locations was appended, so that no stack
// that came with the message has it.
func (s *Stacks) Intern(locations []int32, isNew bool) (at int32, appended bool) {
	return s.interner.intern(s, locations, !isNew)
}

func (s *Stacks) content(i int32) (locations []int32, isFindable bool) { return s.At(i), i != 0 }
func (s *Stacks) has(i int32, locations []int32) bool                  { return slices.Equal(s.At(i), locations) }
func (s *Stacks) hash(locations []int32) uint64                        { return index.Ints(uint64(len(locations)), locations) }

func (s *Stacks) append(locations []int32) int32 {
	s.table.AppendEmpty().LocationIndices().FromRaw(locations)
	s.locations = append(s.locations, locations...)
	s.ends = append(s.ends, len(s.locations))
	return int32(s.table.Len() - 1)
}
