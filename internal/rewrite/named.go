// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"iter"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Named is a message with the names of its kernel frames, for a program that wants to know them rather than to send them
// on. The message is not changed, and must not be as long as the Named is in use.
//
// What a frame is, is its [Code]. Codes have numbers: that of a location or, for a location that has several (contract
// 5.5), numbers behind these. So what is worked out from a code can be kept by its number, and nothing is copied for each
// stack:
//
//	stack of a sample     3   1   7       location 7 varies: at this sample's time
//	its codes             3   1   912     it is code 912
//
// A Named is not safe for concurrent use.
type Named struct {
	pass *pass
}

// Name names the kernel frames of pd, as [Rewriter.Rewrite] does. It returns [otlp.ErrReference] for a message that refers
// to an entry which is not in it.
func (r *Rewriter) Name(pd pprofile.Profiles, sources Sources) (*Named, error) {
	p, err := openNamed(pd, &r.opts, sources)
	if err == nil {
		p.name()
	}
	return &Named{p}, err
}

// AsWritten returns a message of any kernel, whose kernel frames have the names that are written there. The error is that
// of [Rewriter.Name].
func AsWritten(pd pprofile.Profiles) (*Named, error) {
	p, err := openNamed(pd, new(Options), Sources{Snapshot: func() *timeline.Snapshot { return nil }})
	if err == nil {
		p.locateFrames()
		p.walkStacks()
	}
	return &Named{p}, err
}

// openNamed begins a message whose memory is its own, and finds its frames.
func openNamed(pd pprofile.Profiles, opts *Options, sources Sources) (*pass, error) {
	p := new(pass)
	p.open(pd, opts, sources)
	p.findFrames()
	return p, p.message.Check()
}

// Message returns the message as it came.
func (n *Named) Message() *otlp.Message { return &n.pass.message }

// A NamedProfile is a profile of a message.
type NamedProfile struct {
	Profile pprofile.Profile

	number   int // of the profile in the message
	named    *Named
	resource pcommon.Map
}

// Profiles yields the profiles of the message.
func (n *Named) Profiles() iter.Seq[NamedProfile] {
	return func(yield func(NamedProfile) bool) {
		resources := n.pass.message.Profiles.ResourceProfiles()
		for of := range n.pass.message.EachProfile() {
			if !yield(NamedProfile{of.Profile, of.Number, n, resources.At(of.Resource).Resource().Attributes()}) {
				return
			}
		}
	}
}

// A ValueType is the type of values, such as "samples" in "count".
type ValueType struct{ Name, Unit string }

func (of NamedProfile) valueType(t pprofile.ValueType) ValueType {
	strings := &of.named.pass.message.Strings
	return ValueType{strings.At(t.TypeStrindex()), strings.At(t.UnitStrindex())}
}

// Type returns the type of the values of samples.
func (of NamedProfile) Type() ValueType { return of.valueType(of.Profile.SampleType()) }

// PeriodType returns the type of the period.
func (of NamedProfile) PeriodType() ValueType { return of.valueType(of.Profile.PeriodType()) }

// Span returns the start and end of the profile, in nanoseconds since the Unix epoch. It reports false if the profile has
// no time.
func (of NamedProfile) Span() (start, end int64, ok bool) {
	start = int64(of.Profile.Time())
	return start, max(start, start+int64(of.Profile.DurationNano())), start > 0
}

// A StackFrame is a frame of a stack.
type StackFrame struct {
	Code int                // for [Named.Code]
	Role symbolize.RoleKind // of a frame that was looked up; [symbolize.Unknown] for any other
}

// A NamedSample is a sample of a profile, or the part of one in which each frame has one answer.
type NamedSample struct {
	Weight int64        // the sum of its values; without any, the number of its timestamps (message Sample of profiles.proto)
	Frames []StackFrame // leaf first

	profile NamedProfile
	sample  pprofile.Sample
	stack   []StackFrame // Frames, as long as nobody has changed it
}

