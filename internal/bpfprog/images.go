// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// images are those of a record, and what has changed in them.
type images struct {
	history *symtab.History
	unnamed map[uint64]*symtab.Image // functions that have a name only if kallsyms says so, by their start
	since   int64                    // the last Program.Since
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
func (s *images) load(m *symtab.Image, announced int64) {
	s.history.Load(m)
	s.note(symcache.KindLoad, announced)
}

// end records that an image was unloaded, at the latest at an instant. A record announced
// that at another, which is 0 if none did.
func (s *images) end(m *symtab.Image, at, announced int64) {
	s.history.Unload(m, at)
	if len(s.unnamed) > 0 {
		delete(s.unnamed, m.Start)
	}
	s.note(symcache.KindUnload, announced)
}

// replace puts another image in the place of one that is there, of which more is known.
func (s *images) replace(m, by *symtab.Image) {
	s.history.Replace(m, by)
	s.changed = true
}

// name gives a name to a function of a program that had none, as there was one at its address
// at an instant.
func (s *images) name(m *symtab.Image, name string, at int64) {
	delete(s.unnamed, m.Start)
	s.replace(m, m.Of(s.knownSince(m.Program, at), m.Lines).Named(name))
	s.note(symcache.KindSymbols, 0)
}

// describeAs applies what the kernel says of a function to its image, of which that is known
// since an instant, or 0. From Linux 5.7 to 6.0, records give all functions of a program the
// name of the main one.
func (s *images) describeAs(there *symtab.Image, f function, since int64) {
	m := there.Of(s.knownSince(f.Program, since), f.Lines)
	if !isNamedLike(there, f) {
		m = m.Named(f.Name())
	}
	s.replace(there, m)
	s.note(symcache.KindSymbols, 0)
}

// knownSince returns what is known of a function since an instant; see [symtab.Program].
func (s *images) knownSince(p *symtab.Program, at int64) *symtab.Program {
	if at <= p.Since {
		return p
	}
	known := *p
	known.Since, s.since = at, max(s.since, at)
	return &known
}

// isNamedLike reports whether an image has the name of a function, or none. A kernel before 6.1 may
// have cut it off, at 128 bytes.
func isNamedLike(m *symtab.Image, f function) bool {
	const shortest = 127
	name := m.Name()
	return name == "" || name == f.Name() || len(name) >= shortest && strings.HasPrefix(f.Name(), name)
}

// note counts a change that a record announced at an instant, which is 0 if none did.
func (s *images) note(kind symcache.Kind, announced int64) {
	var since time.Time
	if announced != 0 {
		since = s.wall.Add(time.Duration(announced - s.read))
	}
	s.Note(kind, 1, since)
	s.changed = true
}
