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
	size       uint32 // of the owner, in bytes, and isGuess if that is a guess
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

// isGuess marks the size of a function that is guessed. Functions are far smaller.
const isGuess = 1 << 31

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

// dropFirst forgets the owner that went first. Earlier versions may share the array, so
// it is not cleared; now and then what is left gets one of its own, or what is
// forgotten would stay in memory.
func (s *segment[T]) dropFirst() {
	switch n := len(s.dead) - 1; {
	case n == 0:
		s.dead = nil
	case n&(n-1) == 0:
		s.dead = slices.Clone(s.dead[1:])
	default:
		s.dead = s.dead[1:]
	}
}

// owner returns who had the segment's addresses in an interval; see claim.
func (s *segment[T]) owner(at Interval) claim[T] {
	if s.isLive(at) {
		return claim[T]{owner: s.live, sure: at.overlap(at), since: s.since, whole: true, settled: true}
	}
	return s.choose(at)
}

// isLive reports whether the owner that is there had the segment's addresses for all
// of the interval, and nobody else had them near it.
func (s *segment[T]) isLive(at Interval) bool {
	var none T
	return s.live != none && s.since <= at.From &&
		(len(s.dead) == 0 || s.since <= at.widened(tolerance, 0).From)
}

// isGone reports whether all who had the segment's addresses had gone before an
// interval.
func (s *segment[T]) isGone(at Interval) bool {
	var none T
	if s.live != none || len(s.dead) == 0 {
		return false
	}
	valid, slack := s.dead[len(s.dead)-1].lifetime()
	return slack.possible(valid).To <= at.From-tolerance
}

// claim is who had an address in an interval, by the rules of section 5.2 of the
// contract: the owner who had it for most of it, the later one of two that had it
// equally long; else the one that had it within the tolerance for longest; else the
// only one that perhaps had it, as when it came or went is not known better. Where
// there are several of that kind, nobody knows; nor if that is a matter of more than a
// second, and the address has had others: some may have been there that nobody saw.
type claim[T piece] struct {
	owner               T      // zero for nobody
	sure, near, perhaps uint64 // for how long it had the address in these ways
	vague               bool   // when it came or went is not known to the second
	since               int64  // when it was loaded
	whole               bool   // it certainly had it for the whole interval
	settled             bool   // no instant of the interval has another answer
}

// isBetter reports whether a claim beats an earlier one.
func (c *claim[T]) isBetter(than *claim[T]) bool {
	switch {
	case c.sure != than.sure:
		return c.sure > than.sure
	case c.sure > 0:
		return true // the later
	case c.near != than.near:
		return c.near > than.near
	}
	return c.perhaps >= than.perhaps
}

// maxCandidates is the number of owners in an interval up to which they are compared.
// Profiles without timestamps can have long intervals, and a place can have had
// thousands of owners.
const maxCandidates = 64

// vague is a slack, in microseconds, in which others can come and go unseen.
const vague = 1_000_000

// choose is owner where the answer is not plain. Those that went before others may
// perhaps have stayed longer than is certain, but not longer than until the next came.
// So only one before those that overlap the interval can reach into it, and only one
// after them. Where there are too many, it is one of the first if that had the address
// for more than half of the interval, or else nobody.
func (s *segment[T]) choose(at Interval) (best claim[T]) {
	wide := at.widened(tolerance, tolerance)
	first := sort.Search(len(s.dead), func(i int) bool {
		valid, _ := s.dead[i].lifetime()
		return valid.To > wide.From
	})
	candidates := 0
	for i := max(0, first-1); i < s.owners(); i++ {
		c, ok := s.claim(i, at, wide)
		if ok {
			if candidates++; candidates > maxCandidates {
				break
			}
			if candidates == 1 || c.isBetter(&best) {
				best = c
			}
		}
		if c.since >= wide.To {
			break
		}
	}
	onlyPerhaps := best.sure == 0 && best.near == 0
	switch {
	case candidates > maxCandidates && best.sure <= at.overlap(at)/2,
		candidates > 1 && onlyPerhaps,
		best.vague && onlyPerhaps && s.owners() > 1:
		best = claim[T]{}
	}
	best.settled = candidates == 0 || candidates == 1 && best.whole
	return best
}

// owners returns the number of owners that the segment has had.
func (s *segment[T]) owners() int {
	var none T
	if s.live == none {
		return len(s.dead)
	}
	return len(s.dead) + 1
}

// at returns owner i, in the order of their times.
func (s *segment[T]) at(i int) T {
	if i < len(s.dead) {
		return s.dead[i]
	}
	return s.live
}

// claim returns what owner i has of an interval, false if that is nothing.
func (s *segment[T]) claim(i int, at, wide Interval) (c claim[T], ok bool) {
	p := s.at(i)
	valid, slack := p.lifetime()
	possible := slack.possible(valid)
	if i > 0 {
		before, _ := s.at(i - 1).lifetime()
		possible.From = max(possible.From, min(before.To, valid.From))
	}
	if i+1 < s.owners() {
		after, _ := s.at(i + 1).lifetime()
		possible.To = min(possible.To, max(after.From, valid.To))
	}
	c = claim[T]{
		owner: p, since: valid.From, whole: valid.holds(at),
		sure: valid.overlap(at), near: valid.overlap(wide), perhaps: possible.overlap(wide),
		vague: at.From < valid.From && slack.Before > vague || at.To > valid.To && slack.After > vague,
	}
	return c, c.perhaps > 0
}
