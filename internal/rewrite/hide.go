// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/symbolize"
)

// hides reports whether no absolute kernel address may be written.
func (p *pass) hides() bool {
	switch p.opts.Addresses {
	case HideAddresses:
		return true
	case AutoAddresses:
		snapshot := p.kernel.Snapshot()
		return !p.opts.Gateway && (snapshot.Core() == nil || snapshot.IsLocated())
	}
	return false
}

// hideAddresses hides the absolute addresses of the message, and removes original payloads (see contract 4.1), if addresses
// must be hidden. It runs before anything is written: p.frames keeps the addresses, so a frame with a relative form gets that
// later.
//
// A message that is not known to be valid keeps all references: none may become valid (see contract 1.4).
func (p *pass) hideAddresses(isValid bool) {
	if p.opts.Addresses == RelativeAddresses || p.opts.Addresses == KeepAddresses {
		return
	}
	mappings, hasPayload := p.showingMappings(), p.hasPayload()
	if !p.showsAddress && len(mappings) == 0 && !hasPayload || !p.hides() {
		return
	}
	p.message.MakeOwn()
	p.writer.changed = true
	p.hideRanges(mappings)
	if p.showsAddress {
		p.hideLocations(isValid)
	}
	p.removePayloads()
}

// hasPayload reports whether a profile has the data that it was made from.
func (p *pass) hasPayload() bool {
	for profile := range p.message.EachProfile() {
		if profile.Profile.OriginalPayload().Len() > 0 {
			return true
		}
	}
	return false
}

// removePayloads removes the data that profiles were made from. Nothing is known about its content: no format excludes
// addresses of the kernel.
func (p *pass) removePayloads() {
	for profile := range p.message.EachProfile() {
		if payload := profile.Profile.OriginalPayload(); payload.Len() > 0 {
			payload.MoveTo(pcommon.NewByteSlice())
			profile.Profile.SetOriginalPayloadFormat("")
		}
	}
}

// showingMappings returns the indices of the mappings that show where kernel code is.
func (p *pass) showingMappings() (indices []int32) {
	for i := range int32(p.message.Mappings.Len()) {
		start, limit, offset := p.message.Mappings.Range(i)
		if symbolize.IsKernelAddress(start) || symbolize.IsKernelAddress(limit-1) || symbolize.IsKernelAddress(offset) {
			indices = append(indices, i)
		}
	}
	return indices
}

// hideLocations sets the addresses of locations in the kernel half to 0, unless their frame type says that they are other code.
// In a valid message, they also lose their mappings, and their frame type says from now on that they are kernel code.
func (p *pass) hideLocations(isValid bool) {
	none := int32(0)
	if isValid {
		none = p.message.Mappings.None()
	}
	for i := range int32(p.message.Locations.Len()) {
		loc := p.message.Locations.At(i)
		if !symbolize.IsKernelAddress(loc.Address()) || p.message.Attributes.FrameType(loc.AttributeIndices()) == otlp.OtherFrameType {
			continue
		}
		loc.SetAddress(0)
		if isValid {
			loc.SetMappingIndex(none)
			p.writer.setType(loc)
		}
	}
}

// hideRanges sets start, limit and offset of mappings to 0. If the message has relative addresses in a mapping, its limit
// becomes its length, as far as that is no address of the kernel half: with a limit of 0, the addresses would be in looked-up form
// (see contract 2.2). So does that of entry 0, which would otherwise become the zero value, and index 0 would have one meaning
// (see contract 1.6).
func (p *pass) hideRanges(indices []int32) {
	keepsLength := make([]bool, max(1, p.message.Mappings.Len()))
	keepsLength[0] = true
	for i := range int32(p.message.Locations.Len()) {
		loc := p.message.Locations.At(i)
		isRelative := !symbolize.InKernelHalf(loc.Address())
		if index := loc.MappingIndex(); isRelative && index >= 0 && int(index) < len(keepsLength) {
			keepsLength[index] = true
		}
	}
	for _, index := range indices {
		length := uint64(0)
		if keepsLength[index] {
			start, limit, _ := p.message.Mappings.Range(index)
			length = min(max(start+1, limit)-start, math.MaxInt64)
		}
		p.message.Mappings.SetRange(index, 0, length, 0)
	}
}
