// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"iter"
	"math/bits"
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/index"
	"github.com/kernelsym/kernelsym/internal/scratch"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A splitter serves the frames with several answers: the stacks that contain them are split.
//
//	frame A of a stack       ═══════ A1 ═══════════╪════════ A2 ════════════
//	frame B of the stack     ════════════ B1 ═══════════════╪═════ B2 ══════
//	stack answers            A1 B1                 │ A2 B1  │ A2 B2
//	samples with the stack     t1         t2            t3        t4
//
// All instants at which samples have such stacks are taken in the order of time. While an instant lies in the span
// of the answers before it, nothing is looked up. In the end, samples at t1 and t2 have one stack, those at t3 and
// t4 two others; if t1 to t4 are the timestamps of one sample, that is divided.
//
// A small message can hold many instants and a deep stack that is different at each. The cost is bounded in
// proportion to the size of the message (contract 6.1), far above what any message but a hostile one needs: each
// stack has a budget of its own. If that is spent, all its samples get the answer that does not depend on the
// time, so that other stacks do not pay for it, and another pass over the result has the same result.
type splitter struct {
	pass *pass

	isVarying []bool // by location, whether its frame has several answers
	uses      []stackUse
	useOf     []int32 // by stack and producer, the position in uses; noUse for none
	positions []stackPosition
	samples   []splitSample
	instants  []instant

	spans                []answerSpan // by question
	frameAnswers         []frameAnswer
	frameAnswersByChange index.Index
	stackAnswers         []stackAnswer
	chosen               []int32     // frame answers, by their positions
	stackAnswersByUse    index.Index // by the use and all answers
	addresses            index.Index // the addresses of copies, by the position of one of these
	counted              index.Index // answers that were counted
	sorter               sorter

	parts  []int32 // the stacks of the parts of a sample
	partOf []int32 // by stack, the position in parts; noPart for none
	buffer []int32
}

const (
	noUse   = int32(-1)
	noPart  = int32(-1)
	noStack = int32(-1) // no stackAnswer
)

// A stackUse is a stack with varying frames, as the samples of one producer have it.
type stackUse struct {
	stack            int32
	first, positions int // of its positions in splitter.positions, and their number

	copyCost int // of the stack and its varying locations, in entries
	budget   int // entries that may still be looked up or copied

	span        timeline.Interval // in which the stack answer is the one that was found last,
	stackAnswer int32             // which this is
	fallback    int32             // the stack answer for which times do not count, noStack if it is not known yet
}

// A stackPosition is a varying frame in a stack.
type stackPosition struct{ position, question int32 }

// A splitSample is a sample whose stack has varying frames.
type splitSample struct {
	profile  pprofile.Profile
	sample   pprofile.Sample
	use      int32
	instants int // the number of its instants
}

// An instant is a time at which a sample is looked up.
type instant struct {
	at          timeline.Interval
	use         int32
	stackAnswer int32
}

// An answerSpan is the last answer to a question, and the interval in which it is valid.
type answerSpan struct {
	span        timeline.Interval
	frameAnswer int32
}

// A frameAnswer is one of the answers of a frame.
type frameAnswer struct {
	frame    int32
	answer   answer
	isUsed   bool
	location int32 // where it is written; valid once all are

	own        bool              // it keeps the location of the frame, or reads like it
	copied     pprofile.Location // else, the copy in which it is written
	packCounts bool              // see writer.write
}

// A stackAnswer is the answers of the varying frames of a stack.
type stackAnswer struct {
	use    int32
	first  int // of its answers in splitter.chosen: one for each position of the use
	isUsed bool
	stack  int32 // that has these answers; valid once all are written
}

// The numbers of entries that an entry of a stack and an instant add to a budget. A stack of up to
// some 60 frames can have other answers at each instant.
const (
	budgetPerEntry   = 8
	budgetPerInstant = 128
)

// splitFrames splits the locations, stacks and samples of the frames that vary (contract 5.5).
func (p *pass) splitFrames() {
	s := &p.split
	if !s.open(p) {
		return
	}
	s.listUses()
	s.listInstants()
	s.findAnswers()
	s.chooseAnswers()
	s.writeAnswers()
	s.pointSamples()
}

