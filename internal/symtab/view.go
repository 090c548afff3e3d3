package symtab

// view is what is known of the owners of addresses. It does not change.
type view[T piece] struct {
	root      *node[T]
	low, high uint64 // nothing is known of addresses outside [low, high)
}

func newView[T piece](t *tree[T]) view[T] {
	v := view[T]{root: t.share()}
	if v.root != nil {
		v.low, v.high = v.root.starts[0], v.root.last().end
	}
	return v
}

// ownerAt returns who had an address in an interval. An interval that is empty counts
// as the instant at which it begins.
func (v *view[T]) ownerAt(addr uint64, at Interval) claim[T] {
	s := v.segmentAt(addr)
	if s == nil {
		return claim[T]{settled: true}
	}
	return s.owner(notEmpty(at))
}

// segmentAt returns the segment that an address is in, nil if there is none.
func (v *view[T]) segmentAt(addr uint64) *segment[T] {
	if addr < v.low || addr >= v.high {
		return nil
	}
	if s := v.root.floor(addr); s != nil && addr < s.end {
		return s
	}
	return nil
}

func notEmpty(at Interval) Interval {
	if at.From >= at.To {
		return Instant(at.From)
	}
	return at
}

// isAlways reports whether who has an address always had it, or nobody ever had.
func (v *view[T]) isAlways(addr uint64) bool {
	s := v.root.floor(addr)
	if s == nil || addr >= s.end {
		return true
	}
	if len(s.dead) > 0 {
		return false
	}
	return s.since == Always.From // and it still is
}

// How many segments are looked at for the next start, and how many more of which it is
// plain that their last owner had gone.
const (
	maxSegments = 64
	maxGone     = 4096
)

// nextStart returns the first address in (after, end) at which something begins that
// was there in the interval, end if there is none. Behind many segments of which
// nothing was there then, it takes the next to be one: that is no place of a module's.
func (v *view[T]) nextStart(after, end uint64, at Interval) uint64 {
	if end <= v.low || after >= v.high {
		return end
	}
	next, n, gone := end, 0, 0
	v.root.each(after+1, end, func(s *segment[T]) bool {
		var none T
		if s.isGone(at) {
			gone++
		} else {
			n++
		}
		if s.start > after && (n > maxSegments || gone > maxGone || !s.isGone(at) && s.owner(at).owner != none) {
			next = s.start
		}
		return next == end
	})
	return next
}

// all calls yield for all segments while it returns true.
func (v *view[T]) all(yield func(*segment[T]) bool) {
	v.root.each(v.low, v.high, yield)
}

// changeOwners changes the owners of the addresses [start, end), of which there
// may be none yet. Segments without owners are removed.
func (t *tree[T]) changeOwners(start, end uint64, change func(*segment[T])) {
	var old []segment[T]
	t.root.each(start, end, func(s *segment[T]) bool {
		old = append(old, *s)
		return true
	})
	apply := func(s segment[T]) {
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
			apply(segment[T]{start: at, end: s.start})
		}
		if s.end > end {
			t.put(s.startingAt(end))
			s = s.upTo(end)
		}
		apply(s)
		at = s.end
	}
	if at < end {
		apply(segment[T]{start: at, end: end})
	}
}

// join makes one segment of those that meet at an address, if they have the same
// owners.
func (t *tree[T]) join(addr uint64) {
	right := t.root.floor(addr)
	if right == nil || right.start != addr || addr == 0 {
		return
	}
	left := t.root.floor(addr - 1)
	if left == nil || left.end != addr || !left.sameOwners(right) {
		return
	}
	joined := *left
	joined.end = right.end
	t.remove(addr)
	t.put(joined)
}
