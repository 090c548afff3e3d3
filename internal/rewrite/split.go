package rewrite

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// split is what it takes to give users of a frame different answers. It is worked
// out in steps: which uses there are of stacks with such frames (uses), which
// answers these need (variants), which locations have them, and then which stacks.
type split struct {
	foreign []bool // by resource

	frames []splitFrame // those whose answer depends on who asks
	of     []int32      // by location: its position in frames + 1, 0 for none
	stacks []uint8      // by stack: bits of user, and those below

	variants []variant
	byAnswer map[frameAnswer]int32 // variants of frames that have many
	uses     []use
	chosen   []int32 // variants, by the uses
	order    []int32 // of the uses, by stack

	moves  map[stackUser]int32 // of the uses of a stack by all samples of a kind
	timed  []int32             // uses by single samples, as eachSample comes to them
	counts []int32             // how many uses each of these samples has
	places []int32             // of one stack

	timedStacks map[int32]*timedStack // those that were asked for
	timedUses   index                 // uses at some time, by what they need
	untimed     map[stackUser]int32   // uses without a time
	lookups     int                   // budget: of frames to look up for instants
	copies      int                   // budget: of what may have to be written for them
	trials      int                   // budget: of uses that no sample has in the end
	refused     bool                  // there are such uses

	ownLocations int32 // the number of locations before the first split
	locations    index
	whole        index // all stacks, if that was needed
	written      index // those that were written
	stack        []int32
	forUse       []int32
}

// splitFrame is a frame whose answer depends on who asks.
type splitFrame struct {
	*frame
	timed    bool              // also on when
	original pprofile.Location // as it was before, if there are several variants
	first    int32             // of its variants, -1 for none
	end      int32             // the last of them
	several  int32             // how many there are
	last     [numRoles]variantAt
}

// frameAnswer is an answer to the frame that is a location.
type frameAnswer struct {
	loc    int32
	answer answer
}

// variant is an answer to a frame.
type variant struct {
	answer answer
	role   role  // the first that it serves
	loc    int32 // that has it
	next   int32 // of the same frame, -1 for none
}

// use is a stack as some samples use it.
type use struct {
	stack  int32
	user   user
	chosen int32 // where its variants begin, one for each split frame of the stack
	to     int32 // the stack that serves it
	wanted bool  // samples have it
}

type stackUser struct {
	stack int32
	user  user
}

// In split.stacks, beside the bits of user.
const (
	hasFrame = 1 << (numUsers + iota) // it has a location in split.frames
	hasTimed                          // one whose answer depends on when
	isKept                            // somebody else was given it: it must stay as it is
)

// len returns how many entries its longest list has.
func (sp *split) len() int {
	return max(len(sp.variants), len(sp.uses), len(sp.chosen), len(sp.timed), len(sp.counts))
}

func (sp *split) end() {
	sp.refused = false
	clear(sp.frames)
	clear(sp.variants)
	sp.frames, sp.variants = sp.frames[:0], sp.variants[:0]
	sp.uses, sp.chosen, sp.timed, sp.counts = sp.uses[:0], sp.chosen[:0], sp.timed[:0], sp.counts[:0]
	clear(sp.moves)
	clear(sp.untimed)
	clear(sp.timedStacks)
	clear(sp.byAnswer)
	sp.locations.built, sp.whole.built, sp.written.built, sp.timedUses.built = false, false, false, false
}

// refersBeyond reports whether something refers to what is not in its table, but would
// be once all is appended that may have to be: it would get somebody else's.
func (p *pass) refersBeyond() (beyond bool) {
	if !slices.ContainsFunc(p.split.frames, func(f splitFrame) bool { return f.several > 1 }) {
		return false
	}
	if !p.dangling.canWrite(len(p.candidates) + len(p.split.variants)) {
		return true
	}
	isNext := func(index int32, length, appended int) bool {
		return int(index) >= length && int(index) < length+appended
	}
	p.eachProfile(func(_ int, profile pprofile.Profile, _ user) {
		samples := profile.Samples()
		for i := range samples.Len() {
			beyond = beyond || isNext(samples.At(i).StackIndex(), p.stackTable.Len(), len(p.split.uses))
		}
	})
	for i := 0; i < p.stackTable.Len() && !beyond; i++ {
		indices := p.stackTable.At(i).LocationIndices()
		for k := range indices.Len() {
			beyond = beyond || isNext(indices.At(k), p.locTable.Len(), len(p.split.variants))
		}
	}
	return beyond
}

// giveUp leaves the frames alone that would have to be divided.
func (p *pass) giveUp() {
	sp := &p.split
	kept := sp.frames[:0]
	for _, f := range sp.frames {
		if f.several > 1 {
			p.count(OutcomeInvalid, owner{})
		} else {
			kept = append(kept, f)
		}
	}
	sp.frames = kept
}

// add adds a frame.
func (sp *split) add(f *frame, timed bool) {
	sp.frames = append(sp.frames, splitFrame{frame: f, timed: timed, first: -1})
}

// frameOf returns the frame that a location is, nil if its answer is the same for
// all.
func (sp *split) frameOf(loc int32) *splitFrame {
	if uint(loc) >= uint(len(sp.of)) || sp.of[loc] == 0 {
		return nil
	}
	return &sp.frames[sp.of[loc]-1]
}

// rewriteSplit writes the frames whose answer depends on who asks. Where users have
// different answers, it gives each its own location, and its own stack to the
// samples that need it.
func (p *pass) rewriteSplit(users uint8) {
	sp := &p.split
	sp.of = resized(sp.of, p.locTable.Len())
	clear(sp.of)
	for i := range sp.frames {
		sp.of[sp.frames[i].loc] = int32(i + 1)
	}
	p.findUses(users)
	if sp.refused {
		p.dropUnwanted()
	}
	if p.refersBeyond() {
		p.giveUp()
	}
	several := false
	for i := range sp.frames {
		several = p.writeFirst(&sp.frames[i]) || several
	}
	if !several {
		return
	}
	sp.ownLocations = int32(p.locTable.Len())
	// Only now, as a copy can be equal to what another frame has become.
	for i := range sp.frames {
		if f := &sp.frames[i]; f.original != (pprofile.Location{}) {
			p.writeOthers(f)
		}
	}
	p.serveUses()
	p.moveSamples()
}

// indexLocations makes the index of the locations that a copy can be equal to:
// the frames whose answer depends on who asks, and all if some were named before.
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
	for i := range p.split.frames {
		add(p.split.frames[i].loc)
	}
}

// isLocation returns what compares indexed locations with that one.
func (p *pass) isLocation(loc pprofile.Location) func(pos int32) bool {
	return func(pos int32) bool { return p.locTable.At(int(pos)).Equal(loc) }
}

func hashLocation(loc pprofile.Location) uint32 {
	h := mix(mix(0, uint64(loc.MappingIndex())), loc.Address())
	lines := loc.Lines()
	for i := range lines.Len() {
		line := lines.At(i)
		h = mix(mix(mix(h, uint64(line.FunctionIndex())), uint64(line.Line())), uint64(line.Column()))
	}
	return hashIndices(h, loc.AttributeIndices())
}

func hashIndices(h uint32, indices pcommon.Int32Slice) uint32 {
	for i := range indices.Len() {
		h = mix(h, uint64(uint32(indices.At(i))))
	}
	return h
}