// open begins with a message, and reports whether it has varying frames.
func (s *splitter) open(p *pass) bool {
	s.pass = p
	s.isVarying = scratch.Zeroed(s.isVarying, p.message.Locations.Len())
	questions := 0
	for i := range p.frames {
		if f := &p.frames[i]; f.varies {
			s.isVarying[f.location] = true
			p.roles[f.location] |= isSpecial
			questions += max(1, bits.OnesCount16(uint16(p.rolesOf(f))))
		}
	}
	s.frameAnswers = slices.Grow(s.frameAnswers, questions)
	return questions > 0
}

func (s *splitter) close() {
	clear(s.samples)
	clear(s.frameAnswers)
	s.frameAnswersByChange.Clear()
	s.stackAnswersByUse.Clear()
	s.counted.Clear()
	s.uses, s.positions, s.samples, s.instants = s.uses[:0], s.positions[:0], s.samples[:0], s.instants[:0]
	s.frameAnswers, s.stackAnswers, s.chosen = s.frameAnswers[:0], s.stackAnswers[:0], s.chosen[:0]
}

// listUses lists the stacks that have varying frames.
func (s *splitter) listUses() {
	p := s.pass
	s.useOf = scratch.Filled(s.useOf, len(p.stackProducers)*symbolize.NumProducers, noUse)
	for stack := range int32(p.message.Stacks.Len()) {
		if p.stackProducers[stack] == 0 || !s.hasVarying(stack) {
			continue
		}
		for producer := range symbolize.Producer(symbolize.NumProducers) {
			if p.stackProducers[stack].has(producer) {
				s.listUse(stack, producer)
			}
		}
	}
}

func (s *splitter) hasVarying(stack int32) bool {
	indices := s.pass.message.Stacks.At(stack)
	return slices.ContainsFunc(indices, func(location int32) bool { return s.isVarying[location] })
}

func (s *splitter) listUse(stack int32, producer symbolize.Producer) {
	p := s.pass
	u := stackUse{stack: stack, first: len(s.positions), stackAnswer: noStack, fallback: noStack}
	u.copyCost = len(p.message.Stacks.At(stack))
	u.budget = budgetPerEntry * u.copyCost
	p.walkSpecial(stack, producer, func(position, frame int32, role symbolize.Role) {
		f := &p.frames[frame]
		if !f.varies {
			return
		}
		s.positions = append(s.positions, stackPosition{position, p.questionOf(frame, role)})
		loc := p.message.Locations.At(f.location)
		u.copyCost += loc.AttributeIndices().Len() + loc.Lines().Len()
	})
	u.positions = len(s.positions) - u.first
	s.useOf[int(stack)*symbolize.NumProducers+int(producer)] = int32(len(s.uses))
	s.uses = append(s.uses, u)
}

func (s *splitter) positionsOf(u *stackUse) []stackPosition {
	return s.positions[u.first:][:u.positions]
}

// listInstants lists the samples that have these stacks, and their instants.
func (s *splitter) listInstants() {
	p := s.pass
	p.times.whole() // reads the times of the samples, which appendTimes needs
	var at []timeline.Interval
	for of := range p.message.EachProfile() {
		producer := int(p.producers[of.Number])
		samples := of.Profile.Samples()
		for k := range samples.Len() {
			sample := samples.At(k)
			use := s.useOf[int(sample.StackIndex())*symbolize.NumProducers+producer]
			if use == noUse {
				continue
			}
			at = p.times.appendTimes(at[:0], of.Number, sample)
			for _, t := range at {
				s.instants = append(s.instants, instant{at: t, use: use})
			}
			s.samples = append(s.samples, splitSample{of.Profile, sample, use, len(at)})
			s.uses[use].budget += budgetPerInstant * len(at)
		}
	}
}

// eachSample yields the samples with their instants.
func (s *splitter) eachSample() iter.Seq2[*splitSample, []instant] {
	return func(yield func(*splitSample, []instant) bool) {
		rest := s.instants
		for i := range s.samples {
			sample := &s.samples[i]
			if !yield(sample, rest[:sample.instants]) {
				return
			}
			rest = rest[sample.instants:]
		}
	}
}

