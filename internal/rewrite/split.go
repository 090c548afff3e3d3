// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"iter"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/index"
	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/scratch"
)

// A splitter writes what the chooser chose: a frame's further answers to copies of its location, and these to copies of
// the stacks. Samples at the instants of one stack answer have one stack; if the timestamps of one sample have several,
// that is divided.
type splitter struct {
	pass *pass

	written []writtenAnswer // by frame answer
	stacks  []int32         // by stack answer, the stack that has these answers

	addresses index.Index // the addresses of copies, by the position of one of these
	counted   index.Index // answers that were counted
	sorter    sorter

	samples []pprofile.SampleSlice // by profile

	parts  []int32 // the stacks of the parts of a sample
	partOf []int32 // by stack, the position in parts; noPart for none
	buffer []int32
}

const noPart = int32(-1)

// A writtenAnswer is where a frame answer is written.
type writtenAnswer struct {
	location int32             // valid once all are written
	own      bool              // it is the location of the frame, or reads like it
	copied   pprofile.Location // else, the copy in which it is written
	gave     inline.Result     // see writer.write
}

// splitFrames splits the locations, stacks and samples of the frames that vary (contract 5.5).
func (p *pass) splitFrames() {
	s := &p.split
	s.pass = p
	s.written = scratch.Zeroed(s.written, len(p.choices.frameAnswers))
	s.writeAnswers()
	s.pointSamples()
}

func (s *splitter) close() {
	clear(s.written)
	clear(s.samples)
	s.written, s.samples = s.written[:0], s.samples[:0]
	s.counted.Clear()
}

// writeAnswers gives each answer that is in use a location: one keeps the location of the frame, the others get
// copies. The copies become new locations after all frames are written, as a copy can be equal to one of these.
func (s *splitter) writeAnswers() {
	all := s.pass.choices.frameAnswers
	byFrame := s.sorter.sorted(len(all), func(i int) uint64 { return uint64(all[i].frame) })
	for answers := range s.eachFrame(byFrame) {
		s.writeFrame(answers)
	}
	s.indexCopies()
	s.findLikeCopies()
	for i := range all {
		if all[i].isUsed {
			s.placeAnswer(frameAnswerIndex(i))
			s.countAnswer(frameAnswerIndex(i))
		}
	}
}

