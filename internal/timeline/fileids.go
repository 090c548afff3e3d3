// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"math"
	"sync"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// LoadedFileID returns the file ID of the image where it was loaded, for absolute
// addresses, which differ from boot to boot (contract 4.2, 4.3). It is empty for a module
// without build id.
func (m *Image) LoadedFileID() string {
	switch {
	case m.Text == nil:
		return buildid.LoadedFileID(m.Name(), m.Start)
	case m.BuildID == "":
		return ""
	}
	return buildid.LoadedFileID(m.BuildID, m.Base)
}

// functionIDs are the file IDs of the images in a tree that have no symbols of their own.
// They are made when one is asked for: hardly anybody sends them back.
type functionIDs struct {
	root *node
	once sync.Once
	ids  map[string]struct{}
}

func (f *functionIDs) has(id string) bool {
	f.once.Do(f.read)
	_, ok := f.ids[id]
	return ok
}

func (f *functionIDs) read() {
	f.ids = make(map[string]struct{})
	add := func(m *Image) {
		if m.Text == nil && m.Name() != "" {
			f.ids[buildid.SymbolFileID(m.Name())] = struct{}{}
			f.ids[m.LoadedFileID()] = struct{}{}
		}
	}
	f.root.each(0, math.MaxUint64, func(s *segment) bool {
		for _, m := range s.past {
			add(m)
		}
		if s.live != nil {
			add(s.live)
		}
		return true
	})
}