// findAnswers finds the stack answers of all instants, in the order of time.
func (s *splitter) findAnswers() {
	s.spans = scratch.Zeroed(s.spans, len(s.pass.questions.all))
	const signBit = 1 << 63 // keeps times before 0 in front of the others
	order := s.sorter.sorted(len(s.instants), func(i int) uint64 { return uint64(s.instants[i].at.From) ^ signBit })
	for _, item := range order {
		in := &s.instants[item.position]
		u := &s.uses[in.use]
		if u.stackAnswer == noStack || !u.span.Holds(in.at) {
			s.answerStack(u, in.use, in.at)
		}
		in.stackAnswer = u.stackAnswer
	}
}

// answerStack finds the stack answer of a use for an interval.
func (s *splitter) answerStack(u *stackUse, use int32, during timeline.Interval) {
	if u.budget < 0 {
		u.stackAnswer, u.span = s.fallbackOf(use), timeline.Always
		return
	}
	before := len(s.stackAnswers)
	u.stackAnswer, u.span = s.stackAnswerAt(use, during)
	u.budget -= u.positions
	if len(s.stackAnswers) > before {
		u.budget -= u.copyCost
	}
}

// fallbackOf returns the stack answer of a use for which the times of its samples do not count.
func (s *splitter) fallbackOf(use int32) int32 {
	u := &s.uses[use]
	if u.fallback == noStack {
		u.fallback, _ = s.stackAnswerAt(use, timeline.Always)
	}
	return u.fallback
}

// stackAnswerAt returns the stack answer of a use for an interval, and the span in which it is valid.
func (s *splitter) stackAnswerAt(use int32, during timeline.Interval) (at int32, span timeline.Interval) {
	span = timeline.Always
	first := len(s.chosen)
	for _, position := range s.positionsOf(&s.uses[use]) {
		answer, same := s.answerAt(position.question, during)
		span = span.And(same)
		s.chosen = append(s.chosen, answer)
	}
	return s.internStackAnswer(use, first), span
}

// internStackAnswer returns the stack answer of a use with the answers from a position in s.chosen on.
func (s *splitter) internStackAnswer(use int32, first int) int32 {
	answers := s.chosen[first:]
	hash := index.Ints(uint64(use), answers)
	at, ok := s.stackAnswersByUse.Find(hash, func(i int32) bool {
		other := &s.stackAnswers[i]
		return other.use == use && slices.Equal(s.frameAnswersOf(other), answers)
	})
	if ok {
		s.chosen = s.chosen[:first]
		return at
	}
	at = int32(len(s.stackAnswers))
	s.stackAnswers = append(s.stackAnswers, stackAnswer{use: use, first: first})
	s.stackAnswersByUse.AddNew(hash, at)
	return at
}

// frameAnswersOf returns the frame answers of a stack answer, one for each position of its use.
func (s *splitter) frameAnswersOf(a *stackAnswer) []int32 {
	return s.chosen[a.first:][:s.uses[a.use].positions]
}

// answerAt returns the answer to a question for an interval, and the span in which it is valid.
func (s *splitter) answerAt(question int32, during timeline.Interval) (at int32, span timeline.Interval) {
	last := &s.spans[question]
	if last.span.Holds(during) {
		return last.frameAnswer, last.span
	}
	q := &s.pass.questions.all[question]
	var a answer
	span = s.pass.answerTo(&s.pass.frames[q.frame], s.pass.questions.roleOf(q), during, &a)
	at = s.internAnswer(q.frame, &a)
	if span.Holds(during) {
		*last = answerSpan{span, at}
	}
	return at, span
}

func (s *splitter) internAnswer(frame int32, a *answer) int32 {
	hash := index.Mix(uint64(frame), index.Comparable(a.change))
	at, ok := s.frameAnswersByChange.Find(hash, func(i int32) bool {
		return s.frameAnswers[i].frame == frame && s.frameAnswers[i].answer.change == a.change
	})
	if !ok {
		at = int32(len(s.frameAnswers))
		s.frameAnswers = append(s.frameAnswers, frameAnswer{frame: frame, answer: *a})
		s.frameAnswersByChange.AddNew(hash, at)
	}
	return at
}

// chooseAnswers keeps samples whole whose parts would cost too much, and marks the answers that remain in use.
func (s *splitter) chooseAnswers() {
	for sample, instants := range s.eachSample() {
		if s.uses[sample.use].budget < 0 || s.isTooDear(sample, instants) {
			fallback := s.fallbackOf(sample.use)
			for i := range instants {
				instants[i].stackAnswer = fallback
			}
		}
		for i := range instants {
			s.stackAnswers[instants[i].stackAnswer].isUsed = true
		}
	}
	for i := range s.stackAnswers {
		if of := &s.stackAnswers[i]; of.isUsed {
			for _, answer := range s.frameAnswersOf(of) {
				s.frameAnswers[answer].isUsed = true
			}
		}
	}
}

