// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// images are those of a record, and what has changed in them.
type images struct {
	history *timeline.History
	since   int64 // the last instant since when something is known of one; see doubt
	changes
}

// changes are what happened since the last table.
type changes struct {
	symcache.Changes
	changed bool
	ask     []uint32     // programs that records have named
	now     func() int64 // reads the clock of records
	read    int64        // what that showed when the rings were emptied last,
	wall    time.Time    // and what the wall clock did
}

// load records an image. A record announced it at an instant, which is 0 if none did.
func (s *images) load(m *timeline.Image, announced int64) {
	s.history.Load(m)
	s.note(symcache.KindLoad, announced)
}

// end records that an image was unloaded, at the latest at an instant. A record announced
// that at another, which is 0 if none did.
func (s *images) end(m *timeline.Image, at, announced int64) {
	s.history.Unload(m, at)
	s.note(symcache.KindUnload, announced)
}

// replace puts another image in the place of one that is there, of which more is known.
func (s *images) replace(m, by *timeline.Image) {
	s.history.Replace(m, by)
	s.changed = true
}

// name gives a function the name that its record has, written at an instant.
func (s *images) name(m *timeline.Image, name string, at int64) {
	s.since = max(s.since, at)
	s.replace(m, m.WithName(name, at))
	s.note(symcache.KindSymbols, 0)
}

// describeAs applies what the kernel says of a function to its image, of whose program that is
// known since an instant. Up to Linux 6.0, records can have another name: that of the main function
// for all functions of a program, or the first function's own for the main one.
func (s *images) describeAs(there *timeline.Image, f function, since int64) {
	m := s.of(there, f.Program, f.Lines, since)
	if !hasNameOf(there, f) {
		m = m.WithName(f.Name(), since)
	}
	s.replace(there, m)
	s.note(symcache.KindSymbols, 0)
}

// of returns a function as part of a program, as it is known to be since an instant.
func (s *images) of(m *timeline.Image, p *timeline.Program, lines *symtab.Lines, since int64) *timeline.Image {
	if s.since = max(s.since, since); p.Since != since {
		known := *p
		known.Since = since
		p = &known
	}
	return m.WithProgram(p, lines)
}

// hasNameOf reports whether an image has the name of a function, or none. A kernel before 6.1 may
// have cut it off, at 128 bytes.
func hasNameOf(m *timeline.Image, f function) bool {
	const shortest = 127
	name := m.Name()
	return name == "" || name == f.Name() || len(name) >= shortest && strings.HasPrefix(f.Name(), name)
}

// isNamedLike reports whether an image has one of the names that a record can give to a function, or
// none.
func isNamedLike(m *timeline.Image, f function) bool { return hasNameOf(m, f) || m.Name() == f.first }

// note counts a change that a record announced at an instant, which is 0 if none did.
func (s *images) note(kind symcache.Kind, announced int64) {
	var since time.Time
	if announced != 0 {
		since = s.wall.Add(time.Duration(announced - s.read))
	}
	s.Note(kind, 1, since)
	s.changed = true
}
