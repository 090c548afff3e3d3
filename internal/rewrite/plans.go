// SPDX-License-Identifier: Apache-2.0

package rewrite

// stackPlans is the stacks that have split frames.
type stackPlans struct {
	plans  []plan
	places []place // by plan
	planOf []int32 // by stack and user: the position of its plan + 1, 0 for none
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

func (s *stackPlans) end() {
	clear(s.plans)
	s.plans, s.places = s.plans[:0], s.places[:0]
}

func (s *stackPlans) bytes() int {
	return bytesOf(s.plans) + bytesOf(s.places) + bytesOf(s.planOf)
}

// findPlans finds the stacks that have split frames.
func (s *splitter) findPlans(p *pass) {
	s.planOf = zeroed(s.planOf, numUsers*len(p.stackUsers))
	for i := range s.frames {
		p.marks[p.frames[s.frames[i].frame].loc] |= markSplit
	}
	add := func(at usedFrame, _ *frame, how use) {
		if slot := s.slot[at.frame]; slot != 0 {
			s.addPlace(at.stack, at.user, place{at.position, slot - 1, how})
		}
	}
	for i := range p.m.stacks.Len() {
		p.usesOf(int32(i), add)
	}
}

// addPlace adds a place to the plan of a stack, the last one or a new one.
func (s *stackPlans) addPlace(stack int32, u user, pl place) {
	at := &s.planOf[numUsers*int(stack)+int(u)]
	if *at == 0 {
		s.plans = append(s.plans, plan{stack: stack, user: u, first: int32(len(s.places)), fallback: -1})
		*at = int32(len(s.plans))
	}
	s.plans[*at-1].count++
	s.places = append(s.places, pl)
}

// placesOf returns the places of a plan.
func (s *stackPlans) placesOf(pl *plan) []place { return s.places[pl.first : pl.first+pl.count] }
