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
// cost more than is left.
func (p *pass) timeSample(i int, s pprofile.Sample, u user) bool {
	sp := &p.split
	lookups := len(p.timedStack(s.StackIndex()).places) * p.numInstants(i, s)
	if lookups > sp.lookups || sp.copies < 0 {
		return false
	}
	sp.lookups -= lookups
	before := len(sp.timed)
	p.eachInstant(i, s, func(at *when) { sp.timed = append(sp.timed, p.timedUse(s.StackIndex(), u, at)) })
	copies := s.AttributeIndices().Len() * changes(sp.timed[before:])
	if copies > sp.copies {
		return false
	}
	sp.copies -= copies
	return true
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
	// the message: 128 for an instant, as many as a stack has at most (the sysctl
	// kernel.perf_event_max_stack is 127 by default).
	lookupsPerByte = 16

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
		return p.untimedUse(stack, u)
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
