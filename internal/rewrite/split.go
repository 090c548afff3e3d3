package rewrite

import (
	"math/bits"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// split is what it takes to give users of a frame different answers.
type split struct {
	foreign []bool  // by resource
	frames  []int32 // positions of those whose answer depends on who asks
	users   []uint8 // by stack: bits of user, and hasFrame
	roles   []uint8 // by location: isFrame, and bits of role

	ambiguous []ambiguousFrame

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
	clear(sp.ambiguous)
	sp.ambiguous = sp.ambiguous[:0]
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
		p.writeFirst(&p.frames[i])
	}
	// Only now, as a copy can be equal to what another frame has become.
	for i := range p.split.ambiguous {
		p.splitFrame(&p.split.ambiguous[i])
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

// ambiguousFrame is a frame whose roles have different answers.
type ambiguousFrame struct {
	*frame
	original pprofile.Location // as it was before
	answers  [numRoles]answer
	roles    uint8
}

// writeFirst writes the answer for the first of the frame's roles into its
// location. If not all have that answer, it notes what they have.
func (p *pass) writeFirst(f *frame) {
	a := ambiguousFrame{frame: f, roles: p.split.roles[f.loc]}
	if a.roles == isFrame {
		a.roles |= 1 << roleLeaf // in no stack of a sample
	}
	first := role(bits.TrailingZeros8(a.roles))
	differ := false
	for r := first; r < numRoles; r++ {
		if a.roles&(1<<r) != 0 {
			a.answers[r] = p.answer(f.target, r)
			differ = differ || a.answers[r] != a.answers[first]
		}
	}
	loc := p.locTable.At(int(f.loc))
	if differ {
		a.original = pprofile.NewLocation()
		loc.CopyTo(a.original)
		p.split.ambiguous = append(p.split.ambiguous, a)
	}
	p.write(loc, f, a.answers[first])
}

// splitFrame writes the answers that differ from the one in the frame's location
// into copies of what that was before.
func (p *pass) splitFrame(a *ambiguousFrame) {
	var targets [numRoles]int32
	first := role(bits.TrailingZeros8(a.roles))
	for r := first; r < numRoles; r++ {
		targets[r] = a.loc
		if a.roles&(1<<r) == 0 || r == first {
			continue
		}
		same := first
		for same < r && (a.roles&(1<<same) == 0 || a.answers[same] != a.answers[r]) {
			same++
		}
		if same < r {
			targets[r] = targets[same]
		} else {
			targets[r] = p.copyFor(a, a.answers[r])
		}
	}
	if p.split.targets == nil {
		p.split.targets = make(map[int32][numRoles]int32)
	}
	p.split.targets[a.loc] = targets
	p.split.roles[a.loc] |= isSplit
}

// copyFor returns the index of a location that is the original with the answer
// written into it: the frame's own, if the answer makes no difference, or
// another, which is appended if there is none yet.
func (p *pass) copyFor(f *ambiguousFrame, a answer) int32 {
	loc := pprofile.NewLocation()
	f.original.CopyTo(loc)
	p.write(loc, f.frame, a)
	if p.locTable.At(int(f.loc)).Equal(loc) {
		return f.loc
	}
	if !p.split.locations.built {
		p.indexLocations()
	}
	hash := hashLocation(loc)
	at, ok := p.split.locations.find(hash, p.isLocation(loc))
	if !ok {
		at = int32(p.locTable.Len())
		loc.MoveTo(p.locTable.AppendEmpty())
		p.split.locations.addNew(hash, at)
	}
	return at
}

// indexLocations makes the index of the locations that a copy can be equal to:
// the frames whose answer depends on the role, and all if some were named before.
func (p *pass) indexLocations() {
	x := &p.split.locations
	add := func(i int32) {
		loc := p.locTable.At(int(i))
		x.add(hashLocation(loc), i, p.isLocation(loc))
	}
	if p.anyNamed {
		x.reset(p.locTable.Len())
		for i := range p.locTable.Len() {
			add(int32(i))
		}
		return
	}
	x.reset(len(p.split.frames))
	for _, i := range p.split.frames {
		add(p.frames[i].loc)
	}
}

// isLocation returns what compares indexed locations with that one.
func (p *pass) isLocation(loc pprofile.Location) func(pos int32) bool {
	return func(pos int32) bool { return p.locTable.At(int(pos)).Equal(loc) }
}

func hashLocation(loc pprofile.Location) uint32 {
	h := mix(uint32(loc.MappingIndex()), loc.Address())
	lines := loc.Lines()
	for i := range lines.Len() {
		line := lines.At(i)
		h = mix(h, uint64(line.FunctionIndex())<<32^uint64(line.Line()))
	}
	return hashIndices(h, loc.AttributeIndices())
}

func hashIndices(h uint32, indices pcommon.Int32Slice) uint32 {
	for i := range indices.Len() {
		h = mix(h, uint64(uint32(indices.At(i))))
	}
	return h
}
