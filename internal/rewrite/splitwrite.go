package rewrite

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// writeFrames gives each variant a location: one of a frame's variants keeps the frame's
// own, the others get copies.
func (s *splitter) writeFrames(p *pass) {
	for i := range s.frames {
		f := &s.frames[i]
		frame := &p.frames[f.frame]
		loc := p.m.locations.At(int(frame.loc))
		v := s.ownVariant(f)
		if v < 0 {
			continue
		}
		if f.count > 1 {
			f.original = pprofile.NewLocation()
			loc.CopyTo(f.original)
		}
		s.variants[v].loc = frame.loc
		p.w.write(loc, frame, &s.variants[v].answer)
		p.count(frame, &s.variants[v].answer)
	}
	// Only now, as a copy can be equal to what another frame has become.
	for v := range s.variants {
		if s.variants[v].used && s.variants[v].loc < 0 {
			s.variants[v].loc = s.copyFor(p, &s.variants[v])
		}
	}
}

// ownVariant returns the variant that keeps the frame's location: one that leaves it as it
// came, else the first; -1 if none is used.
func (s *splitter) ownVariant(f *splitFrame) (own int32) {
	own = -1
	for v := f.first; v >= 0; v = s.variants[v].next {
		if !s.variants[v].used {
			continue
		}
		if own = v; s.variants[v].answer.kind == answerUntouched {
			return own
		}
	}
	return own
}

// copyFor returns the index of a location that is the original with a variant's answer
// written into it, which is appended if it is not there.
func (s *splitter) copyFor(p *pass, v *variant) int32 {
	f := &s.frames[v.frame]
	frame := &p.frames[f.frame]
	loc := pprofile.NewLocation()
	f.original.CopyTo(loc)
	p.w.write(loc, frame, &v.answer)
	p.count(frame, &v.answer)
	if p.m.locations.At(int(frame.loc)).Equal(loc) { // another load of the same
		return frame.loc
	}
	is := func(loc pprofile.Location) func(int32) bool {
		return func(pos int32) bool { return p.m.locations.At(int(pos)).Equal(loc) }
	}
	if !s.locations.built {
		s.locations.reset(len(p.frames))
		for i := range p.frames {
			loc := p.m.locations.At(int(p.frames[i].loc))
			s.locations.add(hashLocation(loc), p.frames[i].loc, is(loc))
		}
	}
	hash := hashLocation(loc)
	at, ok := s.locations.find(hash, is(loc))
	if !ok {
		p.w.wrote = true
		at = int32(p.m.locations.Len())
		loc.MoveTo(p.m.locations.AppendEmpty())
		s.locations.addNew(hash, at)
	}
	return at
}

func hashLocation(loc pprofile.Location) uint32 {
	h := mix(mix(0, uint64(loc.MappingIndex())), loc.Address())
	lines := loc.Lines()
	for i := range lines.Len() {
		line := lines.At(i)
		h = mix(mix(mix(h, uint64(line.FunctionIndex())), uint64(line.Line())), uint64(line.Column()))
	}
	indices := loc.AttributeIndices()
	for i := range indices.Len() {
		h = mix(h, uint64(uint32(indices.At(i))))
	}
	return h
}

// pointSamples gives the samples the stacks that have their combos.
func (s *splitter) pointSamples(p *pass) {
	s.stacks.begin(&p.m.dictionary, len(p.frameOf))
	for i := range s.combos {
		if c := &s.combos[i]; c.used {
			c.to = s.stackFor(p, c)
		}
	}
	rest := s.instants
	s.eachSample(p, func(_ int, of pprofile.Profile, sample pprofile.Sample, _ int32) {
		n := p.times.parts(sample)
		s.pointSample(p, of, sample, rest[:n])
		rest = rest[n:]
	})
}

// stackFor returns the index of the stack that has the locations of a combo.
func (s *splitter) stackFor(p *pass, c *combo) int32 {
	pl := &s.plans[c.plan]
	indices := p.m.stacks.At(int(pl.stack)).LocationIndices()
	changed := false
	for i, place := range s.placesOf(pl) {
		to := s.variants[s.chosen[int(c.chosen)+i]].loc
		changed = changed || to != indices.At(int(place.position))
	}
	if !changed {
		return pl.stack
	}
	locations := s.stacks.scratch(indices)
	for i, place := range s.placesOf(pl) {
		locations[place.position] = s.variants[s.chosen[int(c.chosen)+i]].loc
	}
	at, appended := s.stacks.intern(locations)
	p.w.wrote = p.w.wrote || appended
	return at
}

