// SPDX-License-Identifier: Apache-2.0

// Package packimage makes images from the symbols in packs. They are all the symbols that a
// gateway has, which has no kernel of its own (see contract 10.2), and those of a core kernel that was located (see contract
// 10.5). The package is pure.
package packimage

import (
	"fmt"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// MaxSlot is the last slot.
const MaxSlot = 1<<31 - 1

// A slot is 4 GiB in the upper half of the address space: room for all pack addresses.
const (
	firstSlot = 1 << 63
	slotBits  = 32
)

// LeastMemory returns a lower bound of the memory that the image of a pack takes, which is at most a tenth larger. The
// size of the pack is no measure: in it, a symbol can take three bytes and a repeated name almost none.
func LeastMemory(p *pack.Pack) int64 {
	var size symtab.Sizer
	for s := range p.Symbols() {
		size.Add(s.Name)
	}
	return size.Least()
}

// New returns the image of a pack in a slot, from 0 to MaxSlot. No other image of a snapshot
// may have the same slot; see [timeline.NewPackSnapshot]. The addresses of the image are not
// addresses of any machine: only their distances from its base have a meaning. The error says
// why the symbols cannot form an image: the pack is damaged or was made for another use.
//
// For a core kernel it takes several milliseconds, so call it only once for a pack.
func New(p *pack.Pack, slot uint32) (*timeline.Image, error) {
	return at(p, uint64(firstSlot)+uint64(slot)<<slotBits)
}

// Located returns the image of the pack of a core kernel that was located at an address of this machine (see contract 10.5).
// The error is that of New, and does not contain the address.
func Located(p *pack.Pack, start uint64) (*timeline.Image, error) {
	if _, err := New(p, 0); err != nil {
		return nil, err
	}
	image, err := at(p, start)
	if err != nil || image.Origin != timeline.OriginKernel {
		return nil, fmt.Errorf("pack of %s: it is not the pack of a core kernel in memory", p.Info().BuildID)
	}
	return image.AsLocated(), nil
}

// at returns the image of a pack whose pack address 0 is at an address.
func at(p *pack.Pack, start uint64) (*timeline.Image, error) {
	info := p.Info()
	at := func(r pack.Range) symtab.Range {
		return symtab.Range{Start: start + uint64(r.Start), End: start + uint64(r.End)}
	}
	extent, gap := at(info.Extent), at(info.Gap)
	text := symtab.TextInfo{
		BuildID: info.BuildID, FileID: buildid.FileID(info.BuildID),
		Base: start + uint64(info.Base), Start: extent.Start, End: extent.End,
	}
	hasGap := info.Gap.Start < info.Gap.End
	if hasGap {
		text.Gap = gap
	}
	origin := timeline.OriginModule
	if info.Name == timeline.KernelName {
		origin = timeline.OriginKernel
		text.Landmarks = &symtab.Landmarks{
			Arch: info.Arch, Entry: at(info.Marks.Entry), Fred: at(info.Marks.Fred), SharedTrampolines: true,
		}
		for _, r := range info.Marks.Thunks {
			text.Landmarks.Thunks = append(text.Landmarks.Thunks, at(r))
		}
	}
	if !extent.Contains(text.Base) || hasGap && (gap.Start < extent.Start || gap.End > extent.End) {
		return nil, fmt.Errorf("pack of %s: its base or gap is not in its code", info.BuildID)
	}
	var b symtab.Builder
	var name []byte
	for s := range p.Symbols() {
		name = append(name[:0], s.Name...)
		r := at(s.Range)
		if hasGap && r.Start < gap.End && gap.Start < r.End {
			return nil, fmt.Errorf("pack of %s: symbol %q lies in the gap of its code", info.BuildID, s.Name)
		}
		b.AddDecided(r.Start, r.End, name, s.Folded)
	}
	built, err := b.Build(text)
	if err != nil {
		return nil, fmt.Errorf("pack of %s: %w", info.BuildID, err)
	}
	return timeline.NewImage(origin, info.Name, built, timeline.Always), nil
}
