// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"cmp"
	"iter"
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// splitter serves the frames whose answer depends on how or when they are used
// (contract 5.5). It works in steps: plans, which stacks have such frames; instants, when
// samples have these stacks; combos, the answers that a stack has at an instant; then the
// locations and the stacks that have them.
//
// A small message can hold many instants and a deep stack, of which each instant may need
// another. What that costs is bounded in proportion to the size of the message, far above
// what any but a hostile one needs: frames of samples beyond that are left unresolved
// where it depends on the time. Each stack has a budget of its own, and is served as a
// whole or not, so that others do not pay for it and another pass has the same result.
type splitter struct {
	splitFrames
	stackPlans

	samples  []splitSample
	instants []instant // theirs
	combos   []combo
	byChosen index
	chosen   []int32 // variants, by the combos

	locations index // those of all frames, and what was appended
	stacks    stackIndex
	scratch   pprofile.Location // for a copy

	parts  []int32 // the stacks of a sample's parts
	partOf []int32 // by stack: its position in parts + 1, 0 for none
}

// splitSample is a sample that has a plan's stack.
type splitSample struct {
	of       pprofile.Profile
	sample   pprofile.Sample
	plan     int32
	instants int32 // how many it has
}

// instant is a time at which a sample has a plan's stack.
type instant struct {
	at    timeline.Interval
	plan  int32
	combo int32
	part  int32 // see pointSample
}

// combo is the variants that a stack has at some instants.
type combo struct {
	plan, chosen int32
	used         bool
	to           int32 // the stack that has them
}

func (s *splitter) end() {
	s.splitFrames.end()
	s.stackPlans.end()
	clear(s.samples)
	s.samples, s.instants, s.combos, s.chosen = s.samples[:0], s.instants[:0], s.combos[:0], s.chosen[:0]
	s.locations.built, s.scratch = false, pprofile.Location{}
	s.stacks.end()
}

// bytes returns the size of the memory that is kept.
func (s *splitter) bytes() int {
	return s.splitFrames.bytes() + s.stackPlans.bytes() + bytesOf(s.samples) + bytesOf(s.instants) + bytesOf(s.combos) +
		s.byChosen.bytes() + bytesOf(s.chosen) + s.locations.bytes() + bytesOf(s.parts) + bytesOf(s.partOf) +
		s.stacks.appended.bytes() + s.stacks.all.bytes()
}

// run serves the frames that were added.
func (s *splitter) run(p *pass) {
	if len(s.frames) == 0 {
		return
	}
	p.times.whole()
	for i := range s.frames {
		s.frames[i].question = p.question(&p.frames[s.frames[i].frame])
	}
	s.findPlans(p)
	s.findInstants(p)
	s.choose(p)
	s.settle(p)
	s.writeFrames(p)
	s.pointSamples(p)
}

// findInstants lists the samples that have a plan, and their instants.
func (s *splitter) findInstants(p *pass) {
	var at []timeline.Interval
	i := 0
	p.m.eachProfile(func(_ int, _ string, profile pprofile.Profile) {
		u := int(p.users[i])
		samples := profile.Samples()
		for k := range samples.Len() {
			sample := samples.At(k)
			plan := s.planOf[numUsers*int(sample.StackIndex())+u] - 1
			if plan < 0 {
				continue
			}
			at = p.times.ofSample(at[:0], i, sample)
			for _, t := range at {
				s.instants = append(s.instants, instant{at: t, plan: plan})
			}
			s.samples = append(s.samples, splitSample{of: profile, sample: sample, plan: plan, instants: int32(len(at))})
			s.plans[plan].budget += budgetPerInstant * len(at)
		}
		i++
	})
	for i := range s.plans {
		pl := &s.plans[i]
		depth := p.m.stacks.At(int(pl.stack)).LocationIndices().Len()
		pl.budget += budgetPerEntry * depth
		pl.copying = depth
		for _, place := range s.placesOf(pl) {
			loc := p.m.locations.At(int(p.frames[s.frames[place.frame].frame].loc))
			pl.copying += loc.AttributeIndices().Len() + loc.Lines().Len()
		}
	}
}

// eachSample calls visit for the samples that have a plan, with their instants.
func (s *splitter) eachSample(visit func(sample *splitSample, instants []instant)) {
	rest := s.instants
	for i := range s.samples {
		sample := &s.samples[i]
		visit(sample, rest[:sample.instants])
		rest = rest[sample.instants:]
	}
}

