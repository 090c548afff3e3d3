// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Limits say how much is remembered of what was unloaded.
type Limits struct {
	TTL        time.Duration // how long, from the end of its lifetime
	MaxEntries int           // maximum number of images, which holds at any time; the oldest are evicted first
}

// A History records the images of one source: those that are there, those that were
// until lately, and when some may have come or gone unseen. It makes tables of that.
// What a change costs grows with the logarithm of their number. It is not safe for
// concurrent use; its tables are.
type History struct {
	limits  Limits
	tree    tree
	gone    []*Image     // those that were unloaded, first the one that is evicted first
	texts   []*Image     // those with a Text, live or gone
	byText  *texts       // finds them; nil if they have changed since
	ids     *functionIDs // of the last table
	blind   blindTime
	certain int64
	partial bool
	counts  counts
}

// counts are sums over the images of a history.
type counts struct {
	live    [NumOrigins]int   // symbols
	memory  [NumOrigins]int64 // bytes, of those that were unloaded, too
	history int               // images that were unloaded
}

// NewHistory returns a record of nothing, in which everything is blind.
func NewHistory(l Limits) *History {
	h := &History{limits: l, certain: math.MinInt64, blind: blindTime{before: math.MinInt64}}
	h.tree.share()
	return h
}

// At returns the image that is there now at an address, nil if none is.
func (h *History) At(addr uint64) *Image {
	if s := h.tree.root.at(addr); s != nil {
		return s.live
	}
	return nil
}

// IsFree reports whether no image is there now at addresses in [start, end).
func (h *History) IsFree(start, end uint64) bool { return len(h.tree.root.live(start, end)) == 0 }

// Live returns the images that are there now, in the order of their addresses.
func (h *History) Live() []*Image { return h.tree.root.live(0, math.MaxUint64) }

// live returns the images that are there now at addresses in [start, end), in the order
// of their addresses.
func (n *node) live(start, end uint64) (images []*Image) {
	n.each(start, end, func(s *segment) bool {
		if s.live != nil && (len(images) == 0 || images[len(images)-1] != s.live) {
			images = append(images, s.live)
		}
		return true
	})
	return images
}

// Certain returns the instant up to which nothing is missing from the history.
func (h *History) Certain() int64 { return h.certain }

// SetCertain sets the instant up to which nothing is missing: images that were not
// unloaded certainly were there until then, and not certainly later.
func (h *History) SetCertain(until int64) { h.certain = until }

// SetPartial says whether images may be there that came before the source began, and are not
// known.
func (h *History) SetPartial(partial bool) { h.partial = partial }

// Blind records that images may have come or gone unseen during an interval. One that
// begins with time is that before the source began.
func (h *History) Blind(i Interval) {
	h.blind = h.blind.with(i)
}

// CutShort ends lifetimes where an interval begins, if they ended in it or later: it has become
// known only now that images may have come or gone unseen in it, so what ended a lifetime may
// have been about another image.
func (h *History) CutShort(i Interval) {
	later := h.gone[firstAfter(h.gone, i.From):]
	changed := false
	for k, m := range later {
		to := max(i.From, m.Lifetime.From+1)
		if m.Lifetime.From >= i.To || m.Lifetime.To <= to {
			continue
		}
		by := m.Lived(Interval{From: m.Lifetime.From, To: to})
		h.tree.change(m.Start, m.End, func(s *segment) {
			if at := slices.Index(s.past, m); at >= 0 {
				s.past = slices.Clone(s.past)
				s.past[at] = by
			}
		})
		h.counts.memory[m.Origin] += by.memory() - m.memory()
		h.putText(m, by)
		later[k], changed = by, true
	}
	if changed {
		slices.SortStableFunc(later, func(a, b *Image) int { return cmp.Compare(a.Lifetime.To, b.Lifetime.To) })
	}
}

// Load records an image, which may be cut short; see At. Two
// images cannot be at one address at once, so those in its place were unloaded: as nobody
// saw that, they were certainly there only for as long as nothing was missing. Trampolines
// are announced longer than they are, and so are some modules: these end where another
// image begins, whichever came first. An image without addresses is not recorded.
func (h *History) Load(m *Image) {
	if m.endsAtNext() {
		for _, other := range h.tree.root.live(m.Start, m.End) {
			if other.Start > m.Start {
				m = m.upTo(other.Start)
				break
			}
		}
	}
	if m.End <= m.Start || m.End-m.Start > math.MaxUint32 || m.Text == nil && m.End-m.Start >= plainFunction {
		return
	}
	if h.tree.root.isEmpty(m.Start, m.End) {
		s := segment{start: m.Start, end: m.End}
		s.setLive(m)
		h.tree.put(s)
	} else {
		m = h.clear(m)
		h.tree.change(m.Start, m.End, func(s *segment) { s.setLive(m) })
	}
	h.counts.live[m.Origin] += m.Len()
	h.counts.memory[m.Origin] += m.memory()
	if m.Text != nil {
		h.texts, h.byText = append(h.texts, m), nil
	}
	h.evictExcess()
}

