// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"iter"
	"math/bits"
	"slices"
	"sort"

	"github.com/kernelsym/kernelsym/internal/index"
	"github.com/kernelsym/kernelsym/internal/scratch"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A chooser chooses the answers of the frames that have several: those that their stacks have at each instant of the
// samples (contract 5.5). It changes nothing in the message.
//
//	frame A of a stack       ═══════ A1 ═══════════╪════════ A2 ════════════
//	frame B of the stack     ════════════ B1 ═══════════════╪═════ B2 ══════
//	stack answers            A1 B1                 │ A2 B1  │ A2 B2
//	samples with the stack     t1         t2            t3        t4
//
// All instants at which samples have such stacks are taken in the order of time. While an instant lies in the span
// of the answers before it, nothing is looked up. In the end, samples at t1 and t2 have one stack answer, those at t3
// and t4 two others. The drawings in testdata/split are tests. A frame whose answers differ by role alone has the same one
// in all stack answers of a stack.
//
// A small message can hold many instants and a deep stack that is different at each. The cost is bounded in
// proportion to the size of the message (contract 6.1), far above what any message but a hostile one needs: each
// stack has a budget of its own. If that is spent, all its samples get the answer that does not depend on the
// time, so that other stacks do not pay for it, and another pass over the result has the same result.
type chooser struct {
	pass *pass

	isVarying []bool // by location, whether its frame has several answers
	uses      []stackUse
	useOf     []useIndex // by stack and producer; noUse for none
	positions []stackPosition
	steady    []stackPosition // a buffer
	samples   []varyingSample
	instants  []instant

	spans                []answerSpan // by question
	frameAnswers         []frameAnswer
	frameAnswersByChange index.Index
	stackAnswers         []stackAnswer
	chosen               []frameAnswerIndex // of uses and of stack answers
	stackAnswersByUse    index.Index        // by the use and all answers
	sorter               sorter
}

const (
	noUse         = useIndex(-1)
	noFrameAnswer = frameAnswerIndex(-1)
	noStackAnswer = stackAnswerIndex(-1)
)

// A stackUse is a stack with varying frames, as the samples of one producer have it.
type stackUse struct {
	stack  int32
	first  int // of its positions in chooser.positions
	timed  int // the number of those whose answers depend on the time; they come first
	steady int // the number of the others

	steadyAnswers int // the position in chooser.chosen of their answers, which all stack answers have

	copyCost int // of the stack and its locations at timed positions, in entries
	budget   int // entries that may still be looked up or copied

	span        timeline.Interval // in which the stack answer is the one that was found last,
	stackAnswer stackAnswerIndex  // which this is
	fallback    stackAnswerIndex  // the stack answer for which times do not count, noStackAnswer if it is not known yet
}

// A stackPosition is a varying frame in a stack.
type stackPosition struct {
	position int32
	question questionIndex
}

// A varyingSample is a sample whose stack has varying frames.
type varyingSample struct {
	profile, number int32 // of its profile in the message, and of the sample in that
	attributes      int32 // the number of them
	use             useIndex
	first, instants int // of its instants in chooser.instants, and their number
}

// An instant is a time at which a sample is looked up.
type instant struct {
	at          timeline.Interval
	use         useIndex
	stackAnswer stackAnswerIndex
}

// An answerSpan is the last answer to a question, and the interval in which it is valid.
type answerSpan struct {
	span        timeline.Interval
	frameAnswer frameAnswerIndex
}

// A frameAnswer is one of the answers of a frame.
type frameAnswer struct {
	frame  frameIndex
	answer answer
	isUsed bool
}

// A stackAnswer is the answers of the varying frames of a stack.
type stackAnswer struct {
	use    useIndex
	first  int // of its answers in chooser.chosen: one for each timed position of the use
	isUsed bool
}

// The numbers of entries that an entry of a stack and an instant add to a budget. A stack of up to
// some 60 frames can have other answers at each instant.
const (
	budgetPerEntry   = 8
	budgetPerInstant = 128
)

// choose chooses the answers of the frames that vary, and reports whether there are any.
func (c *chooser) choose(p *pass) (anyVaries bool) {
	if !c.open(p) {
		return false
	}
	c.listUses()
	c.listInstants()
	c.findAnswers()
	c.keepBudgets()
	return true
}

// open begins with a message, and reports whether it has varying frames.
func (c *chooser) open(p *pass) bool {
	c.pass = p
	c.isVarying = scratch.Zeroed(c.isVarying, p.message.Locations.Len())
	questions := 0
	for i := range p.frames {
		if f := &p.frames[i]; f.varies {
			c.isVarying[f.location] = true
			p.roles[f.location] |= isSpecial
			questions += max(1, bits.OnesCount16(uint16(p.rolesOf(f))))
		}
	}
	c.frameAnswers = slices.Grow(c.frameAnswers, questions)
	return questions > 0
}

func (c *chooser) close() {
	clear(c.frameAnswers)
	c.frameAnswersByChange.Clear()
	c.stackAnswersByUse.Clear()
	c.uses, c.positions, c.samples, c.instants = c.uses[:0], c.positions[:0], c.samples[:0], c.instants[:0]
	c.frameAnswers, c.stackAnswers, c.chosen = c.frameAnswers[:0], c.stackAnswers[:0], c.chosen[:0]
}

