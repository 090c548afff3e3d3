// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// A Snapshot is what all sources know at one moment. It is immutable. A nil Snapshot knows nothing.
type Snapshot struct {
	tables []*Table
	core   *Image   // the core kernel, which most lookups end in; nil if it is not known
	others []*Table // the tables that have more than the core kernel
}

// NewSnapshot returns a snapshot of tables. Tables that are nil, of sources that have not published yet,
// are left out.
func NewSnapshot(tables ...*Table) *Snapshot {
	s := &Snapshot{}
	for _, t := range tables {
		if t == nil {
			continue
		}
		s.tables = append(s.tables, t)
		if core := t.texts.byName[KernelName]; len(core) > 0 && core[0].Lifetime == Always {
			s.core = core[0]
		} else {
			s.others = append(s.others, t)
		}
	}
	return s
}

// NewPackSnapshot returns a snapshot of the images of packs: of any number of kernels, each at addresses
// that no machine has (see contract 10.2). Images are found by their ids; absolute addresses mean nothing.
func NewPackSnapshot(images ...*Image) *Snapshot {
	return &Snapshot{tables: []*Table{NewTable(images...)}}
}

// Tables returns the tables. The slice must not be changed.
func (s *Snapshot) Tables() []*Table {
	if s == nil {
		return nil
	}
	return s.tables
}

// Core returns the core kernel, nil if it is not known.
func (s *Snapshot) Core() *Image {
	if s == nil {
		return nil
	}
	return s.core
}

// IsLocated reports whether the core kernel is known only because it was located; see [Image.IsLocated].
func (s *Snapshot) IsLocated() bool {
	core := s.Core()
	return core != nil && core.IsLocated
}

// unknownLandmarks belong to a core kernel that is not known: trampolines may share their pages.
var unknownLandmarks = symtab.Landmarks{SharedTrampolines: true}

// Landmarks returns the landmarks of the core kernel; if it is not known, landmarks without entry code and
// thunks. They must not be changed.
func (s *Snapshot) Landmarks() *symtab.Landmarks {
	if core := s.Core(); core != nil && core.Text.Landmarks != nil {
		return core.Text.Landmarks
	}
	return &unknownLandmarks
}

// IsShared reports whether the addresses of an image may belong to other code, which the kernel announces nowhere: a
// trampoline is announced with a page, and shares that.
func (s *Snapshot) IsShared(image *Image) bool {
	return image.Yields() && s.Landmarks().SharedTrampolines
}

// IsComplete reports whether the source of an image certainly knows all images that were loaded during an interval: it
// has no blind time in it, and all images from before it began. For every interval in same the answer is the same; same
// is empty if parts of the interval have other answers.
func (s *Snapshot) IsComplete(source *Image, during Interval) (is bool, same Interval) {
	for _, t := range s.Tables() {
		if !t.images.has(source) {
			continue
		}
		switch {
		case t.IsPartial():
			return false, Always
		case during == Present:
			return true, during
		}
		blind, around := t.blindAround(during)
		return !blind, around
	}
	return false, Always
}

// IsModule reports whether a module with this name is loaded or in the history.
func (s *Snapshot) IsModule(name string) bool {
	return name != KernelName && slices.ContainsFunc(s.Tables(), func(t *Table) bool { return len(t.texts.byName[name]) > 0 })
}

// ByBuildID returns the core kernel or module with a GNU build id, in lower-case hex. If there were several
// loads, it returns the last.
func (s *Snapshot) ByBuildID(id string) (*Image, bool) {
	for _, t := range s.Tables() {
		if m, ok := t.texts.byBuild[id]; ok {
			return m, true
		}
	}
	return nil, false
}

// ByFileID returns the core kernel or module with a file ID, either that of its build or that of one load
// (see [Image.LoadedFileID]). If there were several loads of the build, it returns the last.
func (s *Snapshot) ByFileID(id string) (*Image, bool) {
	for _, t := range s.Tables() {
		if m, ok := t.texts.byFile[id]; ok {
			return m, true
		}
	}
	return nil, false
}

// HasFunctionID reports whether a file ID is that of code without a Text (see contract 4.3) that is loaded or
// in the history. For loads, see [Image.HasFileID].
func (s *Snapshot) HasFunctionID(id string, loads bool) bool {
	return slices.ContainsFunc(s.Tables(), func(t *Table) bool { return t.hasFunctionID(id, loads) })
}
