// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"sync"
)

// functionIDs are the file IDs of the images in a tree that have no Text (see contract 4.3). They are computed
// when one is asked for, which is rare.
type functionIDs struct {
	root *node
	once sync.Once
	ids  map[string]struct{}
}

func (f *functionIDs) has(id string) bool {
	f.once.Do(f.compute)
	_, ok := f.ids[id]
	return ok
}

func (f *functionIDs) compute() {
	f.ids = make(map[string]struct{})
	add := func(m *Image) {
		if m != nil && m.Text == nil && m.Name() != "" {
			for _, id := range m.functionFileIDs() {
				f.ids[id] = struct{}{}
			}
		}
	}
	f.root.each(0, math.MaxUint64, func(s *segment) bool {
		for _, m := range s.past {
			add(m)
		}
		add(s.loaded)
		return true
	})
}
