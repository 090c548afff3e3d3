// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A pass is the work on one message. Its memory is used again for the next one.
type pass struct {
	opts    *Options
	message otlp.Message
	kernel  symbolize.Kernel
	lines   inline.Lines
	times   times
	memory  footprint // what it has taken for the messages so far
	needed  int       // what the last message took of that, in bytes

	locations, entries int // the numbers of locations and of all entries that the message came with

	showsAddress bool // a location has an address that may have to be hidden

	frames    []frame      // in the order of their locations
	frameOf   []frameIndex // by location; noFrame for the others
	roles     []roleSet    // by location, the roles in which stacks have its frame
	mappings  []mapping    // by index
	functions []nameState

	producers      []symbolize.Producer // by profile
	stackProducers []producerSet        // by stack, the producers of the samples that have it
	questions      questions
	answers        []answer // one for each question
	anyVaries      bool     // a frame does
	sorter         sorter

	choices chooser
	writer  writer
	split   splitter
	counts  Counts
	gave    PackCounts
}

// The things that a pass has found are kept in slices, and refer to each other by their positions there. An index of type
// int32 is one of a table of the message.
type (
	frameIndex       int32 // in pass.frames
	questionIndex    int32 // in questions.all, and that of its answer in pass.answers
	useIndex         int32 // in chooser.uses
	frameAnswerIndex int32 // in chooser.frameAnswers
	stackAnswerIndex int32 // in chooser.stackAnswers
)

// A frame is a location of kernel code.
type frame struct {
	code          symbolize.Frame
	location      int32
	firstQuestion questionIndex // the question for the first of its roles without a caller
	answer        questionIndex // the answer to all questions about it, noAnswer if there are none
	varies        bool          // it has several answers
	selected      bool          // its answer is written
	keepsName     bool          // of the answer, only the address and lines are written (see contract 1.2)
}

const (
	noFrame  = frameIndex(-1)
	noAnswer = questionIndex(-1)
)

func (p *pass) rewrite(pd pprofile.Profiles, opts *Options, sources Sources) Result {
	p.open(pd, opts, sources)
	found := p.findFrames()
	isValid := found && p.message.Check() == nil
	if isValid {
		p.name()
	}
	p.hideAddresses(isValid || !found && p.showsAddress && p.hides() && p.message.Check() == nil)
	switch {
	case isValid:
		p.write()
	case found:
		p.countInvalid()
	}
	result := Result{Profiles: pd, Counts: p.counts, Packs: p.gave}
	if opts.DebugInfo {
		result.BuildIDs, result.FileIDs = p.lines.Wanted.BuildIDs, p.lines.Wanted.FileIDs
	}
	if p.writer.changed {
		result.Profiles = p.message.Profiles
	}
	return result
}

// name finds the answers for the frames of a valid message. The message does not change.
func (p *pass) name() {
	p.locateFrames()
	p.walkStacks()
	p.resolve()
	p.anyVaries = p.choices.choose(p)
}

// write writes the answers into the message.
func (p *pass) write() {
	p.countAnswers()
	if !p.hasAnswers() {
		return
	}
	p.message.MakeOwn()
	p.writeAnswers()
	if p.anyVaries {
		p.splitFrames()
	}
}

func (p *pass) open(pd pprofile.Profiles, opts *Options, sources Sources) {
	p.opts = opts
	p.message.Open(pd)
	p.locations, p.entries = p.message.Locations.Len(), p.message.Entries()
	switch {
	case opts.Gateway:
		p.kernel = symbolize.NewGateway(sources.Snapshot)
		sources.Clock = nil // packs are not bound to a time
	case !sources.Local:
		p.kernel = symbolize.NewGuessed(sources.Snapshot, opts.AbsoluteFromLocal)
	default:
		p.kernel = symbolize.New(sources.Snapshot)
	}
	p.lines.Open(sources.Packs, opts.Inline)
	p.times.open(p, sources)
	p.writer.open(p)
	p.showsAddress, p.frames, p.mappings, p.functions = false, p.frames[:0], p.mappings[:0], p.functions[:0]
	p.counts, p.gave = Counts{}, PackCounts{}
}

// close forgets the message, but keeps the memory.
func (p *pass) close() {
	p.noteMemory()
	clear(p.answers)
	p.answers = p.answers[:0]
	clear(p.mappings)
	p.questions.close()
	p.choices.close()
	p.split.close()
	p.writer.close()
	p.times.close()
	p.lines.Close()
	p.message.Close()
	p.kernel, p.opts = symbolize.Kernel{}, nil
}

// A footprint is roughly the number of bytes that the splitter takes, and that all else takes.
type footprint struct{ split, rest int }

func (f footprint) total() int { return f.split + f.rest }

// noteMemory notes what the pass has taken for the message. What it takes for one thing of a kind comes from the types of
// the slices that grow with these things.
func (p *pass) noteMemory() {
	c := &p.choices
	split := 60*len(c.instants) + 40*len(c.samples) + 8*len(c.positions) + 4*len(c.chosen) + 150*len(c.frameAnswers) + 60*len(c.stackAnswers)
	rest := 8*p.locations + 150*len(p.frames) + 80*len(p.questions.all) + 100*len(p.questions.callers) +
		4*p.message.Stacks.Entries() + 24*p.entries + 17*len(p.producers) + 100*p.lines.Remembered()
	p.needed = split + rest
	p.memory = footprint{max(p.memory.split, split), max(p.memory.rest, rest)}
}

func (p *pass) countInvalid() {
	p.counts = Counts{}
	for i := range p.frames {
		if !p.frames[i].code.MayBeOther {
			p.counts[OutcomeInvalid][timeline.OriginKernel]++
		}
	}
}

// countAnswers counts the frames that have one answer.
func (p *pass) countAnswers() {
	for i := range p.frames {
		if f := &p.frames[i]; !f.varies && f.answer != noAnswer {
			p.count(f, &p.answers[f.answer])
		}
	}
}

// count counts a frame with an answer. A frame that keeps its name was counted when it was found.
func (p *pass) count(f *frame, a *answer) {
	if f.keepsName {
		return
	}
	origin := timeline.OriginKernel
	if a.change.image != nil {
		origin = a.change.image.Origin
	}
	p.counts[f.outcome(a)][origin]++
}

// countPack counts what a pack gave for a frame.
func (p *pass) countPack(gave inline.Result) {
	if gave != inline.NotAsked {
		p.gave[gave]++
	}
}

// outcome returns the outcome of a frame with an answer. A name that the frame came with is better than none.
func (f *frame) outcome(a *answer) Outcome {
	if f.code.Named && a.change.kind != writeName && a.change.kind != leaveUntouched {
		return OutcomeNamed
	}
	return a.outcome
}
