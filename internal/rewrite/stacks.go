package rewrite

// hasSplit reports whether one of a stack's locations was split.
func (p *pass) hasSplit(stack int32) bool {
	roles := p.split.roles
	indices := p.stackTable.At(int(stack)).LocationIndices()
	for i := range indices.Len() {
		if loc := indices.At(i); uint(loc) < uint(len(roles)) && roles[loc]&isSplit != 0 {
			return true
		}
	}
	return false
}

// splitStack gives each kind of user of a stack one with the locations that
// serve him: the stack itself to those who need no other, else to the first;
// one that is there already, or a new one, to the rest.
func (p *pass) splitStack(stack int32, users uint8) {
	sp := &p.split
	indices := p.stackTable.At(int(stack)).LocationIndices()
	sp.stack = sp.stack[:0]
	for i := range indices.Len() {
		sp.stack = append(sp.stack, indices.At(i))
	}
	var (
		changed [numUsers]bool
		taken   bool // the stack itself is used on
	)
	for u := range user(numUsers) {
		if users&(1<<u) != 0 {
			changed[u] = p.locationsFor(u)
			taken = taken || !changed[u]
		}
	}
	for u := range user(numUsers) {
		if !changed[u] {
			continue
		}
		p.locationsFor(u)
		hash := hashStack(sp.forUser)
		at, ok := p.findStack(hash)
		switch {
		case ok:
			if int(at) < len(sp.users) {
				sp.users[at] |= 1 << u // so that it is not taken from him
			}
		case !taken:
			taken = true
			indices.FromRaw(sp.forUser)
			sp.written.addNew(hash, stack)
			continue
		default:
			at = int32(p.stackTable.Len())
			p.stackTable.AppendEmpty().LocationIndices().FromRaw(sp.forUser)
			sp.written.addNew(hash, at)
		}
		if sp.moves == nil {
			sp.moves = make(map[stackUser]int32)
		}
		sp.moves[stackUser{stack, u}] = at
	}
}

// locationsFor fills p.split.forUser with the locations that p.split.stack has
// for a user, and reports whether one is another.
func (p *pass) locationsFor(u user) (changed bool) {
	sp := &p.split
	sp.forUser = sp.forUser[:0]
	for position, loc := range sp.stack {
		if uint(loc) < uint(len(sp.roles)) && sp.roles[loc]&isSplit != 0 {
			targets := sp.targets[loc]
			if to := targets[roleOf(u, position)]; to != loc {
				loc, changed = to, true
			}
		}
		sp.forUser = append(sp.forUser, loc)
	}
	return changed
}

// isStack reports whether a stack has the locations of p.split.forUser.
func (p *pass) isStack(pos int32) bool {
	indices := p.stackTable.At(int(pos)).LocationIndices()
	if indices.Len() != len(p.split.forUser) {
		return false
	}
	for i, loc := range p.split.forUser {
		if indices.At(i) != loc {
			return false
		}
	}
	return true
}

// findStack returns the stack that has the locations of p.split.forUser. A stack
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
	for _, loc := range sp.forUser {
		if loc >= sp.ownLocations {
			return 0, false
		}
	}
	if !sp.stacks.built {
		p.indexStacks()
	}
	return sp.stacks.find(hash, p.isStack)
}

func (p *pass) indexStacks() {
	x := &p.split.stacks
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