// clear ends what is in the place of an image, and returns the image as it can have been.
func (h *History) clear(m *Image) *Image {
	for _, other := range h.tree.root.live(m.Start, m.End) {
		if other.endsAtNext() && other.Start < m.Start {
			h.Replace(other, other.upTo(m.Start)) // it never was longer
		} else {
			h.unload(other, min(h.certain, m.Lifetime.From))
		}
	}
	if since := h.freeSince(m.Start, m.End); since > m.Lifetime.From {
		return m.Lived(Since(since)) // whatever its record says, another was there until then
	}
	return m
}

// putText replaces an image with a Text by another, nil for none.
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

// endsAtNext reports whether the image can have been announced longer than it is.
func (m *Image) endsAtNext() bool { return m.IsLong() || m.Text != nil }

// freeSince returns when the last image was unloaded that was at addresses in
// [start, end), math.MinInt64 if none is known.
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

// Replace puts another image in the place of one that is there, of which more is known. It
// begins at the same address.
func (h *History) Replace(m, by *Image) {
	if by.End != m.End {
		if h.put(m, nil, nil) {
			h.counts.memory[m.Origin] -= m.memory()
			h.putText(m, nil)
			h.Load(by)
		}
	} else if h.put(m, by, nil) { // nothing else is affected
		h.counts.live[by.Origin] += by.Len()
		h.counts.memory[m.Origin] += by.memory() - m.memory()
		h.putText(m, by)
	}
}

// put puts another image, nil for none, in the place of one that is there, and adds past to
// those that were, if it is not nil. It reports whether the image was there.
func (h *History) put(m, by, past *Image) (found bool) {
	h.tree.change(m.Start, m.End, func(s *segment) {
		if s.live != m {
			return
		}
		found = true
		if s.setLive(by); past != nil {
			s.past = append(s.past, past)
		}
	})
	if found {
		h.counts.live[m.Origin] -= m.Len()
	}
	return found
}

// Unload records that a loaded image was unloaded at an instant. It stays in the history until
// Evict drops it or newer images take its place. It was loaded at the instant at which its
// lifetime begins, even if at is earlier.
func (h *History) Unload(m *Image, at int64) {
	h.unload(m, at)
	h.evictExcess()
}

// unload is Unload, except that the history may exceed its limit afterwards.
func (h *History) unload(m *Image, at int64) {
	past := m.Lived(Interval{From: m.Lifetime.From, To: max(at, m.Lifetime.From+1)})
	if !h.put(m, nil, past) {
		return
	}
	if past.name != m.name || past.Program != m.Program {
		h.counts.memory[m.Origin] += past.memory() - m.memory()
	}
	h.putText(m, past)
	i, _ := slices.BinarySearchFunc(h.gone, past.Lifetime.To, func(m *Image, at int64) int {
		if m.Lifetime.To <= at {
			return -1
		}
		return 1
	})
	h.gone = slices.Insert(h.gone, i, past)
}

// evictExcess drops the images that were unloaded first, as long as the history exceeds its
// limit.
func (h *History) evictExcess() { h.evict(max(0, len(h.gone)-h.limits.MaxEntries)) }

// Evict drops the images that were unloaded longer ago than the limit allows, and reports
// whether there were any. The time before the end of an evicted lifetime becomes blind.
func (h *History) Evict(now int64) bool {
	oldest := now - int64(h.limits.TTL)
	n := 0
	for n < len(h.gone) && h.gone[n].Lifetime.To < oldest {
		n++
	}
	h.evict(n)
	return n > 0
}

// evict forgets the first n images that were unloaded.
func (h *History) evict(n int) {
	for _, m := range h.gone[:n] {
		h.tree.change(m.Start, m.End, func(s *segment) {
			if len(s.past) > 0 && s.past[0] == m {
				s.dropFirst()
			} else if i := slices.Index(s.past, m); i >= 0 {
				s.past = slices.Delete(slices.Clone(s.past), i, i+1)
			}
		})
		h.counts.memory[m.Origin] -= m.memory()
		h.blind = h.blind.startingAt(m.Lifetime.To)
		h.joinAll(m)
		h.putText(m, nil)
	}
	clear(h.gone[:n])
	h.gone = h.gone[n:]
}

// joinAll joins segments that an image that is evicted has kept apart.
func (h *History) joinAll(m *Image) {
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
