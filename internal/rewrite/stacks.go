package rewrite

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// serveUses gives each use of a stack one with the locations that serve it: the
// stack itself to those that need no other, else to the first; one that is there
// already, or a new one, to the rest.
func (p *pass) serveUses() {
	sp := &p.split
	sp.order = sp.order[:0]
	for i := range sp.uses {
		if sp.uses[i].wanted {
			sp.order = append(sp.order, int32(i))
		}
	}
	slices.SortStableFunc(sp.order, func(a, b int32) int { return cmp.Compare(sp.uses[a].stack, sp.uses[b].stack) })
	for rest := sp.order; len(rest) > 0; {
		stack := sp.uses[rest[0]].stack
		n := 1
		for n < len(rest) && sp.uses[rest[n]].stack == stack {
			n++
		}
		p.serveStack(stack, rest[:n])
		rest = rest[n:]
	}
}

// serveStack serves all uses of one stack.
func (p *pass) serveStack(stack int32, uses []int32) {
	sp := &p.split
	indices := p.stackTable.At(int(stack)).LocationIndices()
	sp.stack = sp.stack[:0]
	for i := range indices.Len() {
		sp.stack = append(sp.stack, indices.At(i))
	}
	taken := sp.stacks[stack]&isKept != 0 // the stack itself is used on
	for _, i := range uses {
		if !p.locationsFor(&sp.uses[i]) {
			taken = true
			break
		}
	}
	for _, i := range uses {
		u := &sp.uses[i]
		if !p.locationsFor(u) {
			continue
		}
		hash := hashStack(sp.forUse)
		at, ok := p.findStack(hash)
		switch {
		case ok:
			if int(at) < len(sp.stacks) {
				sp.stacks[at] |= isKept
			}
		case !taken:
			taken, at = true, stack
			indices.FromRaw(sp.forUse)
			sp.written.addNew(hash, at)
		default:
			at = int32(p.stackTable.Len())
			p.stackTable.AppendEmpty().LocationIndices().FromRaw(sp.forUse)
			sp.written.addNew(hash, at)
		}
		u.to = at
	}
}

// locationsFor fills p.split.forUse with the locations that p.split.stack has for
// a use, and reports whether one is another.
func (p *pass) locationsFor(u *use) (changed bool) {
	sp := &p.split
	sp.forUse = sp.forUse[:0]
	next := u.chosen
	for _, loc := range sp.stack {
		if sp.frameOf(loc) != nil {
			if to := sp.variants[sp.chosen[next]].loc; to != loc {
				loc, changed = to, true
			}
			next++
		}
		sp.forUse = append(sp.forUse, loc)
	}
	return changed
}

// moveSamples gives samples the stacks that serve them.
func (p *pass) moveSamples() {
	sp := &p.split
	for i := range sp.uses {
		if u := &sp.uses[i]; u.to != u.stack && sp.stacks[u.stack]&hasTimed == 0 {
			if sp.moves == nil {
				sp.moves = make(map[stackUser]int32)
			}
			sp.moves[stackUser{u.stack, u.user}] = u.to
		}
	}
	if len(sp.moves) == 0 && len(sp.timed) == 0 {
		return
	}
	timed, counts := sp.timed, sp.counts
	p.eachProfile(func(_ int, profile pprofile.Profile, u user) {
		p.eachSample(profile, func(s pprofile.Sample) {
			switch stack := s.StackIndex(); {
			case int(stack) >= len(sp.stacks):
			case sp.stacks[stack]&hasTimed != 0:
				n := counts[0]
				p.moveTimed(profile, s, timed[:n])
				timed, counts = timed[n:], counts[1:]
			default:
				if to, ok := sp.moves[stackUser{stack, u}]; ok {
					s.SetStackIndex(to)
				}
			}
		})
	})
}

// isStack reports whether a stack has the locations of p.split.forUse.
func (p *pass) isStack(pos int32) bool {
	indices := p.stackTable.At(int(pos)).LocationIndices()
	if indices.Len() != len(p.split.forUse) {
		return false
	}
	for i, loc := range p.split.forUse {
		if indices.At(i) != loc {
			return false
		}
	}
	return true
}

// findStack returns the stack that has the locations of p.split.forUse. A stack
// that was not written has no location that is new, so these are looked at only
// if all locations were there before.
func (p *pass) findStack(hash uint32) (int32, bool) {
	sp := &p.split
	if !sp.written.built {
		sp.written.reset(0)
	}
	if at, ok := sp.written.find(hash, p.isStack); ok {
		return at, true
	}
	for _, loc := range sp.forUse {
		if loc >= sp.ownLocations {
			return 0, false
		}
	}
	if !sp.whole.built {
		p.indexStacks()
	}
	return sp.whole.find(hash, p.isStack)
}

func (p *pass) indexStacks() {
	x := &p.split.whole
	x.reset(p.stackTable.Len())
	for i := range p.stackTable.Len() {
		stack := p.stackTable.At(i)
		hash := hashIndices(uint32(stack.LocationIndices().Len()), stack.LocationIndices())
		x.add(hash, int32(i), func(pos int32) bool { return p.stackTable.At(int(pos)).Equal(stack) })
	}
}

func hashStack(locations []int32) uint32 {
	h := uint32(len(locations))
	for _, loc := range locations {
		h = mix(h, uint64(uint32(loc)))
	}
	return h
}
