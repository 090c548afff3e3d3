package symtab

import (
	"slices"
	"sort"
)

// A piece is kernel code that is loaded and unloaded as one.
type piece interface {
	comparable

	// lifetime returns when it was there. The end of one that still is there is
	// math.MaxInt64.
	lifetime() (Interval, Slack)

	// span returns its first address, and how many bytes it has.
	span() (start uint64, size uint32)
}

// segment is a range of addresses, each of which has had the same owners. What most
// lookups want of the owner that is there stands in the segment itself, which is one
// cache line: the owner is another.
type segment[T piece] struct {
	start, end uint64
	live       T      // the owner that is there, zero if none is
	since      int64  // when it was loaded
	offset     uint32 // of the segment in the owner
	size       uint32 // of the owner, in bytes
	dead       []T    // those that were, in the order in which they went
}

// setLive sets the owner that is there, zero for none.
func (s *segment[T]) setLive(p T) {
	var none T
	s.live, s.since, s.offset, s.size = p, 0, 0, 0
	if p == none {
		return
	}
	valid, _ := p.lifetime()
	start, size := p.span()
	s.since, s.offset, s.size = valid.From, uint32(s.start-start), size
}

func (s *segment[T]) isEmpty() bool {
	var none T
	return s.live == none && len(s.dead) == 0
}

// sameOwners reports whether two segments have the same owners. It does not look
// far: what it says of two with many is no.
func (s *segment[T]) sameOwners(o *segment[T]) bool {
	const few = 4
	return s.live == o.live && len(s.dead) <= few && slices.Equal(s.dead, o.dead)
}

// startingAt returns the part of the segment from an address on.
func (s segment[T]) startingAt(addr uint64) segment[T] {
	s.offset += uint32(addr - s.start)
	s.start = addr
	return s
}

// upTo returns the part of the segment below an address, from the part from there
// on. They must not append to the same array.
func (s segment[T]) upTo(addr uint64) segment[T] {
	s.end = addr
	s.dead = slices.Clip(s.dead)
	return s
}

// owner returns who had the segment's addresses in an interval: the owner who had
// them for most of it, the later one of two that had them equally long; of several
// that only had them within the tolerance, or perhaps, the one that did so for
// longest. settled says that no instant of the interval has another answer.
func (s *segment[T]) owner(at Interval, slack int64) (best T, settled bool) {
	if s.isLive(at, slack) {
		return s.live, true
	}
	return s.choose(at, slack)
}

// isLive reports whether the owner that is there had the segment's addresses for all
// of the interval, and nobody else had them near it.
func (s *segment[T]) isLive(at Interval, slack int64) bool {
	var none T
	return s.live != none && s.since <= at.From &&
		(len(s.dead) == 0 || s.since <= at.widened(tolerance+slack, 0).From)
}

// choose is owner where the answer is not plain.
func (s *segment[T]) choose(at Interval, slack int64) (best T, settled bool) {
	var none T
	c := choice[T]{at: at, wide: at.widened(tolerance, tolerance)}
	// Those that went first went long before. slack is the most that anyone has.
	earliest := c.wide.widened(slack, 0).From
	i := sort.Search(len(s.dead), func(i int) bool {
		valid, _ := s.dead[i].lifetime()
		return valid.To > earliest
	})
	for ; i < len(s.dead) && !c.isPast; i++ {
		c.consider(s.dead[i])
	}
	if s.live != none {
		c.consider(s.live)
	}
	return c.best, c.candidates == 0 || c.candidates == 1 && c.whole
}

// choice is between the owners of an address in an interval.
type choice[T piece] struct {
	at, wide Interval

	best         T
	sure, likely uint64 // for how long it had the address, certainly and perhaps
	candidates   int
	whole        bool // it certainly had it for the whole interval
	isPast       bool // who comes now comes after the interval
}

// consider takes an owner that is later than those before.
func (c *choice[T]) consider(p T) {
	valid, slack := p.lifetime()
	possible := slack.possible(valid)
	likely := possible.overlap(c.wide)
	if likely == 0 {
		c.isPast = valid.From >= c.wide.To && slack.Before == 0
		return
	}
	c.candidates++
	sure := valid.overlap(c.at)
	if sure > c.sure || sure == c.sure && (sure > 0 || likely >= c.likely) {
		c.best, c.sure, c.likely = p, sure, likely
		c.whole = valid.holds(c.at)
	}
}