// How many entries, of stacks and of what else has to be looked up or copied, an entry of
// a stack and an instant pay for. A stack that is not deeper than budgetPerInstant can have
// other answers at each instant.
const (
	budgetPerEntry   = 8
	budgetPerInstant = 128
)

// choose finds the combos of the instants: for each plan in the order of time, so that
// instants between two changes cost no more than one.
func (s *splitter) choose(p *pass) {
	for plan, order := range s.byPlan() {
		s.byChosen.reset(len(order))
		slices.SortFunc(order, func(a, b int32) int {
			x, y := s.instants[a].at, s.instants[b].at
			return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To), cmp.Compare(a, b))
		})
		combo, span := int32(-1), timeline.Interval{}
		for _, i := range order {
			in := &s.instants[i]
			if combo < 0 || !span.Holds(in.at) {
				combo, span = s.comboAt(p, plan, in.at)
			}
			in.combo = combo
		}
	}
}

// byPlan yields the plans with the positions of their instants.
func (s *splitter) byPlan() iter.Seq2[int32, []int32] {
	ends := make([]int32, len(s.plans)+1)
	for i := range s.instants {
		ends[s.instants[i].plan+1]++
	}
	for i := range s.plans {
		ends[i+1] += ends[i]
	}
	order := make([]int32, len(s.instants))
	next := slices.Clone(ends)
	for i := range s.instants {
		plan := s.instants[i].plan
		order[next[plan]] = int32(i)
		next[plan]++
	}
	return func(yield func(int32, []int32) bool) {
		for i := range s.plans {
			if !yield(int32(i), order[ends[i]:ends[i+1]]) {
				return
			}
		}
	}
}

// settle leaves samples undivided whose parts would cost too much, and notes which combos
// and variants are used in the end.
func (s *splitter) settle(p *pass) {
	s.eachSample(func(sample *splitSample, instants []instant) {
		changes := 0
		for i := 1; i < len(instants); i++ {
			if instants[i].combo != instants[i-1].combo {
				changes++
			}
		}
		dear := changes > 0 && changes*sample.sample.AttributeIndices().Len() > budgetPerInstant*len(instants)
		if dear || s.plans[sample.plan].budget < 0 {
			combo := s.fallback(p, sample.plan)
			for i := range instants {
				instants[i].combo = combo
			}
		}
		for i := range instants {
			s.combos[instants[i].combo].used = true
		}
	})
	for _, c := range s.combos {
		if c.used {
			for i := range s.placesOf(&s.plans[c.plan]) {
				s.variants[s.chosen[int(c.chosen)+i]].used = true
			}
		}
	}
}

// fallback returns the combo of a plan for which the times of its samples do not count.
func (s *splitter) fallback(p *pass, plan int32) int32 {
	pl := &s.plans[plan]
	if pl.fallback < 0 {
		pl.fallback, _ = s.choice(p, plan, timeline.Always)
	}
	return pl.fallback
}

// comboAt returns the combo of a plan at a time, and for how long it is the same.
func (s *splitter) comboAt(p *pass, plan int32, during timeline.Interval) (combo int32, span timeline.Interval) {
	pl := &s.plans[plan]
	if pl.budget < 0 {
		return s.fallback(p, plan), timeline.Always
	}
	combos := len(s.combos)
	combo, span = s.choice(p, plan, during)
	pl.budget -= int(pl.count)
	if len(s.combos) > combos {
		pl.budget -= pl.copying
	}
	return combo, span
}

// choice is comboAt without a look at the budget.
func (s *splitter) choice(p *pass, plan int32, during timeline.Interval) (at int32, span timeline.Interval) {
	pl := &s.plans[plan]
	begin := len(s.chosen)
	span = timeline.Always
	for _, place := range s.placesOf(pl) {
		v, same := s.variantAt(p, place, during)
		s.chosen = append(s.chosen, v)
		span.From, span.To = max(span.From, same.From), min(span.To, same.To)
	}
	chosen := s.chosen[begin:]
	hash := hashIndices(uint64(plan), chosen)
	at, known := s.byChosen.find(hash, func(pos int32) bool {
		c := &s.combos[pos]
		return c.plan == plan && slices.Equal(s.chosen[c.chosen:int(c.chosen)+len(chosen)], chosen)
	})
	if known {
		s.chosen = s.chosen[:begin]
		return at, span
	}
	at = int32(len(s.combos))
	s.combos = append(s.combos, combo{plan: plan, chosen: int32(begin)})
	s.byChosen.addNew(hash, at)
	return at, span
}