// writeFrame writes the answers of a frame: one to its location, the others to copies.
func (s *splitter) writeFrame(answers []sortItem) {
	own := s.ownAnswer(answers)
	if own == noFrameAnswer {
		return
	}
	p := s.pass
	all := p.choices.frameAnswers
	f := &p.frames[all[own].frame]
	loc := p.message.Locations.At(f.location)
	for _, item := range answers {
		if at := frameAnswerIndex(item.position); all[at].isUsed && at != own {
			w := &s.written[at]
			w.copied = pprofile.NewLocation()
			loc.CopyTo(w.copied)
			w.gave = p.writer.write(w.copied, f, &all[at].answer)
		}
	}
	s.written[own] = writtenAnswer{own: true, gave: p.writer.write(loc, f, &all[own].answer)}
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
// one, and noFrameAnswer if none is in use.
func (s *splitter) ownAnswer(answers []sortItem) (own frameAnswerIndex) {
	own = noFrameAnswer
	for _, item := range answers {
		switch a := &s.pass.choices.frameAnswers[item.position]; {
		case !a.isUsed:
		case a.answer.change.kind == leaveUntouched:
			return frameAnswerIndex(item.position)
		case own == noFrameAnswer:
			own = frameAnswerIndex(item.position)
		}
	}
	return own
}

// placeAnswer finds the location of an answer: that of the frame, another with the same content, or a new one.
func (s *splitter) placeAnswer(at frameAnswerIndex) {
	p, w := s.pass, &s.written[at]
	if w.own {
		w.location = s.frameOf(at).location
		return
	}
	location, appended := p.message.Locations.Intern(w.copied)
	w.location, p.writer.changed = location, p.writer.changed || appended
}

// frameOf returns the frame of a frame answer.
func (s *splitter) frameOf(at frameAnswerIndex) *frame {
	return &s.pass.frames[s.pass.choices.frameAnswers[at].frame]
}

// indexCopies indexes the addresses of copies. A copy that turned out equal to the location of its frame is none.
func (s *splitter) indexCopies() {
	s.addresses.Clear()
	for i := range s.written {
		w := &s.written[i]
		if w.own || !s.pass.choices.frameAnswers[i].isUsed {
			continue
		}
		w.own = s.pass.message.Locations.At(s.frameOf(frameAnswerIndex(i)).location).Equal(w.copied)
		if !w.own && !s.isCopyAt(w.copied.Address()) {
			s.addresses.AddNew(hashOfAddress(w.copied.Address()), int32(i))
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
	_, ok := s.addresses.Find(hashOfAddress(address), func(i int32) bool { return s.written[i].copied.Address() == address })
	return ok
}

func hashOfAddress(address uint64) uint64 { return index.Mix(0, address) }

// countAnswer counts a frame with an answer, unless it was counted with the same outcome at the same location: then
// the answers read the same, as for two loads of one module.
func (s *splitter) countAnswer(at frameAnswerIndex) {
	p := s.pass
	all := p.choices.frameAnswers
	a, f, w := &all[at].answer, s.frameOf(at), &s.written[at]
	outcome := f.outcome(a)
	hash := index.Ints(0, []int32{int32(all[at].frame), w.location, int32(outcome)})
	if _, ok := s.counted.Find(hash, func(i int32) bool {
		return all[i].frame == all[at].frame && s.written[i].location == w.location && f.outcome(&all[i].answer) == outcome
	}); ok {
		return
	}
	s.counted.AddNew(hash, int32(at))
	p.count(f, a)
	p.countPack(w.gave)
}

// pointSamples gives the samples the stacks that have their answers.
func (s *splitter) pointSamples() {
	c := &s.pass.choices
	s.stacks = scratch.Resized(s.stacks, len(c.stackAnswers))
	for i := range c.stackAnswers {
		if of := &c.stackAnswers[i]; of.isUsed {
			s.stacks[i] = s.stackWith(of)
		}
	}
	s.partOf = scratch.Filled(s.partOf, s.pass.message.Stacks.Len(), noPart)
	s.samples = s.samples[:0]
	for of := range s.pass.message.EachProfile() {
		s.samples = append(s.samples, of.Profile.Samples())
	}
	for sample, instants := range c.eachSample() {
		s.pointSample(s.samples[sample.profile], int(sample.number), instants)
	}
}

// stackWith returns the index of the stack that has the locations of a stack answer.
func (s *splitter) stackWith(of *stackAnswer) int32 {
	p := s.pass
	u := &p.choices.uses[of.use]
	s.buffer = append(s.buffer[:0], p.message.Stacks.At(u.stack)...)
	isChanged, isNew := false, false
	for position, answer := range p.choices.answersOf(of) {
		location := s.written[answer].location
		isChanged = isChanged || location != s.buffer[position]
		isNew = isNew || int(location) >= len(p.frameOf)
		s.buffer[position] = location
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
func (s *splitter) pointSample(samples pprofile.SampleSlice, number int, instants []instant) {
	s.parts = s.parts[:0]
	for i := range instants {
		stack := s.stacks[instants[i].stackAnswer]
		if s.partOf[stack] == noPart {
			s.partOf[stack] = int32(len(s.parts))
			s.parts = append(s.parts, stack)
		}
	}
	sample := samples.At(number)
	switch {
	case len(s.parts) > 1:
		s.divide(samples, sample, instants)
	case s.parts[0] == sample.StackIndex():
		s.partOf[s.parts[0]] = noPart
		return
	}
	s.pass.writer.changed = true
	sample.SetStackIndex(s.parts[0])
	for _, stack := range s.parts {
		s.partOf[stack] = noPart
	}
}

// divide moves the parts of a sample but the first one to new samples behind all others.
func (s *splitter) divide(samples pprofile.SampleSlice, sample pprofile.Sample, instants []instant) {
	stamps, values := sample.TimestampsUnixNano().AsRaw(), sample.Values().AsRaw()
	sample.TimestampsUnixNano().FromRaw(nil)
	sample.Values().FromRaw(nil)
	first := samples.Len() - 1 // the place of part 0, if it were a new sample
	for _, stack := range s.parts[1:] {
		part := samples.AppendEmpty()
		sample.CopyTo(part)
		part.SetStackIndex(stack)
	}
	for i := range instants {
		part := sample
		if n := int(s.partOf[s.stacks[instants[i].stackAnswer]]); n > 0 {
			part = samples.At(first + n)
		}
		part.TimestampsUnixNano().Append(stamps[i])
		if len(values) > 0 {
			part.Values().Append(values[i])
		}
	}
}
