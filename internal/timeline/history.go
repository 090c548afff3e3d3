// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Limits bound the number of unloaded images that a History remembers.
type Limits struct {
	TTL        time.Duration // how long an image is remembered after it was unloaded
	MaxEntries int           // maximum number of images, at any time; the oldest are evicted first
}

// A History records the images of one source: the loaded ones, the ones that were unloaded lately, and
// the intervals in which images may have been loaded or unloaded unseen. It makes tables of that. A change
// takes time that grows with the logarithm of the number of images. A History is not safe for concurrent
// use; its tables are.
type History struct {
	limits   Limits
	tree     tree
	unloaded []*Image     // in the order in which they are evicted
	texts    []*Image     // the images with a Text, loaded or not
	byText   *texts       // an index of texts; nil if they have changed since it was made
	ids      *functionIDs // of the last table
	blind    blindTime
	certain  int64
	partial  bool
	traced   map[TrampolineKey]TracedFunction
}

// NewHistory returns a history without images, in which all time is blind.
func NewHistory(l Limits) *History {
	h := &History{limits: l, certain: math.MinInt64, blind: blindTime{before: math.MinInt64}}
	h.tree.share()
	return h
}

// At returns the image that is loaded at an address, nil if there is none.
func (h *History) At(addr uint64) *Image {
	if s := h.tree.root.at(addr); s != nil {
		return s.loaded
	}
	return nil
}

// IsFree reports whether no image is loaded at addresses in [start, end).
func (h *History) IsFree(start, end uint64) bool { return len(h.tree.root.loadedIn(start, end)) == 0 }

// Loaded returns the images that are loaded, in the order of their addresses.
func (h *History) Loaded() []*Image { return h.tree.root.loadedIn(0, math.MaxUint64) }

// Certain returns the instant up to which the history is complete.
func (h *History) Certain() int64 { return h.certain }

// SetCertain sets the instant up to which the history is complete: images that have not been unloaded were
// certainly loaded until then, and not certainly later.
func (h *History) SetCertain(until int64) { h.certain = until }

// SetPartial says whether images may be loaded that are not known because they were loaded before the
// source began.
func (h *History) SetPartial(partial bool) { h.partial = partial }

// SetTraced sets the functions that trampolines belong to. The map must not change afterwards.
func (h *History) SetTraced(functions map[TrampolineKey]TracedFunction) { h.traced = functions }

// AddBlind records that images may have been loaded or unloaded unseen during an interval. The interval
// before the source began starts at the beginning of time.
func (h *History) AddBlind(i Interval) { h.blind = h.blind.with(i) }

// Load records an image. Two images cannot have an address at once, so loaded images at its addresses were
// unloaded. No record said when, so they were certainly loaded only while the history was complete. An
// image whose end is not known ends where the next one begins, whichever was loaded first. An image
// without addresses is not recorded.
func (h *History) Load(m *Image) {
	if !m.EndKnown {
		for _, other := range h.tree.root.loadedIn(m.Start, m.End) {
			if other.Start > m.Start {
				m = m.endingAt(other.Start)
				break
			}
		}
	}
	if m.End <= m.Start || m.End-m.Start > math.MaxUint32 {
		return
	}
	if h.tree.root.isEmpty(m.Start, m.End) {
		h.tree.put(segment{start: m.Start, end: m.End, loaded: m})
	} else {
		m = h.makeRoom(m)
		h.tree.change(m.Start, m.End, func(s *segment) { s.loaded = m })
	}
	if m.Text != nil {
		h.texts, h.byText = append(h.texts, m), nil
	}
	h.evictExcess()
}

// makeRoom ends the images that are loaded at the addresses of an image, and returns the image with the
// lifetime that it can have.
func (h *History) makeRoom(m *Image) *Image {
	for _, other := range h.tree.root.loadedIn(m.Start, m.End) {
		if !other.EndKnown && other.Start < m.Start {
			h.Replace(other, other.endingAt(m.Start)) // it never was longer
		} else {
			h.unload(other, min(h.certain, m.Lifetime.From))
		}
	}
	if since := h.freeSince(m.Start, m.End); since > m.Lifetime.From {
		return m.WithLifetime(Since(since)) // until then another image was loaded, whatever its record says
	}
	return m
}

// freeSince returns the instant at which the last image at addresses in [start, end) was unloaded,
// math.MinInt64 if no such image is known.
func (h *History) freeSince(start, end uint64) int64 {
	since := int64(math.MinInt64)
	h.tree.root.each(start, end, func(s *segment) bool {
		if n := len(s.past); n > 0 {
			since = max(since, s.past[n-1].Lifetime.To)
		}
		return true
	})
	return since
}

