// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"sync"
	"time"
)

// A Table has the knowledge of one source: the loaded images, the ones that were unloaded lately, and the
// intervals in which images may have been loaded or unloaded unseen. It is immutable.
type Table struct {
	images    images
	certain   int64 // the table is complete up to this instant
	partial   bool  // except for images that were loaded before the source began
	blind     blindTime
	texts     texts
	ids       *idIndex // of all tables of the history
	idVersion int      // the version in ids that has the file IDs of images
	unloaded  int      // number of unloaded images
	traced    map[TrampolineKey]TracedFunction

	ownIDs    sync.Once
	ownCounts map[fileID]idCount // of the file IDs of images, where ids no longer has this version
}

// NewTable returns a table of images that are loaded at all times, such as the core kernel.
func NewTable(images ...*Image) *Table {
	h := NewBuilder(Limits{})
	for _, m := range images {
		h.Load(m)
	}
	h.SetCertain(Forever)
	return h.Table()
}

// Loaded returns the images that are loaded, in the order of their addresses.
func (t *Table) Loaded() []*Image { return t.images.loaded.in(0, math.MaxUint64) }

// Certain returns the instant up to which the table is complete, Forever if it always will be.
func (t *Table) Certain() int64 { return t.certain }

// IsPartial reports whether images may be loaded that are not known because they were loaded before the source began.
func (t *Table) IsPartial() bool { return t.partial }

// IsBlind reports whether images may have been loaded or unloaded unseen during an interval.
func (t *Table) IsBlind(i Interval) bool {
	blind, _ := t.blindAround(i)
	return blind
}

// blindAround reports whether an interval holds blind time. around is an interval that holds it and in
// which there is either no blind time or nothing else; it is empty if the interval has both.
func (t *Table) blindAround(i Interval) (blind bool, around Interval) {
	switch {
	case i.From >= t.certain:
		return true, Since(t.certain)
	case i.To > t.certain:
		return true, Interval{}
	}
	blind, around = t.blind.around(i)
	if !blind {
		around.To = min(around.To, t.certain)
	}
	return blind, around
}

// BlindTime returns the length of all blind intervals so far, without the time before the source began
// and without the time after it last looked.
func (t *Table) BlindTime() time.Duration { return t.blind.total }

// Unloaded returns the number of unloaded images that are remembered.
func (t *Table) Unloaded() int { return t.unloaded }

// texts finds the core kernel and modules, unloaded ones included.
type texts struct {
	byName  map[string][]*Image // in the order in which they were loaded
	byBuild map[string]*Image   // the one that was loaded last
	byFile  map[string]*Image   // the same, by both file IDs; see Image.LoadedFileID
}

func indexTexts(images []*Image) (t texts) {
	if len(images) == 0 {
		return t
	}
	t.byName = make(map[string][]*Image, len(images))
	t.byBuild = make(map[string]*Image, len(images))
	t.byFile = make(map[string]*Image, 2*len(images))
	for _, m := range images {
		t.byName[m.Name()] = append(t.byName[m.Name()], m)
		if m.BuildID() != "" {
			t.byBuild[m.BuildID()] = m
			t.byFile[m.Text.FileID] = m
			t.byFile[m.LoadedFileID()] = m
		}
	}
	return t
}
