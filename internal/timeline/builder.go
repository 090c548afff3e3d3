// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Limits bound the number of unloaded images that a Builder remembers.
type Limits struct {
	TTL        time.Duration // how long an image is remembered after it was unloaded
	MaxEntries int           // maximum number of images, at any time, and of KiB of their lines; the oldest are evicted first
}

// A Builder records the images of one source: the loaded ones, the ones that were unloaded lately, and
// the intervals in which images may have been loaded or unloaded unseen. It makes tables of that. A change
// takes time that grows with the logarithm of the number of images. A Builder is not safe for concurrent
// use; its tables are.
type Builder struct {
	limits   Limits
	loaded   tree // by their starts
	past     past
	unloaded []*Image // the images of past, in the order in which they are evicted
	lines    int64    // bytes of their lines
	texts    []*Image // the images with a Text, loaded or not
	byText   *texts   // an index of texts; nil if they have changed since it was made
	ids      *idIndex
	blind    blindTime
	certain  int64
	partial  bool
	traced   map[TrampolineKey]TracedFunction
}

// NewBuilder returns a builder without images, in which all time is blind.
func NewBuilder(l Limits) *Builder {
	return &Builder{limits: l, certain: math.MinInt64, blind: blindTime{before: math.MinInt64}, ids: new(idIndex)}
}

// At returns the image that is loaded at an address, nil if there is none.
func (b *Builder) At(addr uint64) *Image { return b.loaded.root.at(addr) }

// IsFree reports whether no image is loaded at addresses in [start, end).
func (b *Builder) IsFree(start, end uint64) bool {
	return b.loaded.root.eachIn(start, end, func(*Image) bool { return false })
}

// Loaded returns the images that are loaded, in the order of their addresses.
func (b *Builder) Loaded() []*Image { return b.loaded.root.in(0, math.MaxUint64) }

// Certain returns the instant up to which the history is complete.
func (b *Builder) Certain() int64 { return b.certain }

// SetCertain sets the instant up to which the history is complete: images that have not been unloaded were
// certainly loaded until then, and not certainly later.
func (b *Builder) SetCertain(until int64) { b.certain = until }

// SetPartial says whether images may be loaded that are not known because they were loaded before the
// source began.
func (b *Builder) SetPartial(partial bool) { b.partial = partial }

// SetTraced sets the functions that trampolines belong to. The map must not change afterwards.
func (b *Builder) SetTraced(functions map[TrampolineKey]TracedFunction) { b.traced = functions }

// AddBlind records that images may have been loaded or unloaded unseen during an interval. The interval
// before the source began starts at the beginning of time.
func (b *Builder) AddBlind(i Interval) { b.blind = b.blind.with(i) }