// Replace puts an image in the place of a loaded one about which more has become known. It begins at the
// same address.
func (h *History) Replace(m, by *Image) {
	switch {
	case by.End == m.End:
		if h.put(m, by, nil) {
			h.putText(m, by)
		}
	case h.put(m, nil, nil):
		h.putText(m, nil)
		h.Load(by)
	}
}

// put puts an image, nil for none, in the place of a loaded one. If past is not nil, it becomes an image
// that was unloaded. put reports whether m was loaded.
func (h *History) put(m, by, past *Image) (found bool) {
	h.tree.change(m.Start, m.End, func(s *segment) {
		if s.loaded != m {
			return
		}
		found = true
		if s.loaded = by; past != nil {
			s.past = append(s.past, past)
		}
	})
	return found
}

// putText replaces an image in texts by another, or by nothing if that is nil.
func (h *History) putText(m, by *Image) {
	i := slices.Index(h.texts, m)
	switch {
	case i < 0:
		return
	case by == nil:
		h.texts = slices.Delete(h.texts, i, i+1)
	default:
		h.texts[i] = by
	}
	h.byText = nil
}

// Unload records that a loaded image was unloaded at an instant. It stays in the history until Evict
// drops it or newer images take its place. It was loaded at the instant at which its lifetime begins,
// even if at is earlier.
func (h *History) Unload(m *Image, at int64) {
	h.unload(m, at)
	h.evictExcess()
}

// unload is Unload, except that the history may exceed its limit afterwards.
func (h *History) unload(m *Image, at int64) {
	past := m.WithLifetime(Interval{From: m.Lifetime.From, To: max(at, m.Lifetime.From+1)})
	if !h.put(m, nil, past) {
		return
	}
	h.putText(m, past)
	i, _ := slices.BinarySearchFunc(h.unloaded, past.Lifetime.To, func(m *Image, at int64) int {
		if m.Lifetime.To <= at {
			return -1
		}
		return 1
	})
	h.unloaded = slices.Insert(h.unloaded, i, past)
}

// TruncateLifetimes ends lifetimes at the start of an interval if they ended in it or later. It is for an
// interval that turns out only now to be blind: the records that ended these lifetimes may have been about
// other images.
func (h *History) TruncateLifetimes(i Interval) {
	later := h.unloaded[firstAfter(h.unloaded, i.From):]
	changed := false
	for k, m := range later {
		to := max(i.From, m.Lifetime.From+1)
		if m.Lifetime.From >= i.To || m.Lifetime.To <= to {
			continue
		}
		by := m.WithLifetime(Interval{From: m.Lifetime.From, To: to})
		h.tree.change(m.Start, m.End, func(s *segment) { s.replacePast(m, by) })
		h.putText(m, by)
		later[k], changed = by, true
	}
	if changed {
		slices.SortStableFunc(later, func(a, b *Image) int { return cmp.Compare(a.Lifetime.To, b.Lifetime.To) })
	}
}

// evictExcess drops the images that were unloaded first, as long as the history exceeds its limit.
func (h *History) evictExcess() { h.evict(max(0, len(h.unloaded)-h.limits.MaxEntries)) }

// Evict drops the images that were unloaded longer ago than the limit allows, and reports whether there
// were any. The time before the end of an evicted lifetime becomes blind.
func (h *History) Evict(now int64) bool {
	oldest := now - int64(h.limits.TTL)
	n := 0
	for n < len(h.unloaded) && h.unloaded[n].Lifetime.To < oldest {
		n++
	}
	h.evict(n)
	return n > 0
}

// evict drops the first n images that were unloaded.
func (h *History) evict(n int) {
	for _, m := range h.unloaded[:n] {
		h.tree.change(m.Start, m.End, func(s *segment) { s.drop(m) })
		h.blind = h.blind.startingAt(m.Lifetime.To)
		h.joinSegments(m)
		h.putText(m, nil)
	}
	clear(h.unloaded[:n])
	h.unloaded = h.unloaded[n:]
}

// joinSegments joins the segments that only an evicted image has kept apart.
func (h *History) joinSegments(m *Image) {
	bounds := []uint64{m.Start, m.End}
	h.tree.root.each(m.Start, m.End, func(s *segment) bool {
		bounds = append(bounds, s.start)
		return true
	})
	slices.Sort(bounds)
	for _, addr := range slices.Compact(bounds) {
		h.tree.join(addr)
	}
}

// Table returns a table of the present records.
func (h *History) Table() *Table {
	if h.byText == nil {
		index := indexTexts(h.texts)
		h.byText = &index
	}
	root := h.tree.share()
	if h.ids == nil || h.ids.root != root {
		h.ids = &functionIDs{root: root}
	}
	return &Table{
		root: root, certain: h.certain, partial: h.partial, blind: h.blind, texts: *h.byText, ids: h.ids,
		unloaded: len(h.unloaded), traced: h.traced,
	}
}