// listUses lists the stacks that have varying frames.
func (c *chooser) listUses() {
	p := c.pass
	c.useOf = scratch.Filled(c.useOf, len(p.stackProducers)*symbolize.NumProducers, noUse)
	for stack := range int32(p.message.Stacks.Len()) {
		if p.stackProducers[stack] == 0 || !c.hasVarying(stack) {
			continue
		}
		for producer := range symbolize.Producer(symbolize.NumProducers) {
			if p.stackProducers[stack].has(producer) {
				c.listUse(stack, producer)
			}
		}
	}
}

func (c *chooser) hasVarying(stack int32) bool {
	indices := c.pass.message.Stacks.At(stack)
	return slices.ContainsFunc(indices, func(location int32) bool { return c.isVarying[location] })
}

func (c *chooser) listUse(stack int32, producer symbolize.Producer) {
	p := c.pass
	u := stackUse{stack: stack, first: len(c.positions), stackAnswer: noStackAnswer, fallback: noStackAnswer}
	u.copyCost = len(p.message.Stacks.At(stack))
	u.budget = budgetPerEntry * u.copyCost
	c.steady = c.steady[:0]
	p.walkSpecial(stack, producer, func(position int32, frame frameIndex, role symbolize.Role) {
		f := &p.frames[frame]
		if !f.varies {
			return
		}
		at := stackPosition{position, p.questionOf(frame, role)}
		if !p.answers[at.question].varies {
			c.steady = append(c.steady, at)
			return
		}
		c.positions = append(c.positions, at)
		loc := p.message.Locations.At(f.location)
		u.copyCost += loc.AttributeIndices().Len() + loc.Lines().Len()
	})
	u.timed, u.steady, u.steadyAnswers = len(c.positions)-u.first, len(c.steady), len(c.chosen)
	c.positions = append(c.positions, c.steady...)
	for _, at := range c.steady {
		c.chosen = append(c.chosen, c.internAnswer(p.questions.all[at.question].frame, &p.answers[at.question]))
	}
	c.useOf[int(stack)*symbolize.NumProducers+int(producer)] = useIndex(len(c.uses))
	c.uses = append(c.uses, u)
}

// listInstants lists the samples that have these stacks, and their instants.
func (c *chooser) listInstants() {
	p := c.pass
	p.times.whole() // reads the times of the samples, which appendTimes needs
	var at []timeline.Interval
	for of := range p.message.EachProfile() {
		producer := int(p.producers[of.Number])
		samples := of.Profile.Samples()
		for k := range samples.Len() {
			sample := samples.At(k)
			use := c.useOf[int(sample.StackIndex())*symbolize.NumProducers+producer]
			if use == noUse {
				continue
			}
			at = p.times.appendTimes(at[:0], of.Number, sample)
			for _, t := range at {
				c.instants = append(c.instants, instant{at: t, use: use})
			}
			c.samples = append(c.samples, varyingSample{
				profile: int32(of.Number), number: int32(k), attributes: int32(sample.AttributeIndices().Len()),
				use: use, first: len(c.instants) - len(at), instants: len(at),
			})
			c.uses[use].budget += budgetPerInstant * len(at)
		}
	}
}

// eachSample yields the samples with their instants.
func (c *chooser) eachSample() iter.Seq2[*varyingSample, []instant] {
	return func(yield func(*varyingSample, []instant) bool) {
		for i := range c.samples {
			if !yield(&c.samples[i], c.instantsOf(&c.samples[i])) {
				return
			}
		}
	}
}

// samplesOf returns the samples of a profile.
func (c *chooser) samplesOf(profile int) []varyingSample {
	first := sort.Search(len(c.samples), func(i int) bool { return int(c.samples[i].profile) >= profile })
	end := first
	for end < len(c.samples) && int(c.samples[end].profile) == profile {
		end++
	}
	return c.samples[first:end]
}

func (c *chooser) instantsOf(s *varyingSample) []instant { return c.instants[s.first:][:s.instants] }

// findAnswers finds the stack answers of all instants, in the order of time.
func (c *chooser) findAnswers() {
	c.spans = scratch.Zeroed(c.spans, len(c.pass.questions.all))
	const signBit = 1 << 63 // keeps times before 0 in front of the others
	order := c.sorter.sorted(len(c.instants), func(i int) uint64 { return uint64(c.instants[i].at.From) ^ signBit })
	for _, item := range order {
		in := &c.instants[item.position]
		u := &c.uses[in.use]
		if u.stackAnswer == noStackAnswer || !u.span.Holds(in.at) {
			c.answerStack(u, in.use, in.at)
		}
		in.stackAnswer = u.stackAnswer
	}
}