// Samples yields the samples of a profile. Each is valid until the next.
func (of NamedProfile) Samples() iter.Seq[*NamedSample] {
	return func(yield func(*NamedSample) bool) {
		p := of.named.pass
		varying := p.choices.samplesOf(of.number)
		s := NamedSample{profile: of}
		samples := of.Profile.Samples()
		for i := range samples.Len() {
			s.sample = samples.At(i)
			s.stack = p.appendStack(s.stack[:0], s.sample.StackIndex(), p.producers[of.number])
			if len(varying) == 0 || int(varying[0].number) != i {
				s.Weight, s.Frames = weightOf(s.sample), s.stack
				if !yield(&s) {
					return
				}
				continue
			}
			for part := range s.parts(&varying[0]) {
				if !yield(part) {
					return
				}
			}
			varying = varying[1:]
		}
	}
}

// appendStack appends the frames of a stack, in the roles that the samples of a producer have them.
func (p *pass) appendStack(frames []StackFrame, stack int32, producer symbolize.Producer) []StackFrame {
	if int(stack) >= p.message.Stacks.Len() { // index 0 of no table
		return frames
	}
	indices := p.message.Stacks.At(stack)
	walk := p.kernel.Walk(producer)
	for i, location := range indices {
		var role symbolize.Role
		if p.roles[location]&isSpecial == 0 {
			role = walk.NextOrdinary()
		} else {
			_, role = p.step(&walk, indices, i)
		}
		frame := StackFrame{Code: int(location), Role: symbolize.Unknown}
		if at := p.frameOf[location]; at != noFrame && p.frames[at].selected {
			frame.Role = role.Kind
		}
		frames = append(frames, frame)
	}
	return frames
}

// parts yields the parts of a sample: one for each stack answer that it has.
func (s *NamedSample) parts(of *varyingSample) iter.Seq[*NamedSample] {
	return func(yield func(*NamedSample) bool) {
		p := s.profile.named.pass
		instants := p.choices.instantsOf(of)
		for i := range instants {
			answer := instants[i].stackAnswer
			if slices.ContainsFunc(instants[:i], func(before instant) bool { return before.stackAnswer == answer }) {
				continue
			}
			s.Weight = weightAt(s.sample, instants, answer)
			for position, of := range p.choices.answersOf(&p.choices.stackAnswers[answer]) {
				s.stack[position].Code = p.locations + int(of)
			}
			s.Frames = s.stack
			if !yield(s) {
				return
			}
		}
	}
}

func weightOf(s pprofile.Sample) (sum int64) {
	if s.Values().Len() == 0 {
		return int64(s.TimestampsUnixNano().Len())
	}
	for _, v := range s.Values().All() {
		sum += v
	}
	return sum
}

// weightAt returns the weight of the part of a sample that has a stack answer.
func weightAt(s pprofile.Sample, instants []instant, answer stackAnswerIndex) (sum int64) {
	if len(instants) == 1 {
		return weightOf(s)
	}
	for i := range instants { // each has a timestamp and, if there are values, one of these
		switch {
		case instants[i].stackAnswer != answer:
		case s.Values().Len() == 0:
			sum++
		default:
			sum += s.Values().At(i)
		}
	}
	return sum
}

// Attribute returns the value of the attribute with a key: of the sample or, if it has none, of its resource.
func (s *NamedSample) Attribute(key string) (v otlp.Value, ok bool) {
	attributes := &s.profile.named.pass.message.Attributes
	for _, i := range s.sample.AttributeIndices().All() {
		if attributes.Key(i) == key {
			return attributes.Value(i), true
		}
	}
	if v, ok := s.profile.resource.Get(key); ok {
		return otlp.ValueOf(v), true
	}
	return otlp.Value{}, false
}

