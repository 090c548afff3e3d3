package rewrite

import "go.opentelemetry.io/collector/pdata/pprofile"

// findTimedUses finds the uses of stacks with timed frames: one for each sample, or
// each of its timestamps.
//
// A small message can hold many instants and a deep stack, of which each instant may
// need another. What that costs is bounded by budgets in proportion to the size of the
// message, far above what any but a hostile one needs: what comes after that is left
// unresolved.
func (p *pass) findTimedUses() {
	sp := &p.split
	size := p.timedSize()
	sp.lookups, sp.copies = size*lookupsPerByte, size*copiesPerByte
	sp.trials, sp.refused = sp.copies, false
	p.eachProfile(func(i int, profile pprofile.Profile, u user) {
		p.eachSample(profile, func(s pprofile.Sample) {
			if sp.stacks[s.StackIndex()]&hasTimed == 0 {
				return
			}
			before := len(sp.timed)
			if !p.timeSample(i, s, u) {
				sp.timed = append(sp.timed[:before], p.untimedUse(s.StackIndex(), u))
			}
			sp.counts = append(sp.counts, int32(len(sp.timed)-before))
		})
	})
}

// timeSample finds the uses of a sample of profile i, and reports false if that would
// cost more than is left: then others do not pay for what was tried.
func (p *pass) timeSample(i int, s pprofile.Sample, u user) bool {
	sp := &p.split
	lookups := len(p.timedStack(s.StackIndex()).places) * p.numInstants(i, s)
	if lookups > sp.lookups || sp.trials < 0 {
		return false
	}
	sp.lookups -= lookups
	left, before := sp.copies, len(sp.timed)
	p.eachInstant(i, s, func(at *when) { sp.timed = append(sp.timed, p.timedUse(s.StackIndex(), u, at)) })
	uses := sp.timed[before:]
	if sp.copies -= s.AttributeIndices().Len() * changes(uses); sp.copies < 0 {
		sp.copies, sp.trials, sp.refused = left, sp.trials-left, true
		return false
	}
	for _, use := range uses {
		sp.uses[use].wanted = true
	}
	return true
}

// dropUnwanted forgets the variants that no sample has in the end.
func (p *pass) dropUnwanted() {
	sp := &p.split
	wanted := make([]bool, len(sp.variants))
	for i := range sp.uses {
		u := &sp.uses[i]
		if !u.wanted {
			continue
		}
		end := len(sp.chosen)
		if i+1 < len(sp.uses) {
			end = int(sp.uses[i+1].chosen)
		}
		for _, v := range sp.chosen[u.chosen:end] {
			wanted[v] = true
		}
	}
	for i := range sp.frames {
		f := &sp.frames[i]
		all := f.first
		f.first, f.end, f.several = -1, 0, 0
		clear(f.last[:])
		for v := all; v >= 0; {
			next := sp.variants[v].next
			if wanted[v] {
				sp.link(f, v)
			}
			v = next
		}
	}
}

// changes returns how often one of the uses is another than the one before.
func changes(uses []int32) (n int) {
	for i := 1; i < len(uses); i++ {
		if uses[i] != uses[i-1] {
			n++
		}
	}
	return n
}

const (
	// lookupsPerByte is the number of timed frames that may be looked up for a byte of
	// the message: 32 for an instant, more than a stack has of code that comes and goes.
	lookupsPerByte = 4

	// copiesPerByte is the number of entries of stacks, and of what else has to be
	// copied for instants, that a byte of the message may lead to.
	copiesPerByte = 8
)

// timedSize returns about how many bytes of the message are instants and stacks.
func (p *pass) timedSize() int {
	n := 1 << 12
	for i := range p.stackTable.Len() {
		n += p.stackTable.At(i).LocationIndices().Len()
	}
	p.eachProfile(func(i int, profile pprofile.Profile, _ user) {
		p.eachSample(profile, func(s pprofile.Sample) { n += 8 * p.numInstants(i, s) })
	})
	return n
}

// timedUse returns the use of a stack at an instant.
func (p *pass) timedUse(stack int32, u user, at *when) int32 {
	sp := &p.split
	if sp.copies < 0 {
		return 0 // the sample is refused
	}
	n, ts := len(sp.uses), p.timedStack(stack)
	use := p.addUse(stack, u, ts.places, at)
	if int(use) == n {
		sp.copies -= ts.weight
	}
	return use
}

// timedStack is a stack with timed frames.
type timedStack struct {
	places []int32 // see splitPlaces
	weight int     // what another use takes at most: the stack, and copies of its timed frames
}

func (p *pass) timedStack(stack int32) *timedStack {
	sp := &p.split
	if ts := sp.timedStacks[stack]; ts != nil {
		return ts
	}
	indices := p.stackTable.At(int(stack)).LocationIndices()
	ts := &timedStack{places: p.splitPlaces(nil, stack), weight: indices.Len()}
	for _, position := range ts.places {
		if f := sp.frameOf(indices.At(int(position))); f.timed {
			loc := p.locTable.At(int(f.loc))
			ts.weight += loc.AttributeIndices().Len() + loc.Lines().Len()
		}
	}
	if sp.timedStacks == nil {
		sp.timedStacks = make(map[int32]*timedStack)
	}
	sp.timedStacks[stack] = ts
	return ts
}

// never is no time at all: nothing that is timed is known of it.
var never when

// untimedUse returns the use of a stack of which the timed frames are left unresolved.
func (p *pass) untimedUse(stack int32, u user) int32 {
	sp := &p.split
	key := stackUser{stack, u}
	if sp.untimed == nil {
		sp.untimed = make(map[stackUser]int32)
	}
	at, ok := sp.untimed[key]
	if !ok {
		at = p.addUse(stack, u, p.timedStack(stack).places, &never)
		sp.uses[at].wanted = true
		sp.untimed[key] = at
	}
	return at
}

// numInstants returns the number of instants of a sample of profile i.
func (p *pass) numInstants(i int, s pprofile.Sample) int {
	p.wholeSpan()
	if p.known.Clock == nil || p.times.profiles[i].notOurs || !isDividable(s) {
		return 1
	}
	return max(1, s.TimestampsUnixNano().Len())
}