// isTooDear reports whether the attributes of a sample would be copied too often.
func (s *splitter) isTooDear(sample *splitSample, instants []instant) bool {
	changes := 0
	for i := 1; i < len(instants); i++ {
		if instants[i].stackAnswer != instants[i-1].stackAnswer {
			changes++
		}
	}
	return changes*sample.sample.AttributeIndices().Len() > budgetPerInstant*len(instants)
}

// writeAnswers gives each answer that is in use a location: one keeps the location of the frame, the others get
// copies. The copies become new locations after all frames are written, as a copy can be equal to one of these.
func (s *splitter) writeAnswers() {
	byFrame := s.sorter.sorted(len(s.frameAnswers), func(i int) uint64 { return uint64(s.frameAnswers[i].frame) })
	for answers := range s.eachFrame(byFrame) {
		s.writeFrame(answers)
	}
	s.indexCopies()
	s.findLikeCopies()
	for i := range s.frameAnswers {
		if a := &s.frameAnswers[i]; a.isUsed {
			s.placeAnswer(a)
			s.countAnswer(int32(i))
		}
	}
}

// writeFrame writes the answers of a frame: one to its location, the others to copies.
func (s *splitter) writeFrame(answers []sortItem) {
	own := s.ownAnswer(answers)
	if own == nil {
		return
	}
	p := s.pass
	f := &p.frames[own.frame]
	loc := p.message.Locations.At(f.location)
	for _, item := range answers {
		if a := &s.frameAnswers[item.position]; a.isUsed && a != own {
			a.copied = pprofile.NewLocation()
			loc.CopyTo(a.copied)
			a.packCounts = p.writer.write(a.copied, f, &a.answer)
		}
	}
	own.own = true
	own.packCounts = p.writer.write(loc, f, &own.answer)
}

// eachFrame yields the answers of each frame.
func (s *splitter) eachFrame(byFrame []sortItem) iter.Seq[[]sortItem] {
	return func(yield func([]sortItem) bool) {
		for len(byFrame) > 0 {
			n := 1
			for n < len(byFrame) && byFrame[n].key == byFrame[0].key {
				n++
			}
			if !yield(byFrame[:n]) {
				return
			}
			byFrame = byFrame[n:]
		}
	}
}

// ownAnswer returns the answer that keeps the location of its frame: one that leaves it untouched, else the first
// one, and nil if none is in use.
func (s *splitter) ownAnswer(answers []sortItem) (own *frameAnswer) {
	for _, item := range answers {
		switch a := &s.frameAnswers[item.position]; {
		case !a.isUsed:
		case a.answer.change.kind == leaveUntouched:
			return a
		case own == nil:
			own = a
		}
	}
	return own
}

// placeAnswer finds the location of an answer: that of the frame, another with the same content, or a new one.
func (s *splitter) placeAnswer(a *frameAnswer) {
	p := s.pass
	if a.own {
		a.location = p.frames[a.frame].location
		return
	}
	location, appended := p.message.Locations.Intern(a.copied)
	a.location, p.writer.changed = location, p.writer.changed || appended
}

// indexCopies indexes the addresses of copies. A copy that turned out equal to the location of its frame is none.
func (s *splitter) indexCopies() {
	s.addresses.Clear()
	for i := range s.frameAnswers {
		a := &s.frameAnswers[i]
		if !a.isUsed || a.own {
			continue
		}
		a.own = s.pass.message.Locations.At(s.pass.frames[a.frame].location).Equal(a.copied)
		if !a.own && !s.isCopyAt(a.copied.Address()) {
			s.addresses.AddNew(hashOfAddress(a.copied.Address()), int32(i))
		}
	}
}

// findLikeCopies makes the locations of frames findable that have the address of a copy: only these can be equal to one.
// Most messages have few copies, and reading an address costs less than hashing the whole location.
func (s *splitter) findLikeCopies() {
	if s.addresses.Len() == 0 {
		return
	}
	for i := range s.pass.frames {
		location := s.pass.frames[i].location
		if s.isCopyAt(s.pass.message.Locations.At(location).Address()) {
			s.pass.message.Locations.MakeFindable(location)
		}
	}
}

