// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/index"
)

// Strings is the string table.
type Strings struct {
	table    pcommon.StringSlice
	interner interner[string]
}

func (s *Strings) open() { s.interner.open(s.table.Len()) }

// At returns a string, an empty one if there is none with that index.
func (s *Strings) At(i int32) string {
	if uint(i) >= uint(s.table.Len()) {
		return ""
	}
	return s.table.At(int(i))
}

// isAmbiguous reports whether an index may mean none or an entry 0 that is not empty (see contract 1.6).
func (s *Strings) isAmbiguous(i int32) bool { return i == 0 && s.At(0) != "" }

// isOriginal reports whether a string came with the message.
func (s *Strings) isOriginal(i int32) bool { return i < s.interner.original || i == 0 }

// Intern returns the index of a string.
func (s *Strings) Intern(v string) int32 {
	if v == "" && s.At(0) == "" {
		return 0
	}
	at, _ := s.interner.intern(s, v, true)
	return at
}

func (s *Strings) content(i int32) (v string, isFindable bool) { return s.At(i), !s.isAmbiguous(i) }
func (s *Strings) has(i int32, v string) bool                  { return s.At(i) == v }
func (s *Strings) hash(v string) uint64                        { return index.String(v) }

func (s *Strings) append(v string) int32 {
	if s.table.Len() == 0 {
		s.table.Append("") // index 0 means none
	}
	s.table.Append(v)
	return int32(s.table.Len() - 1)
}