// answerStack finds the stack answer of a use for an interval.
func (c *chooser) answerStack(u *stackUse, use useIndex, during timeline.Interval) {
	if u.budget < 0 {
		u.stackAnswer, u.span = c.fallbackOf(use), timeline.Always
		return
	}
	before := len(c.stackAnswers)
	u.stackAnswer, u.span = c.stackAnswerAt(use, during)
	u.budget -= u.timed
	if len(c.stackAnswers) > before {
		u.budget -= u.copyCost
	}
}

// fallbackOf returns the stack answer of a use for which the times of its samples do not count.
func (c *chooser) fallbackOf(use useIndex) stackAnswerIndex {
	u := &c.uses[use]
	if u.fallback == noStackAnswer {
		u.fallback, _ = c.stackAnswerAt(use, timeline.Always)
	}
	return u.fallback
}

// stackAnswerAt returns the stack answer of a use for an interval, and the span in which it is valid.
func (c *chooser) stackAnswerAt(use useIndex, during timeline.Interval) (at stackAnswerIndex, span timeline.Interval) {
	span = timeline.Always
	first := len(c.chosen)
	for _, position := range c.timedPositions(&c.uses[use]) {
		answer, same := c.answerAt(position.question, during)
		span = span.And(same)
		c.chosen = append(c.chosen, answer)
	}
	return c.internStackAnswer(use, first), span
}

// internStackAnswer returns the stack answer of a use with the answers from a position in c.chosen on.
func (c *chooser) internStackAnswer(use useIndex, first int) stackAnswerIndex {
	answers := c.chosen[first:]
	hash := index.Ints(uint64(use), answers)
	found, ok := c.stackAnswersByUse.Find(hash, func(i int32) bool {
		other := &c.stackAnswers[i]
		return other.use == use && slices.Equal(c.chosen[other.first:][:len(answers)], answers)
	})
	if ok {
		c.chosen = c.chosen[:first]
		return stackAnswerIndex(found)
	}
	at := len(c.stackAnswers)
	c.stackAnswers = append(c.stackAnswers, stackAnswer{use: use, first: first})
	c.stackAnswersByUse.AddNew(hash, int32(at))
	return stackAnswerIndex(at)
}

func (c *chooser) timedPositions(u *stackUse) []stackPosition { return c.positions[u.first:][:u.timed] }

// answersOf yields the positions of the varying frames of a stack, with the frame answers that they have in a stack answer.
func (c *chooser) answersOf(a *stackAnswer) iter.Seq2[int32, frameAnswerIndex] {
	u := &c.uses[a.use]
	return func(yield func(int32, frameAnswerIndex) bool) {
		for i, at := range c.positions[u.first:][:u.timed+u.steady] {
			answer := a.first + i
			if i >= u.timed {
				answer = u.steadyAnswers + i - u.timed
			}
			if !yield(at.position, c.chosen[answer]) {
				return
			}
		}
	}
}

// answerAt returns the answer to a question for an interval, and the span in which it is valid.
func (c *chooser) answerAt(question questionIndex, during timeline.Interval) (at frameAnswerIndex, span timeline.Interval) {
	last := &c.spans[question]
	if last.span.Holds(during) {
		return last.frameAnswer, last.span
	}
	q := &c.pass.questions.all[question]
	var a answer
	span = c.pass.answerTo(&c.pass.frames[q.frame], c.pass.questions.roleOf(q), during, &a)
	at = c.internAnswer(q.frame, &a)
	if span.Holds(during) {
		*last = answerSpan{span, at}
	}
	return at, span
}

func (c *chooser) internAnswer(frame frameIndex, a *answer) frameAnswerIndex {
	hash := index.Mix(uint64(frame), index.Comparable(a.change))
	at, ok := c.frameAnswersByChange.Find(hash, func(i int32) bool {
		return c.frameAnswers[i].frame == frame && c.frameAnswers[i].answer.change == a.change
	})
	if !ok {
		at = int32(len(c.frameAnswers))
		c.frameAnswers = append(c.frameAnswers, frameAnswer{frame: frame, answer: *a})
		c.frameAnswersByChange.AddNew(hash, at)
	}
	return frameAnswerIndex(at)
}

// keepBudgets keeps samples whole whose parts would cost too much, and marks the answers that remain in use.
func (c *chooser) keepBudgets() {
	for sample, instants := range c.eachSample() {
		if c.uses[sample.use].budget < 0 || c.isTooDear(sample, instants) {
			fallback := c.fallbackOf(sample.use)
			for i := range instants {
				instants[i].stackAnswer = fallback
			}
		}
		for i := range instants {
			c.stackAnswers[instants[i].stackAnswer].isUsed = true
		}
	}
	for i := range c.stackAnswers {
		if of := &c.stackAnswers[i]; of.isUsed {
			for _, answer := range c.answersOf(of) {
				c.frameAnswers[answer].isUsed = true
			}
		}
	}
}

// isTooDear reports whether the attributes of a sample would be copied too often.
func (c *chooser) isTooDear(sample *varyingSample, instants []instant) bool {
	changes := 0
	for i := 1; i < len(instants); i++ {
		if instants[i].stackAnswer != instants[i-1].stackAnswer {
			changes++
		}
	}
	return changes*int(sample.attributes) > budgetPerInstant*len(instants)
}