// pointSample gives a sample the stack of its instants' combos or, if these have several,
// divides it among them.
func (s *splitter) pointSample(p *pass, profile pprofile.Profile, sample pprofile.Sample, instants []instant) {
	to := func(i int) int32 { return s.combos[instants[i].combo].to }
	same := true
	for i := range instants {
		same = same && to(i) == to(0)
	}
	if same {
		if to(0) != sample.StackIndex() {
			p.w.wrote = true
			sample.SetStackIndex(to(0))
		}
		return
	}
	p.w.wrote = true
	rest := pprofile.NewSample() // all but values and timestamps
	sample.AttributeIndices().CopyTo(rest.AttributeIndices())
	rest.SetLinkIndex(sample.LinkIndex())
	var parts []part
	at := make(map[int32]int)
	for i := range instants {
		k, ok := at[to(i)]
		if !ok {
			k = len(parts)
			at[to(i)] = k
			parts = append(parts, part{stack: to(i)})
		}
		parts[k].stamps = append(parts[k].stamps, sample.TimestampsUnixNano().At(i))
		if sample.Values().Len() > 0 {
			parts[k].values = append(parts[k].values, sample.Values().At(i))
		}
	}
	for i := range parts {
		if i > 0 {
			sample = profile.Samples().AppendEmpty()
			rest.CopyTo(sample)
		}
		sample.SetStackIndex(parts[i].stack)
		sample.TimestampsUnixNano().FromRaw(parts[i].stamps)
		sample.Values().FromRaw(parts[i].values)
	}
}

// part is what a part of a sample has of its own.
type part struct {
	stack  int32
	stamps []uint64
	values []int64
}

// stackIndex appends to the stack table what is not there yet.
type stackIndex struct {
	d         *dictionary
	locations int32 // the number of locations that came with the message
	appended  index
	all       index // those that came with the message, when that was needed
	stack     []int32
}

func (x *stackIndex) begin(d *dictionary, locations int) {
	x.d, x.locations = d, int32(locations)
	x.appended.reset(0)
}

func (x *stackIndex) end() { x.d, x.all.built = nil, false }

// scratch returns a copy of a stack's locations, valid until the next call.
func (x *stackIndex) scratch(indices pcommon.Int32Slice) []int32 {
	x.stack = x.stack[:0]
	for i := range indices.Len() {
		x.stack = append(x.stack, indices.At(i))
	}
	return x.stack
}

// intern returns the index of the stack with these locations, and whether it was
// appended. A stack that came with the message has no location that is new, so those are
// looked at only if none is.
func (x *stackIndex) intern(locations []int32) (at int32, appended bool) {
	hash := hashIndices(uint32(len(locations)), locations)
	is := func(pos int32) bool { return x.is(pos, locations) }
	if at, ok := x.appended.find(hash, is); ok {
		return at, false
	}
	if !slices.ContainsFunc(locations, func(loc int32) bool { return loc >= x.locations }) {
		x.indexAll()
		if at, ok := x.all.find(hash, is); ok {
			return at, false
		}
	}
	at = int32(x.d.stacks.Len())
	x.d.stacks.AppendEmpty().LocationIndices().FromRaw(locations)
	x.appended.addNew(hash, at)
	return at, true
}

func (x *stackIndex) is(pos int32, locations []int32) bool {
	indices := x.d.stacks.At(int(pos)).LocationIndices()
	if indices.Len() != len(locations) {
		return false
	}
	for i, loc := range locations {
		if indices.At(i) != loc {
			return false
		}
	}
	return true
}

func (x *stackIndex) indexAll() {
	if x.all.built {
		return
	}
	x.all.reset(x.d.stacks.Len())
	for i := 1; i < x.d.stacks.Len(); i++ { // 0 means none
		stack := x.d.stacks.At(i)
		h := uint32(stack.LocationIndices().Len())
		for k := range stack.LocationIndices().Len() {
			h = mix(h, uint64(uint32(stack.LocationIndices().At(k))))
		}
		x.all.add(h, int32(i), func(pos int32) bool { return x.d.stacks.At(int(pos)).Equal(stack) })
	}
}

func hashIndices(h uint32, indices []int32) uint32 {
	for _, i := range indices {
		h = mix(h, uint64(uint32(i)))
	}
	return h
}
