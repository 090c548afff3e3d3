package rewrite

import (
	"math/bits"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// split is what it takes to give users of a frame different answers.
type split struct {
	foreign []bool  // by resource
	frames  []int32 // positions of those whose answer depends on who asks
	users   []uint8 // by stack: bits of user, and hasFrame
	roles   []uint8 // by location: isFrame, and bits of role

	// targets says which location serves a role, where not all are served by
	// the location itself.
	targets map[int32][numRoles]int32
	// moves says which stack serves a user instead of the one he had.
	moves map[stackUser]int32

	ownLocations int32 // the number of locations before the first split
	locations    index
	stacks       index // all stacks, if that was needed
	written      index // those that were written
	stack        []int32
	forUser      []int32
}

type stackUser struct {
	stack int32
	user  user
}

func (sp *split) end() {
	sp.frames = sp.frames[:0]
	clear(sp.targets)
	clear(sp.moves)
	sp.locations.built, sp.stacks.built, sp.written.built = false, false, false
}

// rewriteByRole writes the frames whose answer depends on the role. Where roles
// have different answers, it gives each its own location, and its own stack to
// the samples that need it.
func (p *pass) rewriteByRole(users uint8) {
	p.readRoles(users)
	for _, i := range p.split.frames {
		p.rewriteFrame(&p.frames[i])
	}
	if len(p.split.targets) == 0 {
		return
	}
	p.split.ownLocations = int32(len(p.split.roles))
	for i, users := range p.split.users {
		if users&hasFrame != 0 && p.hasSplit(int32(i)) {
			p.splitStack(int32(i), users)
		}
	}
	if len(p.split.moves) == 0 {
		return
	}
	p.eachSample(func(s pprofile.Sample, u user) {
		if to, ok := p.split.moves[stackUser{s.StackIndex(), u}]; ok {
			s.SetStackIndex(to)
		}
	})
}

// rewriteFrame writes the answer for one of the frame's roles into its location,
// and other answers into copies of it.
func (p *pass) rewriteFrame(f *frame) {
	roles := p.split.roles[f.loc]
	if roles == isFrame {
		roles |= 1 << roleLeaf // in no stack of a sample
	}
	var (
		loc      = p.locTable.At(int(f.loc))
		original pprofile.Location
		answers  [numRoles]answer
		targets  [numRoles]int32
		first    = role(bits.TrailingZeros8(roles))
		differ   bool
	)
	for r := first; r < numRoles; r++ {
		targets[r] = f.loc
		if roles&(1<<r) == 0 {
			continue
		}
		answers[r] = p.answer(f.target, r)
		if r > first && answers[r] != answers[first] && !differ {
			differ = true
			original = pprofile.NewLocation()
			loc.CopyTo(original)
		}
	}
	p.write(loc, f, answers[first])
	if !differ {
		return
	}
	p.indexLocation(f.loc)
	for r := first + 1; r < numRoles; r++ {
		if roles&(1<<r) == 0 {
			continue
		}
		same := first
		for same < r && (roles&(1<<same) == 0 || answers[same] != answers[r]) {
			same++
		}
		if same < r {
			targets[r] = targets[same]
		} else {
			targets[r] = p.copyFor(f, original, answers[r])
		}
	}
	if p.split.targets == nil {
		p.split.targets = make(map[int32][numRoles]int32)
	}
	p.split.targets[f.loc] = targets
	p.split.roles[f.loc] |= isSplit
}

// copyFor returns the index of a location that is the original with the answer
// written into it: the frame's own, if the answer makes no difference, or
// another, which is appended if there is none yet.
func (p *pass) copyFor(f *frame, original pprofile.Location, a answer) int32 {
	loc := pprofile.NewLocation()
	original.CopyTo(loc)
	p.write(loc, f, a)
	if p.locTable.At(int(f.loc)).Equal(loc) {
		return f.loc
	}
	hash := hashLocation(loc)
	at, ok := p.split.locations.find(hash, func(pos int32) bool { return p.locTable.At(int(pos)).Equal(loc) })
	if !ok {
		at = int32(p.locTable.Len())
		loc.MoveTo(p.locTable.AppendEmpty())
		p.split.locations.add(hash, at)
	}
	return at
}

// indexLocation adds a location to the index under what it holds now. The first
// call adds those that a copy can be equal to: the other frames that are not
// written yet, and all locations if there are some that were named before.
func (p *pass) indexLocation(loc int32) {
	x := &p.split.locations
	add := func(i int32) { x.add(hashLocation(p.locTable.At(int(i))), i) }
	switch {
	case x.built:
		add(loc)
	case p.anyNamed:
		x.reset(p.locTable.Len())
		for i := range p.locTable.Len() {
			add(int32(i))
		}
	default:
		x.reset(len(p.split.frames))
		for _, i := range p.split.frames {
			add(p.frames[i].loc)
		}
	}
}

func hashLocation(loc pprofile.Location) uint32 {
	h := mix(uint32(loc.MappingIndex()), loc.Address())
	if lines := loc.Lines(); lines.Len() > 0 {
		h = mix(h, uint64(lines.At(0).FunctionIndex()))
	}
	return h
}
