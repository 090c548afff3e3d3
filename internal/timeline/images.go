// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"iter"
	"math"
)

// images are the images of a table. They do not change.
type images struct {
	loaded *node // by their starts; no two have an address in common
	past   sharedPast
}

// all yields all images, unloaded ones included.
func (i *images) all() iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		if !i.loaded.eachIn(0, math.MaxUint64, yield) {
			return
		}
		for m := range i.past.all() {
			if !yield(m) {
				return
			}
		}
	}
}

// has reports whether an image is one of them.
func (i *images) has(m *Image) bool {
	if m.IsLoaded() {
		return i.loaded.at(m.Start) == m
	}
	return i.past.next(m.Start, m.Lifetime.To-1) == m
}

// at returns the loaded image that has an address, nil if there is none.
func (n *node) at(addr uint64) *Image {
	if m := n.floor(addr); m != nil && addr < m.End {
		return m
	}
	return nil
}

// eachIn calls yield for the loaded images that have addresses in [start, end), in their order, until it returns false.
func (n *node) eachIn(start, end uint64, yield func(*Image) bool) bool {
	return n.each(start, end, func(_ uint64, m *Image) bool { return m.End <= start || yield(m) })
}

// in returns the loaded images that have addresses in [start, end), in their order.
func (n *node) in(start, end uint64) (all []*Image) {
	n.eachIn(start, end, func(m *Image) bool {
		all = append(all, m)
		return true
	})
	return all
}
