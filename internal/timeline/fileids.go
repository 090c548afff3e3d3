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
	ids  map[string]bool // whether each stands for the code of one load
}

func (f *functionIDs) has(id string, loads bool) bool {
	f.once.Do(f.compute)
	ofLoad, ok := f.ids[id]
	return ok && (loads || !ofLoad)
}

func (f *functionIDs) compute() {
	f.ids = make(map[string]bool)
	add := func(m *Image) {
		if m != nil && m.Text == nil && m.Name() != "" {
			anywhere, here := m.functionFileIDs()
			for _, id := range anywhere {
				f.ids[id] = false
			}
			for _, id := range here {
				f.ids[id] = true
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
