// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"slices"
)

// A segment is a range of addresses, each of which the same images have had. What most
// look-ups need of the image that is there now stands in the segment itself, which is
// one cache line: the image is another.
type segment struct {
	start, end uint64
	live       *Image   // the one that is there now, nil if none is
	since      int64    // when it was loaded
	offset     uint32   // of the segment in it
	size       uint32   // of it, in bytes, and plainFunction
	past       []*Image // those that were unloaded, in the order of their lifetimes
}

// plainFunction marks the size of an image that has one name for all of it. Such images
// are far smaller.
const plainFunction = 1 << 31

// setLive sets the image that is there now, nil for none.
func (s *segment) setLive(m *Image) {
	s.live, s.since, s.offset, s.size = m, 0, 0, 0
	if m == nil {
		return
	}
	s.since, s.offset, s.size = m.Lifetime.From, uint32(s.start-m.Start), uint32(m.End-m.Start)
	if m.Text == nil && m.Name() != "" {
		s.size |= plainFunction
	}
}

// symbol returns the symbol of the image that is there now at an address.
func (s *segment) symbol(addr uint64) Symbol {
	if s.size&plainFunction == 0 {
		return s.live.Lookup(addr)
	}
	start := s.start - uint64(s.offset)
	return Symbol{Start: start, End: start + uint64(s.size&^plainFunction), Image: s.live}
}

func (s *segment) isEmpty() bool { return s.live == nil && len(s.past) == 0 }

// sameImages reports whether two segments have had the same images. It does not look
// far: of two with many it says no.
func (s *segment) sameImages(o *segment) bool {
	const few = 4
	return s.live == o.live && len(s.past) <= few && slices.Equal(s.past, o.past)
}

// startingAt returns the part of the segment from an address on.
func (s segment) startingAt(addr uint64) segment {
	s.offset += uint32(addr - s.start)
	s.start = addr
	return s
}

// upTo returns the part of the segment below an address, from the part from there
// on. They must not append to the same array.
func (s segment) upTo(addr uint64) segment {
	s.end = addr
	s.past = slices.Clip(s.past)
	return s
}

// dropFirst forgets the image that was unloaded first. Earlier versions may share the
// array, so it is not cleared; now and then what is left gets one of its own, or what is
// forgotten would stay in memory.
func (s *segment) dropFirst() {
	switch n := len(s.past) - 1; {
	case n == 0:
		s.past = nil
	case n&(n-1) == 0:
		s.past = slices.Clone(s.past[1:])
	default:
		s.past = s.past[1:]
	}
}

// overlapping calls yield for the images whose lifetimes overlap an interval, in their
// order, while it returns true. If it always does, the result is the time from the end of
// the last image before them to the start of the first after them.
func (s *segment) overlapping(i Interval, yield func(*Image) bool) (alone Interval) {
	alone = Always
	first := firstAfter(s.past, i.From)
	if first > 0 {
		alone.From = s.past[first-1].Lifetime.To
	}
	for _, m := range s.past[first:] {
		if m.Lifetime.From >= i.To {
			alone.To = m.Lifetime.From
			return alone
		}
		if m.Lifetime.Overlaps(i) && !yield(m) {
			return alone
		}
	}
	switch {
	case s.live == nil:
	case s.since < i.To:
		yield(s.live)
	default:
		alone.To = s.since
	}
	return alone
}

// firstAfter returns the position of the first image that was unloaded after an instant. Most
// instants are of the last seconds, so it looks from the end, at twice as many each time.
func firstAfter(past []*Image, at int64) int {
	low, high := len(past), len(past)
	for step := 1; low > 0 && past[low-1].Lifetime.To > at; step *= 2 {
		high = low - 1
		low = max(0, low-step)
	}
	n, _ := slices.BinarySearchFunc(past[low:high], at, func(m *Image, at int64) int {
		if m.Lifetime.To <= at {
			return -1
		}
		return 1
	})
	return low + n
}

// change changes the images of the addresses [start, end), of which there may be none
// yet. Segments without images are removed.
func (t *tree) change(start, end uint64, change func(*segment)) {
	var old []segment
	t.root.each(start, end, func(s *segment) bool {
		old = append(old, *s)
		return true
	})
	apply := func(s segment) {
		change(&s)
		if s.isEmpty() {
			t.remove(s.start)
		} else {
			t.put(s)
		}
	}
	at := start
	for _, s := range old {
		if s.start < start {
			t.put(s.upTo(start))
			s = s.startingAt(start)
		}
		if at < s.start {
			apply(segment{start: at, end: s.start})
		}
		if s.end > end {
			t.put(s.startingAt(end))
			s = s.upTo(end)
		}
		apply(s)
		at = s.end
	}
	if at < end {
		apply(segment{start: at, end: end})
	}
}

// join makes one segment of those that meet at an address, if they have the same
// images.
func (t *tree) join(addr uint64) {
	left, right := t.root.at(addr-1), t.root.at(addr)
	if left == nil || right == nil || left == right || !left.sameImages(right) {
		return
	}
	joined := *left
	joined.end = right.end
	t.remove(addr)
	t.put(joined)
}
