// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"math"
	"time"
)

// A Table is what one source knows: the images that are there, those that were until
// lately, and when some may have come or gone unseen. It is immutable.
type Table struct {
	root    *node
	certain int64 // nothing is missing up to then
	partial bool  // but what came before the source began
	blind   blindTime
	texts   texts
	ids     *functionIDs
	counts  counts
}

// NewTable returns a table of images that have always been there, such as the core
// kernel.
func NewTable(images ...*Image) *Table {
	h := NewHistory(Limits{})
	for _, m := range images {
		h.Load(m)
	}
	h.SetCertain(Forever)
	return h.Table()
}

// Table returns what is recorded now.
func (h *History) Table() *Table {
	if h.byText == nil {
		index := textsOf(h.texts)
		h.byText = &index
	}
	root := h.tree.share()
	if h.ids == nil || h.ids.root != root {
		h.ids = &functionIDs{root: root}
	}
	t := &Table{
		root: root, certain: h.certain, partial: h.partial, blind: h.blind, texts: *h.byText, ids: h.ids, counts: h.counts,
	}
	t.counts.history = len(h.gone)
	return t
}

// Live returns the images that are there now, in the order of their addresses.
func (t *Table) Live() []*Image { return t.root.live(0, math.MaxUint64) }

// Certain returns the instant up to which nothing is missing from the table, Forever if
// nothing ever will be.
func (t *Table) Certain() int64 { return t.certain }

// IsBlind reports whether images may have come or gone unseen during an interval.
func (t *Table) IsBlind(i Interval) bool { return i.To > t.certain || t.blind.overlaps(i) }

// blindAround reports whether there is blind time in an interval, and returns an interval
// around it in which there is none at all or nothing else, an empty one if there is both.
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

// BlindTime returns the length of all blind intervals so far, without the time before
// the source began and that after its last look.
func (t *Table) BlindTime() time.Duration { return t.blind.total }

// Symbols returns the number of symbols that are there now, of each origin.
func (t *Table) Symbols() [NumOrigins]int { return t.counts.live }

// History returns the number of images that are remembered although they were unloaded.
func (t *Table) History() int { return t.counts.history }

// texts finds the core kernel and modules, those that were unloaded included.
type texts struct {
	byName  map[string][]*Image // in the order in which they were loaded
	byBuild map[string]*Image   // the one loaded last
	byFile  map[string]*Image   // the same, by both file IDs; see LoadedFileID
}

func textsOf(images []*Image) (t texts) {
	if len(images) == 0 {
		return t
	}
	t.byName = make(map[string][]*Image, len(images))
	t.byBuild = make(map[string]*Image, len(images))
	t.byFile = make(map[string]*Image, 2*len(images))
	for _, m := range images {
		t.byName[m.Name()] = append(t.byName[m.Name()], m)
		if m.BuildID != "" {
			t.byBuild[m.BuildID] = m
			t.byFile[m.FileID] = m
			t.byFile[m.LoadedFileID()] = m
		}
	}
	return t
}
