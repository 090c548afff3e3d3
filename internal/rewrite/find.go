// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/scratch"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// findFrames lists the kernel frames of the message, counts the frames that keep their names, and reports
// whether it found others (see contract 1.1, 1.2). Indices are not checked yet.
func (p *pass) findFrames() (found bool) {
	p.message.Attributes.Read()
	for i := range int32(p.message.Locations.Len()) {
		loc := p.message.Locations.At(i)
		frameType := p.message.Attributes.FrameType(loc.AttributeIndices())
		if frameType == otlp.OtherFrameType {
			continue
		}
		p.showsAddress = p.showsAddress || symbolize.IsKernelAddress(loc.Address())
		f := frame{location: i, answer: noAnswer}
		f.code = symbolize.Frame{
			Address: loc.Address(), Mapping: p.mapping(loc.MappingIndex()), Typed: frameType == otlp.KernelFrameType,
		}
		switch {
		case f.code.Typed, p.kernel.IsKernelCode(&f.code):
			p.selectFrame(&f, loc)
		case !f.code.MayBeOther:
			continue
		}
		found = found || f.selected
		p.frames = append(p.frames, f)
	}
	return found
}

// selectFrame decides whether a candidate is looked up (contract 1.2).
func (p *pass) selectFrame(f *frame, loc pprofile.Location) {
	f.code.Named = p.isNamed(loc.Lines())
	f.keepsName = f.code.Named && !p.opts.All
	f.selected = !f.keepsName
	if f.keepsName {
		p.counts[OutcomeNamed][timeline.OriginKernel]++
		f.selected = symbolize.IsKernelAddress(f.code.Address) && p.mayMove() || p.opts.DebugInfo && lacksNumber(loc.Lines())
	}
}

// mayMove reports whether the absolute address of a frame that keeps its name may become relative or be hidden.
func (p *pass) mayMove() bool {
	return p.opts.Addresses == HideAddresses || p.opts.Addresses != KeepAddresses && !p.opts.Gateway
}

// lacksNumber reports whether a location has one line, without a line number.
func lacksNumber(lines pprofile.LineSlice) bool { return lines.Len() == 1 && lines.At(0).Line() == 0 }

// nameState says whether a function has a name that is no placeholder.
type nameState uint8

const (
	notRead nameState = iota
	hasName
	hasNoName
)

// isNamed reports whether one of the lines of a location leads to a function with a name.
func (p *pass) isNamed(lines pprofile.LineSlice) bool {
	for i := range lines.Len() {
		if p.isFunctionNamed(lines.At(i).FunctionIndex()) {
			return true
		}
	}
	return false
}

func (p *pass) isFunctionNamed(index int32) bool {
	n := p.message.Functions.Len()
	if uint(index) >= uint(n) {
		return false
	}
	if len(p.functions) == 0 {
		p.functions = scratch.Zeroed(p.functions, n)
	}
	state := &p.functions[index]
	if *state == notRead {
		*state = hasName
		if symbolize.IsPlaceholder(p.message.Functions.Name(index)) {
			*state = hasNoName
		}
	}
	return *state == hasName
}

// A mapping is an entry of the mapping table, for package symbolize.
type mapping struct {
	isRead bool
	what   symbolize.Mapping
}

// mapping returns the mapping with an index.
func (p *pass) mapping(index int32) *symbolize.Mapping {
	if p.message.Mappings.IsNone(index) {
		return symbolize.NoMapping
	}
	if len(p.mappings) == 0 {
		p.mappings = scratch.Zeroed(p.mappings, p.message.Mappings.Len())
	}
	m := &p.mappings[index]
	if !m.isRead {
		content, isAmbiguous := p.message.Mappings.At(index)
		m.isRead = true
		m.what = symbolize.NewMapping(symbolize.Mapping{
			File: content.File, BuildID: content.BuildID, FileID: content.FileID,
			Start: content.Start, Limit: content.Limit, Offset: content.Offset, MayBeNone: isAmbiguous,
		})
	}
	return &m.what
}

// locateFrames works out what the addresses of the frames mean (contract 2).
func (p *pass) locateFrames() {
	p.frameOf = scratch.Filled(p.frameOf, p.message.Locations.Len(), noFrame)
	p.roles = scratch.Zeroed(p.roles, p.message.Locations.Len())
	for i := range p.frames {
		f := &p.frames[i]
		p.frameOf[f.location] = frameIndex(i)
		p.kernel.Locate(&f.code)
		if !f.code.IsOrdinary() {
			p.roles[f.location] = isSpecial
		}
		if p.opts.Gateway {
			p.lines.Wanted.Add(p.kernel.WantsPack(&f.code, f.selected))
		}
	}
}
