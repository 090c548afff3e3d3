// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// A segment is a range of addresses that have all had the same images.
type segment struct {
	start, end uint64
	loaded     *Image   // the image that is loaded, nil if there is none
	past       []*Image // the images that were unloaded, in the order in which their lifetimes end
}

func (s *segment) isEmpty() bool { return s.loaded == nil && len(s.past) == 0 }

// hasSameImages reports whether another segment has had the same images. It compares only a few: for two
// segments with many images it returns false.
func (s *segment) hasSameImages(o *segment) bool {
	const few = 4
	return s.loaded == o.loaded && len(s.past) <= few && slices.Equal(s.past, o.past)
}

// startingAt returns the part of the segment from an address on.
func (s segment) startingAt(addr uint64) segment {
	s.start = addr
	return s
}

// endingAt returns the part of the segment below an address. Its images do not share an array with the
// other part, so that both can append.
func (s segment) endingAt(addr uint64) segment {
	s.end = addr
	s.past = slices.Clip(s.past)
	return s
}

// dropFirst drops the image that was unloaded first. Earlier tables may share the array, so it is not
// cleared. Now and then the remaining images get an array of their own, or the dropped ones would stay in
// memory.
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

// drop drops an image that was unloaded.
func (s *segment) drop(m *Image) {
	if len(s.past) > 0 && s.past[0] == m {
		s.dropFirst()
	} else if i := slices.Index(s.past, m); i >= 0 {
		s.past = slices.Delete(slices.Clone(s.past), i, i+1)
	}
}

// replacePast puts an image in the place of one that was unloaded.
func (s *segment) replacePast(m, by *Image) {
	if i := slices.Index(s.past, m); i >= 0 {
		s.past = slices.Clone(s.past)
		s.past[i] = by
	}
}

// has reports whether an image has, or has had, the addresses.
func (s *segment) has(m *Image) bool {
	if m.IsLoaded() {
		return s.loaded == m
	}
	for _, other := range s.past[firstAfter(s.past, m.Lifetime.To-1):] {
		if other == m || other.Lifetime.To > m.Lifetime.To {
			return other == m
		}
	}
	return false
}

// overlapping calls yield for the images whose lifetimes overlap an interval, in the order of their
// lifetimes, until it returns false. If it never does, alone is the time from the end of the last image
// before them to the start of the first one after them.
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
	switch m := s.loaded; {
	case m == nil:
	case m.Lifetime.From < i.To:
		yield(m)
	default:
		alone.To = m.Lifetime.From
	}
	return alone
}

// firstAfter returns the position of the first image that was unloaded after an instant. Most instants are
// in the last seconds, so it searches from the end, in steps that double.
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
