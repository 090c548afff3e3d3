// SPDX-License-Identifier: Apache-2.0

package pack

import "github.com/kernelsym/kernelsym/internal/buildid"

// A Set holds the open packs. It is immutable. A nil Set is empty.
type Set struct {
	byBuild, byFile map[string]*Pack
}

// NewSet returns a set of packs. If several have the same build, the set keeps the last one.
func NewSet(packs []*Pack) *Set {
	s := &Set{byBuild: make(map[string]*Pack, len(packs)), byFile: make(map[string]*Pack, len(packs))}
	for _, p := range packs {
		s.byBuild[p.info.BuildID] = p
		s.byFile[buildid.FileID(p.info.BuildID)] = p
	}
	return s
}

// ByBuildID returns the pack of a build, or nil if there is none.
func (s *Set) ByBuildID(id string) *Pack {
	if s == nil {
		return nil
	}
	return s.byBuild[id]
}

// ByFileID returns the pack of the build with a file ID (see contract 4.2), or nil if there is
// none.
func (s *Set) ByFileID(id string) *Pack {
	if s == nil {
		return nil
	}
	return s.byFile[id]
}
