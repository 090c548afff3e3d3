// SPDX-License-Identifier: Apache-2.0

package rewrite

import "go.opentelemetry.io/collector/pdata/pprofile"

// writeFrames gives each variant a location: one of a frame's variants keeps the frame's
// own, the others get copies.
func (s *splitter) writeFrames(p *pass) {
	s.scratch = pprofile.NewLocation()
	s.counted = zeroed(s.counted, p.m.locations.Len())
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
	for i := range s.frames {
		if own := s.ownVariant(&s.frames[i]); own >= 0 {
			s.isCounted(p, s.variants[own].loc, &s.variants[own])
		}
		for v := s.frames[i].first; v >= 0; v = s.variants[v].next {
			if s.variants[v].used && s.variants[v].loc < 0 {
				s.variants[v].loc = s.copyFor(p, &s.variants[v])
			}
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
// written into it. It counts the frame, unless a variant that reads the same was counted.
func (s *splitter) copyFor(p *pass, v *variant) int32 {
	f := &s.frames[v.frame]
	frame := &p.frames[f.frame]
	loc := s.scratch
	f.original.CopyTo(loc)
	gave := p.w.gave
	p.w.write(loc, frame, &v.answer)
	at := s.locationOf(p, frame, loc)
	if s.isCounted(p, at, v) { // another load of the same
		p.w.gave = gave
	} else {
		p.count(frame, &v.answer)
	}
	return at
}

// locationOf returns the index of a location that is a copy of a frame's, which is appended if
// it is not there.
func (s *splitter) locationOf(p *pass, f *frame, loc pprofile.Location) int32 {
	if p.m.locations.At(int(f.loc)).Equal(loc) {
		return f.loc
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
		s.counted = append(s.counted, counted{})
	}
	if int(at) < len(p.marks) {
		p.marks[at] |= markShared
	}
	return at
}

func hashLocation(loc pprofile.Location) uint64 {
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
	s.stacks.begin(p)
	for i := range s.combos {
		if c := &s.combos[i]; c.used {
			c.to = s.stackFor(p, c)
		}
	}
	s.partOf = zeroed(s.partOf, p.m.stacks.Len())
	s.eachSample(func(sample *splitSample, instants []instant) { s.pointSample(p, sample.of, sample.sample, instants) })
}

// stackFor returns the index of the stack that has the locations of a combo.
func (s *splitter) stackFor(p *pass, c *combo) int32 {
	pl := &s.plans[c.plan]
	indices := p.m.stacks.At(int(pl.stack)).LocationIndices()
	changed, fresh := false, false
	for i, place := range s.placesOf(pl) {
		to := s.variants[s.chosen[int(c.chosen)+i]].loc
		changed = changed || to != indices.At(int(place.position))
		fresh = fresh || int(to) >= len(p.marks)
	}
	if !changed {
		return pl.stack
	}
	locations := s.stacks.scratch(pl.stack)
	for i, place := range s.placesOf(pl) {
		locations[place.position] = s.variants[s.chosen[int(c.chosen)+i]].loc
	}
	at, appended := s.stacks.intern(locations, fresh)
	p.w.wrote = p.w.wrote || appended
	return at
}

// pointSample gives a sample the stack of its instants' combos or, if these have several,
// divides it among them.
func (s *splitter) pointSample(p *pass, profile pprofile.Profile, sample pprofile.Sample, instants []instant) {
	s.parts = s.parts[:0]
	for i := range instants {
		to := s.combos[instants[i].combo].to
		part := s.partOf[to]
		if part == 0 {
			s.parts = append(s.parts, to)
			part = int32(len(s.parts))
			s.partOf[to] = part
		}
		instants[i].part = part - 1
	}
	for _, to := range s.parts {
		s.partOf[to] = 0
	}
	if len(s.parts) > 1 {
		s.divide(profile, sample, instants)
	} else if s.parts[0] == sample.StackIndex() {
		return
	}
	p.w.wrote = true
	sample.SetStackIndex(s.parts[0])
}

// divide moves what a sample has of its instants' parts but the first to samples of their own.
func (s *splitter) divide(profile pprofile.Profile, sample pprofile.Sample, instants []instant) {
	stamps, values := sample.TimestampsUnixNano().AsRaw(), sample.Values().AsRaw()
	sample.TimestampsUnixNano().FromRaw(nil)
	sample.Values().FromRaw(nil)
	first := profile.Samples().Len()
	for _, to := range s.parts[1:] {
		part := profile.Samples().AppendEmpty()
		sample.CopyTo(part)
		part.SetStackIndex(to)
	}
	for i := range instants {
		part := sample
		if instants[i].part > 0 {
			part = profile.Samples().At(first + int(instants[i].part) - 1)
		}
		part.TimestampsUnixNano().Append(stamps[i])
		if len(values) > 0 {
			part.Values().Append(values[i])
		}
	}
}
