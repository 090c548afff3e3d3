// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// splitFrames is the frames whose answer depends on how or when they are used, and the
// answers that they have.
type splitFrames struct {
	frames   []splitFrame
	slot     []int32 // by frame of the pass: its position in frames + 1, 0 for none
	variants []variant
	byAnswer map[frameAnswer]int32 // variants of frames that have many
	counted  []counted             // by location
}

type splitFrame struct {
	frame    int32
	question question          // but for the use
	original pprofile.Location // as it came
	first    int32             // of its variants, -1 for none
	count    int32
	memos    []memo // answers, the last ones
	next     int    // the one that is replaced next
}

type memo struct {
	span    timeline.Interval
	variant int32
	how     use
}

// variant is an answer to a frame.
type variant struct {
	answer answer
	frame  int32 // position in the split frames
	used   bool
	loc    int32 // that has it, -1 while none has
	next   int32 // of the same frame, -1 for none
}

type frameAnswer struct {
	frame  int32
	answer written
}

// counted is the outcomes that a location was counted with, for the split frame at this
// position + 1.
type counted struct {
	frame    int32
	outcomes uint8 // a bit for each
}

func (s *splitFrames) begin(frames int) { s.slot = zeroed(s.slot, frames) }

func (s *splitFrames) end() {
	for i := range s.frames {
		s.frames[i] = splitFrame{memos: s.frames[i].memos[:0]}
	}
	clear(s.variants)
	s.byAnswer = nil
	s.frames, s.variants = s.frames[:0], s.variants[:0]
}

func (s *splitFrames) bytes() int {
	n := bytesOf(s.frames) + bytesOf(s.slot) + bytesOf(s.variants) + bytesOf(s.counted)
	for _, f := range s.frames[:cap(s.frames)] {
		n += bytesOf(f.memos)
	}
	return n
}

// add adds a frame of the pass.
func (s *splitFrames) add(frame int32) {
	n := len(s.frames)
	s.frames = slices.Grow(s.frames, 1)[:n+1]
	s.frames[n].frame, s.frames[n].first = frame, -1 // the rest is cleared, but for memory
	s.slot[frame] = int32(len(s.frames))
}

// variantAt returns the variant of a frame at a time, and for how long it is the same.
func (s *splitFrames) variantAt(p *pass, pl place, during timeline.Interval) (v int32, span timeline.Interval) {
	f := &s.frames[pl.frame]
	for i := range f.memos {
		if m := &f.memos[i]; m.how == pl.how && m.span.Holds(during) {
			return m.variant, m.span
		}
	}
	q := f.question
	q.how = pl.how
	a, span := p.r.answer(q, during)
	v = s.variantWith(pl.frame, a)
	if span.Holds(during) {
		m := memo{how: pl.how, span: span, variant: v}
		if len(f.memos) < maxMemos {
			f.memos = append(f.memos, m)
		} else {
			f.memos[f.next%maxMemos] = m
			f.next++
		}
	}
	return v, span
}

// maxMemos is the number of answers that are remembered of a frame.
const maxMemos = 16

// fewVariants is the number of variants up to which a frame's are looked through.
const fewVariants = 8

func (s *splitFrames) variantWith(frame int32, a answer) int32 {
	f := &s.frames[frame]
	key := frameAnswer{frame, a.written}
	if f.count > fewVariants {
		if v, ok := s.byAnswer[key]; ok {
			return v
		}
	} else {
		for v := f.first; v >= 0; v = s.variants[v].next {
			if s.variants[v].answer.written == a.written {
				return v
			}
		}
	}
	at := int32(len(s.variants))
	s.variants = append(s.variants, variant{answer: a, frame: frame, loc: -1, next: f.first})
	f.first = at
	if f.count++; f.count > fewVariants {
		s.index(f, key.frame)
	}
	return at
}

// index makes a frame's last variant found by its answer, and those before it when they
// become many.
func (s *splitFrames) index(f *splitFrame, frame int32) {
	if s.byAnswer == nil {
		s.byAnswer = make(map[frameAnswer]int32)
	}
	for v := f.first; v >= 0; v = s.variants[v].next {
		s.byAnswer[frameAnswer{frame, s.variants[v].answer.written}] = v
		if f.count > fewVariants+1 {
			return
		}
	}
}

// isCounted reports whether a variant of the same frame was counted with the same location and
// outcome, and notes that one was. The variants of a frame come one after the other.
func (s *splitFrames) isCounted(p *pass, loc int32, v *variant) (was bool) {
	c := &s.counted[loc]
	if c.frame != v.frame+1 {
		*c = counted{frame: v.frame + 1}
	}
	bit := uint8(1) << p.frames[s.frames[v.frame].frame].outcome(&v.answer)
	was = c.outcomes&bit != 0
	c.outcomes |= bit
	return was
}
