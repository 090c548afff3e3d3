package rewrite

import (
	"math/bits"
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// user is the kind of profile that a sample belongs to.
type user uint8

const (
	userOther   user = iota
	userEBPF         // of the OTel eBPF profiler
	userForeign      // of another host
	numUsers    = iota
)

// roleOf returns the role of a stack's location at a position, for a user.
func roleOf(u user, position int) role {
	switch {
	case u == userForeign:
		return roleForeign
	case position > 0:
		return roleCaller
	case u == userEBPF:
		return roleEBPFLeaf
	}
	return roleLeaf
}

// readUsers asks of each resource whether it is another host's, and returns a bit
// for each kind of user that there is.
func (p *pass) readUsers() (users uint8) {
	p.split.foreign = p.split.foreign[:0]
	for _, rp := range p.resources.All() {
		foreign := p.opts.IsForeign != nil && p.opts.IsForeign(rp.Resource())
		p.split.foreign = append(p.split.foreign, foreign)
		for _, sp := range rp.ScopeProfiles().All() {
			users |= 1 << userOf(foreign, sp.Scope().Name())
		}
	}
	return users
}

func userOf(foreign bool, scope string) user {
	switch {
	case foreign:
		return userForeign
	case isEBPFProfiler(scope):
		return userEBPF
	}
	return userOther
}

// eachProfile calls visit for all profiles, with their number.
func (p *pass) eachProfile(visit func(i int, profile pprofile.Profile, u user)) {
	n := 0
	for i, rp := range p.resources.All() {
		for _, sp := range rp.ScopeProfiles().All() {
			u := userOf(p.split.foreign[i], sp.Scope().Name())
			for _, profile := range sp.Profiles().All() {
				visit(n, profile, u)
				n++
			}
		}
	}
}

// eachSample calls visit for the samples of a profile that have a valid stack, those
// that are appended meanwhile left out.
func (p *pass) eachSample(profile pprofile.Profile, visit func(s pprofile.Sample)) {
	samples := profile.Samples()
	for i := range samples.Len() {
		if s := samples.At(i); uint(s.StackIndex()) < uint(p.stackTable.Len()) {
			visit(s)
		}
	}
}

// findUses finds the uses of stacks with frames whose answer depends on who asks,
// and the variants of these frames that they need.
func (p *pass) findUses(users uint8) {
	sp := &p.split
	sp.stacks = resized(sp.stacks, p.stackTable.Len())
	clear(sp.stacks)
	if bits.OnesCount8(users) == 1 {
		// All are of one kind. A stack that no sample has may be taken for theirs.
		for i := range sp.stacks {
			sp.stacks[i] = users
		}
	} else {
		p.eachProfile(func(_ int, profile pprofile.Profile, u user) {
			p.eachSample(profile, func(s pprofile.Sample) { sp.stacks[s.StackIndex()] |= 1 << u })
		})
	}
	anyTimed := false
	for i := range sp.stacks {
		p.markStack(i)
		switch {
		case sp.stacks[i]&hasTimed != 0:
			anyTimed = true
		case sp.stacks[i]&hasFrame != 0:
			sp.places = p.splitPlaces(sp.places[:0], int32(i))
			for u := range user(numUsers) {
				if sp.stacks[i]&(1<<u) != 0 {
					p.addUse(int32(i), u, sp.places, nil)
				}
			}
		}
	}
	if anyTimed {
		p.findTimedUses()
	}
}

// markStack finds out whether a stack that is used has a location in split.frames.
func (p *pass) markStack(i int) {
	if p.split.stacks[i] == 0 {
		return
	}
	indices := p.stackTable.At(i).LocationIndices()
	for k := range indices.Len() {
		if f := p.split.frameOf(indices.At(k)); f != nil {
			p.split.stacks[i] |= hasFrame
			if f.timed {
				p.split.stacks[i] |= hasTimed
				return
			}
		}
	}
}

// splitPlaces appends the positions in a stack of the locations in split.frames.
func (p *pass) splitPlaces(places []int32, stack int32) []int32 {
	indices := p.stackTable.At(int(stack)).LocationIndices()
	for position := range indices.Len() {
		if p.split.frameOf(indices.At(position)) != nil {
			places = append(places, int32(position))
		}
	}
	return places
}

// addUse adds a use of a stack, unless there is one of that stack and user at another
// time that needs the same. places are the stack's splitPlaces.
func (p *pass) addUse(stack int32, u user, places []int32, at *when) int32 {
	sp := &p.split
	begin := len(sp.chosen)
	indices := p.stackTable.At(int(stack)).LocationIndices()
	for _, position := range places {
		f := sp.frameOf(indices.At(int(position)))
		sp.chosen = append(sp.chosen, p.variantFor(f, roleOf(u, int(position)), at))
	}
	added := int32(len(sp.uses))
	if at != nil {
		if !sp.timedUses.built {
			sp.timedUses.reset(0)
		}
		chosen := sp.chosen[begin:]
		hash := hashUse(stack, u, chosen)
		isSame := func(pos int32) bool {
			other := &sp.uses[pos]
			from := int(other.chosen)
			return other.stack == stack && other.user == u && slices.Equal(sp.chosen[from:from+len(chosen)], chosen)
		}
		if known, ok := sp.timedUses.find(hash, isSame); ok {
			sp.chosen = sp.chosen[:begin]
			return known
		}
		sp.timedUses.addNew(hash, added)
	}
	sp.uses = append(sp.uses, use{stack: stack, user: u, chosen: int32(begin), to: stack, wanted: at == nil})
	return added
}

func hashUse(stack int32, u user, chosen []int32) uint32 {
	h := mix(uint32(u), uint64(stack))
	for _, v := range chosen {
		h = mix(h, uint64(v))
	}
	return h
}
