package rewrite

import (
	"cmp"
	"slices"
)

// stackPlans is the stacks that have split frames.
type stackPlans struct {
	plans  []plan
	places []planPlace // as they were found
	sorted []place     // by plan
	planOf []int32     // by stack and user: the position of its plan + 1, 0 for none
}

// plan is a stack that has split frames, as one kind of samples use it.
type plan struct {
	stack    int32
	user     user
	first    int32 // of its places,
	count    int32 // and how many there are
	copying  int   // what it costs to copy the stack and the locations of the places
	budget   int   // what may still be spent for it; below 0, it is not served
	fallback int32 // its combo if it is not served, -1 while not needed
}

// place is a position in a stack that has such a frame.
type place struct {
	position int32
	frame    int32 // position in the split frames
	how      use
}

type planPlace struct {
	plan  int32
	place place
}

func (s *stackPlans) end() {
	clear(s.plans)
	s.plans, s.places = s.plans[:0], s.places[:0]
}

// findPlans finds the stacks that have split frames.
func (s *splitter) findPlans(p *pass) {
	s.planOf = zeroed(s.planOf, numUsers*len(p.stackUsers))
	for _, used := range p.used {
		if slot := s.slot[used.frame]; slot != 0 {
			s.addPlace(used.stack, used.user, place{used.position, slot - 1, used.how})
		}
	}
	if s.markCalled(p) {
		for i := range p.m.stacks.Len() {
			if p.stackUsers[i]&(1<<userOther) != 0 {
				s.addCallers(p, int32(i))
			}
		}
	}
	s.sortPlaces()
}

// markCalled notes in p.called the split frames that stacks have as callers which the pass
// has not listed, and reports whether there are any.
func (s *splitter) markCalled(p *pass) (some bool) {
	clear(p.called)
	for i := range s.frames {
		f := &p.frames[s.frames[i].frame]
		if f.uses&(1<<0) != 0 && p.plain[f.loc] != notPlain {
			p.called[f.loc], some = true, true
		}
	}
	return some
}

// addCallers adds the split frames in a stack that the pass has not listed: callers in the
// core kernel that are interrupted elsewhere.
func (s *splitter) addCallers(p *pass, stack int32) {
	indices := p.m.stacks.At(int(stack)).LocationIndices()
	for i := range indices.Len() {
		loc := indices.At(i)
		if uint(loc) >= uint(len(p.called)) || !p.called[loc] {
			continue
		}
		listed, _ := slices.BinarySearchFunc(p.used, usedFrame{stack: stack, position: int32(i)}, func(a, b usedFrame) int {
			return cmp.Or(cmp.Compare(a.stack, b.stack), cmp.Compare(a.user, b.user), cmp.Compare(a.position, b.position))
		})
		if listed < len(p.used) && p.used[listed].stack == stack && p.used[listed].user == userOther && p.used[listed].position == int32(i) {
			continue
		}
		s.addPlace(stack, userOther, place{int32(i), s.slot[p.frameOf[loc]-1] - 1, 0})
	}
}

// addPlace adds a place to the plan of a stack.
func (s *stackPlans) addPlace(stack int32, u user, pl place) {
	at := &s.planOf[numUsers*int(stack)+int(u)]
	if *at == 0 {
		s.plans = append(s.plans, plan{stack: stack, user: u, fallback: -1, count: 0})
		*at = int32(len(s.plans))
	}
	s.plans[*at-1].count++
	s.places = append(s.places, planPlace{*at - 1, pl})
}

// sortPlaces gives each plan its places.
func (s *stackPlans) sortPlaces() {
	at := int32(0)
	for i := range s.plans {
		s.plans[i].first = at
		at += s.plans[i].count
		s.plans[i].count = 0
	}
	s.sorted = resized(s.sorted, len(s.places))
	for _, pl := range s.places {
		of := &s.plans[pl.plan]
		s.sorted[of.first+of.count] = pl.place
		of.count++
	}
}

// placesOf returns the places of a plan.
func (s *stackPlans) placesOf(pl *plan) []place { return s.sorted[pl.first : pl.first+pl.count] }
