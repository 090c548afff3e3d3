// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/index"
)

// Strings is the string table.
type Strings struct {
	table     pcommon.StringSlice
	byContent index.Index
	isIndexed bool
	came      int32 // the number of strings that came with the message
}

func (s *Strings) open() {
	s.isIndexed = false
	s.came = int32(s.table.Len())
}

// At returns a string, an empty one if there is none with that index.
func (s *Strings) At(i int32) string {
	if uint(i) >= uint(s.table.Len()) {
		return ""
	}
	return s.table.At(int(i))
}

// isAmbiguous reports whether an index may mean none or an entry 0 that is not empty (see contract 1.6).
func (s *Strings) isAmbiguous(i int32) bool { return i == 0 && s.At(0) != "" }

// cameWithMessage reports whether a string came with the message.
func (s *Strings) cameWithMessage(i int32) bool { return i < s.came || i == 0 }

// Intern returns the index of a string.
func (s *Strings) Intern(v string) int32 {
	if v == "" && s.At(0) == "" {
		return 0
	}
	if !s.isIndexed {
		s.buildIndex()
	}
	hash := index.String(v)
	if at, ok := s.byContent.Find(hash, func(i int32) bool { return s.table.At(int(i)) == v }); ok {
		return at
	}
	if s.table.Len() == 0 {
		s.table.Append("") // index 0 means none
	}
	at := int32(s.table.Len())
	s.table.Append(v)
	s.byContent.AddNew(hash, at)
	return at
}

func (s *Strings) buildIndex() {
	s.isIndexed = true
	n := s.table.Len()
	s.byContent.Reset(n + n/4)
	for i := range n {
		v := s.table.At(i)
		if s.isAmbiguous(int32(i)) {
			continue
		}
		s.byContent.Add(index.String(v), int32(i), func(other int32) bool { return s.table.At(int(other)) == v })
	}
}
