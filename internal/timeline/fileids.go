// SPDX-License-Identifier: Apache-2.0

package timeline

import "sync"

// functionIDs are the file IDs of the images of a table that have no Text (see contract 4.3). They are computed
// when one is asked for, which is rare.
type functionIDs struct {
	images images
	once   sync.Once
	ids    map[string]bool // whether each stands for the code of one load
}

func (f *functionIDs) has(id string, loads bool) bool {
	f.once.Do(f.compute)
	ofLoad, ok := f.ids[id]
	return ok && (loads || !ofLoad)
}

func (f *functionIDs) compute() {
	f.ids = make(map[string]bool)
	for m := range f.images.all() {
		if !m.IsFunction() || m.Name() == "" {
			continue
		}
		anywhere, here := m.functionFileIDs()
		for _, id := range anywhere {
			f.ids[id] = false
		}
		for _, id := range here {
			f.ids[id] = true
		}
	}
}
