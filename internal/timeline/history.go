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
	loaded   tree // by their starts
	past     past
	unloaded []*Image // the images of past, in the order in which they are evicted
	texts    []*Image // the images with a Text, loaded or not
	byText   *texts   // an index of texts; nil if they have changed since it was made
	ids      *idIndex
	blind    blindTime
	certain  int64
	partial  bool
	traced   map[TrampolineKey]TracedFunction
}

// NewHistory returns a history without images, in which all time is blind.
func NewHistory(l Limits) *History {
	return &History{limits: l, certain: math.MinInt64, blind: blindTime{before: math.MinInt64}, ids: new(idIndex)}
}

// At returns the image that is loaded at an address, nil if there is none.
func (h *History) At(addr uint64) *Image { return h.loaded.root.at(addr) }

// IsFree reports whether no image is loaded at addresses in [start, end).
func (h *History) IsFree(start, end uint64) bool {
	return h.loaded.root.eachIn(start, end, func(*Image) bool { return false })
}

// Loaded returns the images that are loaded, in the order of their addresses.
func (h *History) Loaded() []*Image { return h.loaded.root.in(0, math.MaxUint64) }

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
		h.loaded.root.eachIn(m.Start, m.End, func(other *Image) bool {
			if other.Start > m.Start {
				m = m.endingAt(other.Start)
				return false
			}
			return true
		})
	}
	if m.End <= m.Start || m.End-m.Start > math.MaxUint32 {
		return
	}
	h.makeRoom(m)
	if since := h.freeSince(m); since > m.Lifetime.From {
		m = m.WithLifetime(Since(since)) // until then another image was loaded, whatever its record says
	}
	h.loaded.put(m.Start, m)
	h.replaced(nil, m)
	h.evictExcess()
}

// makeRoom ends the images that are loaded at the addresses of an image.
func (h *History) makeRoom(m *Image) {
	for _, other := range h.loaded.root.in(m.Start, m.End) {
		if !other.EndKnown && other.Start < m.Start {
			h.Replace(other, other.endingAt(m.Start)) // it never was longer
		} else {
			h.unload(other, min(h.certain, m.Lifetime.From))
		}
	}
}

// freeSince returns the instant at which the last image at the addresses of another was unloaded, if that was after the
// other's lifetime began, else an instant before. It looks at the images that were unloaded since then, which are few:
// records arrive roughly in the order of time.
func (h *History) freeSince(m *Image) int64 {
	for i := len(h.unloaded) - 1; i >= 0 && h.unloaded[i].Lifetime.To > m.Lifetime.From; i-- {
		if other := h.unloaded[i]; other.Start < m.End && m.Start < other.End {
			return other.Lifetime.To
		}
	}
	return math.MinInt64
}

// Replace puts an image in the place of a loaded one about which more has become known. It begins at the
// same address, and its lifetime not earlier.
func (h *History) Replace(m, by *Image) {
	switch {
	case h.At(m.Start) != m:
	case by.Start < by.End && by.End <= m.End:
		h.loaded.put(m.Start, by)
		h.replaced(m, by)
	default:
		h.loaded.remove(m.Start, m)
		h.replaced(m, nil)
		h.Load(by)
	}
}

// replaced keeps the indices of texts and of file IDs after an image has been replaced by another. Either may be nil.
func (h *History) replaced(m, by *Image) {
	h.ids.replace(m, by)
	switch i := slices.Index(h.texts, m); {
	case m == nil && !by.IsFunction():
		h.texts = append(h.texts, by)
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
	if h.At(m.Start) != m {
		return
	}
	past := m.WithLifetime(Interval{From: m.Lifetime.From, To: max(at, m.Lifetime.From+1)})
	h.loaded.remove(m.Start, m)
	h.past.add(past)
	h.replaced(m, past)
	h.unloaded = slices.Insert(h.unloaded, firstAfter(h.unloaded, past.Lifetime.To), past)
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
		h.past.remove(m)
		h.past.add(by)
		h.replaced(m, by)
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
	if n == 0 {
		return
	}
	for _, m := range h.unloaded[:n] {
		h.past.remove(m)
		h.replaced(m, nil)
	}
	h.blind = h.blind.startingAt(h.unloaded[n-1].Lifetime.To)
	clear(h.unloaded[:n])
	h.unloaded = h.unloaded[n:]
}

// Table returns a table of the present records.
func (h *History) Table() *Table {
	if h.byText == nil {
		index := indexTexts(h.texts)
		h.byText = &index
	}
	return &Table{
		images:  images{loaded: h.loaded.share(), past: h.past.share()},
		certain: h.certain, partial: h.partial, blind: h.blind, texts: *h.byText, ids: h.ids, idVersion: h.ids.now(),
		unloaded: len(h.unloaded), traced: h.traced,
	}
}

// firstAfter returns the position of the first image that was unloaded after an instant.
func firstAfter(unloaded []*Image, at int64) int {
	i, _ := slices.BinarySearchFunc(unloaded, at, func(m *Image, at int64) int {
		if m.Lifetime.To <= at {
			return -1
		}
		return 1
	})
	return i
}