// Attributes yields the keys of the sample's own attributes, and the values as text.
func (s *NamedSample) Attributes() iter.Seq2[string, string] {
	attributes := &s.profile.named.pass.message.Attributes
	return func(yield func(key, value string) bool) {
		for _, i := range s.sample.AttributeIndices().All() {
			if key := attributes.Key(i); key != "" && !yield(key, attributes.Text(i)) {
				return
			}
		}
	}
}

// A Code is what a location is, for some of the samples that have it.
type Code struct {
	IsKernel bool       // it is kernel code (contract 1.1)
	Lines    []CodeLine // innermost function first; of kernel code without a name, there are none
	File     string     // of its mapping: of kernel code, what contract 4.2 and 4.3 say; empty if there is no mapping
	Address  uint64     // what contract 4.1 says

	// What the code was named from; nil and the zero value for code that has its name from elsewhere, or none.
	Image  *timeline.Image
	Symbol symtab.Symbol
}

// A CodeLine is a function of a code, and the place in it.
type CodeLine struct {
	Function string // empty if it has no name: a placeholder is none, nor is an offset in the file
	File     string // empty if it is not known
	Number   int64  // counted from 1, 0 if it is not known
}

// HasName reports whether one of the functions has a name.
func (c *Code) HasName() bool {
	return slices.ContainsFunc(c.Lines, func(l CodeLine) bool { return l.Function != "" })
}

// Code returns the code with a number.
func (n *Named) Code(number int) Code {
	p := n.pass
	if number >= p.locations {
		a := &p.choices.frameAnswers[number-p.locations]
		return p.codeOf(&p.frames[a.frame], &a.answer)
	}
	at := p.frameOf[number]
	if at == noFrame {
		return p.codeAsWritten(int32(number), false)
	}
	f := &p.frames[at]
	if f.varies || f.answer == noAnswer {
		return p.codeAsWritten(int32(number), !f.code.MayBeOther)
	}
	return p.codeOf(f, &p.answers[f.answer])
}

// codeOf returns the code of a frame with an answer. A name that the frame came with stays, as where it is written.
func (p *pass) codeOf(f *frame, a *answer) Code {
	c := &a.change
	came := p.codeAsWritten(f.location, true)
	switch {
	case c.kind == leaveUntouched, c.kind == writeType, f.code.Named && c.kind != writeName:
		return came
	case f.keepsName && !p.writer.isMoved(p.message.Locations.At(f.location), f, c):
		return came
	case c.kind == writeNoMapping:
		return Code{IsKernel: true, Address: came.Address}
	}
	code := Code{IsKernel: true, File: fileOf(c.image), Address: c.address, Image: c.image}
	if c.kind == writeName {
		code.Symbol, code.Lines = c.symbol, p.codeLines(c)
	}
	if f.keepsName {
		code.Lines = came.Lines
	}
	return code
}

// codeLines returns the lines of a change, innermost function first.
func (p *pass) codeLines(c *change) (lines []CodeLine) {
	if c.lines == inline.NoChain {
		return []CodeLine{{Function: c.image.SymbolName(c.symbol).Name}}
	}
	for l := range p.lines.Of(c.lines) {
		f := p.lines.Function(l.Function)
		lines = append(lines, CodeLine{f.Name.Name, f.File, int64(l.Number)})
	}
	return lines
}

// codeAsWritten returns the code that a location came as.
func (p *pass) codeAsWritten(location int32, isKernel bool) Code {
	loc := p.message.Locations.At(location)
	c := Code{IsKernel: isKernel, Address: loc.Address()}
	if !p.message.Mappings.IsNone(loc.MappingIndex()) {
		mapping, _ := p.message.Mappings.At(loc.MappingIndex())
		c.File = mapping.File
	}
	for _, line := range loc.Lines().All() {
		f := p.message.Functions.At(line.FunctionIndex())
		name := p.message.Functions.Name(line.FunctionIndex())
		if isKernel && (symbolize.IsPlaceholder(name) || isLabel(name, c.File)) {
			name = ""
		}
		c.Lines = append(c.Lines, CodeLine{name, f.File, line.Line()})
	}
	return c
}