// isCopyAt reports whether a copy that was indexed has an address.
func (s *splitter) isCopyAt(address uint64) bool {
	_, ok := s.addresses.Find(hashOfAddress(address), func(i int32) bool { return s.frameAnswers[i].copied.Address() == address })
	return ok
}

func hashOfAddress(address uint64) uint64 { return index.Mix(0, address) }

// countAnswer counts a frame with an answer, unless it was counted with the same outcome at the same location: then
// the answers read the same, as for two loads of one module.
func (s *splitter) countAnswer(at int32) {
	p := s.pass
	a := &s.frameAnswers[at]
	f := &p.frames[a.frame]
	outcome := f.outcome(&a.answer)
	hash := index.Ints(0, []int32{a.frame, a.location, int32(outcome)})
	if _, ok := s.counted.Find(hash, func(i int32) bool {
		other := &s.frameAnswers[i]
		return other.frame == a.frame && other.location == a.location && f.outcome(&other.answer) == outcome
	}); ok {
		return
	}
	s.counted.AddNew(hash, at)
	p.count(f, &a.answer)
	if a.packCounts {
		p.gave[a.answer.gave]++
	}
}

// pointSamples gives the samples the stacks that have their answers.
func (s *splitter) pointSamples() {
	for i := range s.stackAnswers {
		if of := &s.stackAnswers[i]; of.isUsed {
			of.stack = s.stackWith(of)
		}
	}
	s.partOf = scratch.Filled(s.partOf, s.pass.message.Stacks.Len(), noPart)
	for sample, instants := range s.eachSample() {
		s.pointSample(sample, instants)
	}
}

// stackWith returns the index of the stack that has the locations of a stack answer.
func (s *splitter) stackWith(of *stackAnswer) int32 {
	p := s.pass
	u := &s.uses[of.use]
	s.buffer = append(s.buffer[:0], p.message.Stacks.At(u.stack)...)
	isChanged, isNew := false, false
	answers := s.frameAnswersOf(of)
	for i, at := range s.positionsOf(u) {
		location := s.frameAnswers[answers[i]].location
		isChanged = isChanged || location != s.buffer[at.position]
		isNew = isNew || int(location) >= len(p.frameOf)
		s.buffer[at.position] = location
	}
	if !isChanged {
		return u.stack
	}
	stack, appended := p.message.Stacks.Intern(s.buffer, isNew)
	p.writer.changed = p.writer.changed || appended
	return stack
}

// pointSample gives a sample the stack of its instants. If these have several, it is divided: the first stack keeps
// the sample, and the parts of the others are moved to new ones.
func (s *splitter) pointSample(sample *splitSample, instants []instant) {
	s.parts = s.parts[:0]
	for i := range instants {
		stack := s.stackAnswers[instants[i].stackAnswer].stack
		if s.partOf[stack] == noPart {
			s.partOf[stack] = int32(len(s.parts))
			s.parts = append(s.parts, stack)
		}
	}
	switch {
	case len(s.parts) > 1:
		s.divide(sample, instants)
	case s.parts[0] == sample.sample.StackIndex():
		s.partOf[s.parts[0]] = noPart
		return
	}
	s.pass.writer.changed = true
	sample.sample.SetStackIndex(s.parts[0])
	for _, stack := range s.parts {
		s.partOf[stack] = noPart
	}
}

func (s *splitter) divide(of *splitSample, instants []instant) {
	sample := of.sample
	stamps, values := sample.TimestampsUnixNano().AsRaw(), sample.Values().AsRaw()
	sample.TimestampsUnixNano().FromRaw(nil)
	sample.Values().FromRaw(nil)
	others := of.profile.Samples()
	first := others.Len() - 1 // the place of part 0, if it were a new sample
	for _, stack := range s.parts[1:] {
		part := others.AppendEmpty()
		sample.CopyTo(part)
		part.SetStackIndex(stack)
	}
	for i := range instants {
		part := sample
		if n := int(s.partOf[s.stackAnswers[instants[i].stackAnswer].stack]); n > 0 {
			part = others.At(first + n)
		}
		part.TimestampsUnixNano().Append(stamps[i])
		if len(values) > 0 {
			part.Values().Append(values[i])
		}
	}
}
