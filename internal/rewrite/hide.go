// SPDX-License-Identifier: Apache-2.0

package rewrite

import "github.com/kernelsym/kernelsym/internal/symbolize"

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

// hideAddresses hides the absolute addresses of the message (see contract 4.1), if they must be hidden. It runs before
// anything is written: p.frames keeps the addresses, so a frame with a relative form gets that later.
//
// A message that is not known to be valid keeps all references: none may become valid (see contract 1.4).
func (p *pass) hideAddresses(isValid bool) {
	if p.opts.Addresses == RelativeAddresses || p.opts.Addresses == KeepAddresses {
		return
	}
	mappings := p.showingMappings()
	if len(p.frames)+len(mappings) == 0 || !p.hides() {
		return
	}
	frames := p.showingFrames()
	if len(frames)+len(mappings) == 0 {
		return
	}
	p.message.MakeOwn()
	p.writer.changed = true
	p.hideRanges(mappings)
	p.hideFrames(frames, isValid)
}

// showingFrames returns the positions of the frames with an absolute address, unless they belong to another build.
func (p *pass) showingFrames() (positions []int32) {
	for i := range p.frames {
		f := &p.frames[i].code
		if symbolize.IsKernelAddress(f.Address) && !p.kernel.IsOtherBuild(f.Mapping) {
			positions = append(positions, int32(i))
		}
	}
	return positions
}

// showingMappings returns the indices of the mappings that show where kernel code is, unless that belongs to another
// build.
func (p *pass) showingMappings() (indices []int32) {
	for i := range int32(p.message.Mappings.Len()) {
		start, limit, offset := p.message.Mappings.Range(i)
		shows := symbolize.IsKernelAddress(start) || symbolize.IsKernelAddress(limit-1) || symbolize.IsKernelAddress(offset)
		if shows && !p.kernel.IsOtherBuild(p.mapping(i)) {
			indices = append(indices, i)
		}
	}
	return indices
}

// hideFrames sets the addresses of frames to 0. In a valid message, they also lose their mappings.
func (p *pass) hideFrames(positions []int32, isValid bool) {
	if len(positions) == 0 {
		return
	}
	none := int32(0)
	if isValid {
		none = p.message.Mappings.None()
	}
	for _, at := range positions {
		loc := p.message.Locations.At(p.frames[at].location)
		loc.SetAddress(0)
		if isValid {
			loc.SetMappingIndex(none)
		}
	}
}

// hideRanges sets start, limit and offset of mappings to 0. If the message has relative addresses in a mapping, its limit
// becomes its length: with a limit of 0, the addresses would be in looked-up form (see contract 2.2). So does that of entry
// 0, which would otherwise become the zero value, and index 0 would have one meaning (see contract 1.6).
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
			length = max(start+1, limit) - start
		}
		p.message.Mappings.SetRange(index, 0, length, 0)
	}
}
