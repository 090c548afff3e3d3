// SPDX-License-Identifier: Apache-2.0

package pack

import "github.com/kernelsym/kernelsym/internal/buildid"

// A Set is the packs that are open. It is immutable; a nil Set has none.
type Set struct {
	byBuild, byFile map[string]*Pack
}

// NewSet returns the set of some packs. Of several of one build it has the last.
func NewSet(packs []*Pack) *Set {
	s := &Set{byBuild: make(map[string]*Pack, len(packs)), byFile: make(map[string]*Pack, len(packs))}
	for _, p := range packs {
		s.byBuild[p.info.BuildID] = p
		s.byFile[buildid.FileID(p.info.BuildID)] = p
	}
	return s
}

// ByBuildID returns the pack of a build, nil if there is none.
func (s *Set) ByBuildID(id string) *Pack {
	if s == nil {
		return nil
	}
	return s.byBuild[id]
}

// ByFileID returns the pack of the build with a file ID (see contract 4.2), nil if there is
// none.
func (s *Set) ByFileID(id string) *Pack {
	if s == nil {
		return nil
	}
	return s.byFile[id]
}