// Load records an image. Two images cannot have an address at once, so loaded images at its addresses were
// unloaded. No record said when, so they were certainly loaded only while the history was complete. An
// image whose end is not known ends where the next one begins, whichever was loaded first. An image
// without addresses is not recorded.
func (b *Builder) Load(m *Image) {
	if !m.EndKnown {
		b.loaded.root.eachIn(m.Start, m.End, func(other *Image) bool {
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
	b.makeRoom(m)
	if since := b.freeSince(m); since > m.Lifetime.From {
		m = m.WithLifetime(Since(since)) // until then another image was loaded, whatever its record says
	}
	b.loaded.put(m.Start, m)
	b.replaced(nil, m)
	b.evictExcess()
}

// makeRoom ends the images that are loaded at the addresses of an image.
func (b *Builder) makeRoom(m *Image) {
	for _, other := range b.loaded.root.in(m.Start, m.End) {
		if !other.EndKnown && other.Start < m.Start {
			b.Replace(other, other.endingAt(m.Start)) // it never was longer
		} else {
			b.unload(other, min(b.certain, m.Lifetime.From))
		}
	}
}

// freeSince returns the instant at which the last image at the addresses of another was unloaded, if that was after the
// other's lifetime began, else an instant before. It looks at the images that were unloaded since then, which are few:
// records arrive roughly in the order of time.
func (b *Builder) freeSince(m *Image) int64 {
	for i := len(b.unloaded) - 1; i >= 0 && b.unloaded[i].Lifetime.To > m.Lifetime.From; i-- {
		if other := b.unloaded[i]; other.Start < m.End && m.Start < other.End {
			return other.Lifetime.To
		}
	}
	return math.MinInt64
}

// Replace puts an image in the place of a loaded one about which more has become known. It begins at the
// same address, and its lifetime not earlier.
func (b *Builder) Replace(m, by *Image) {
	switch {
	case b.At(m.Start) != m:
	case by.Start < by.End && by.End <= m.End:
		b.loaded.put(m.Start, by)
		b.replaced(m, by)
	default:
		b.loaded.remove(m.Start, m)
		b.replaced(m, nil)
		b.Load(by)
	}
}

// replaced keeps the indices of texts and of file IDs after an image has been replaced by another. Either may be nil.
func (b *Builder) replaced(m, by *Image) {
	b.ids.replace(m, by)
	switch i := slices.Index(b.texts, m); {
	case m == nil && !by.IsFunction():
		b.texts = append(b.texts, by)
	case i < 0:
		return
	case by == nil:
		b.texts = slices.Delete(b.texts, i, i+1)
	default:
		b.texts[i] = by
	}
	b.byText = nil
}

// Unload records that a loaded image was unloaded at an instant. It stays in the history until Evict
// drops it or newer images take its place. It was loaded at the instant at which its lifetime begins,
// even if at is earlier.
func (b *Builder) Unload(m *Image, at int64) {
	b.unload(m, at)
	b.evictExcess()
}

// unload is Unload, except that the history may exceed its limit afterwards.
func (b *Builder) unload(m *Image, at int64) {
	if b.At(m.Start) != m {
		return
	}
	past := m.WithLifetime(Interval{From: m.Lifetime.From, To: max(at, m.Lifetime.From+1)})
	b.loaded.remove(m.Start, m)
	b.past.add(past)
	b.lines += past.Lines.Retained()
	b.replaced(m, past)
	b.unloaded = slices.Insert(b.unloaded, firstAfter(b.unloaded, past.Lifetime.To), past)
}

// TruncateLifetimes ends lifetimes at the start of an interval if they ended in it or later. It is for an
// interval that turns out only now to be blind: the records that ended these lifetimes may have been about
// other images.
func (b *Builder) TruncateLifetimes(i Interval) {
	later := b.unloaded[firstAfter(b.unloaded, i.From):]
	changed := false
	for k, m := range later {
		to := max(i.From, m.Lifetime.From+1)
		if m.Lifetime.From >= i.To || m.Lifetime.To <= to {
			continue
		}
		by := m.WithLifetime(Interval{From: m.Lifetime.From, To: to})
		b.past.remove(m)
		b.past.add(by)
		b.lines += by.Lines.Retained() - m.Lines.Retained()
		b.replaced(m, by)
		later[k], changed = by, true
	}
	if changed {
		slices.SortStableFunc(later, func(a, b *Image) int { return cmp.Compare(a.Lifetime.To, b.Lifetime.To) })
	}
}

// evictExcess drops the images that were unloaded first, as long as the history exceeds its limits.
func (b *Builder) evictExcess() {
	limit, lines, n := b.limits.MaxEntries, b.lines, 0
	for n < len(b.unloaded) && (len(b.unloaded)-n > limit || lines>>10 > int64(limit)) {
		lines -= b.unloaded[n].Lines.Retained()
		n++
	}
	b.evict(n)
}

// Evict drops the images that were unloaded longer ago than the limit allows, and reports whether there
// were any. The time before the end of an evicted lifetime becomes blind.
func (b *Builder) Evict(now int64) bool {
	oldest := now - int64(b.limits.TTL)
	n := 0
	for n < len(b.unloaded) && b.unloaded[n].Lifetime.To < oldest {
		n++
	}
	b.evict(n)
	return n > 0
}

// evict drops the first n images that were unloaded.
func (b *Builder) evict(n int) {
	if n == 0 {
		return
	}
	for _, m := range b.unloaded[:n] {
		b.lines -= m.Lines.Retained()
		b.past.remove(m)
		b.replaced(m, nil)
	}
	b.blind = b.blind.startingAt(b.unloaded[n-1].Lifetime.To)
	clear(b.unloaded[:n])
	b.unloaded = b.unloaded[n:]
}

// Table returns a table of the present records.
func (b *Builder) Table() *Table {
	if b.byText == nil {
		index := indexTexts(b.texts)
		b.byText = &index
	}
	return &Table{
		images:  images{loaded: b.loaded.share(), past: b.past.share()},
		certain: b.certain, partial: b.partial, blind: b.blind, texts: *b.byText, ids: b.ids, idVersion: b.ids.now(),
		unloaded: len(b.unloaded), traced: b.traced,
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
