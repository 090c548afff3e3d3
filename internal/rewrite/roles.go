package rewrite

import (
	"math/bits"

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

// eachSample calls visit for all samples with a valid stack.
func (p *pass) eachSample(visit func(s pprofile.Sample, u user)) {
	for i, rp := range p.resources.All() {
		for _, sp := range rp.ScopeProfiles().All() {
			u := userOf(p.split.foreign[i], sp.Scope().Name())
			for _, profile := range sp.Profiles().All() {
				samples := profile.Samples()
				for k := range samples.Len() {
					if s := samples.At(k); uint(s.StackIndex()) < uint(p.stackTable.Len()) {
						visit(s, u)
					}
				}
			}
		}
	}
}

// readRoles finds out in which roles the frames that may have to be split are
// used, in profiles of these kinds of users: p.split.users has a bit for each
// kind of user of a stack, p.split.roles one for each role of a location.
func (p *pass) readRoles(users uint8) {
	sp := &p.split
	sp.users = resized(sp.users, p.stackTable.Len())
	sp.roles = resized(sp.roles, p.locTable.Len())
	clear(sp.users)
	clear(sp.roles)
	for _, i := range sp.frames {
		sp.roles[p.frames[i].loc] = isFrame
	}
	if bits.OnesCount8(users) == 1 {
		// All are of one kind. A stack that no sample has may be taken for theirs.
		for i := range sp.users {
			sp.users[i] = users
		}
	} else {
		p.eachSample(func(s pprofile.Sample, u user) { sp.users[s.StackIndex()] |= 1 << u })
	}
	for i, users := range sp.users {
		if users == 0 {
			continue
		}
		indices := p.stackTable.At(i).LocationIndices()
		for position := range indices.Len() {
			loc := uint(uint32(indices.At(position)))
			if loc < uint(len(sp.roles)) && sp.roles[loc] != 0 {
				sp.users[i] |= hasFrame
				sp.roles[loc] |= rolesOf(users, position)
			}
		}
	}
}

// rolesOf returns the bits of the roles of a location at a position of a stack
// with these users.
func rolesOf(users uint8, position int) (roles uint8) {
	for u := range user(numUsers) {
		if users&(1<<u) != 0 {
			roles |= 1 << roleOf(u, position)
		}
	}
	return roles
}

// hasFrame in p.split.users marks the stacks with a location in p.split.frames.
const hasFrame = 1 << numUsers

// In p.split.roles, isFrame marks the locations in p.split.frames, and isSplit
// those of them in p.split.targets.
const (
	isFrame = 1 << (numRoles + iota)
	isSplit
)
