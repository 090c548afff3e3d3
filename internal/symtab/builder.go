// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxNameLen is the length in bytes of the longest name a symbol can have:
// KSYM_NAME_LEN - 1 of include/linux/kallsyms.h since Linux 6.1.
const MaxNameLen = 511

// The errors of [Builder.Build]. Each means that the input is not what a kernel
// gives.
var (
	ErrRange = errors.New("an image's code must span more than 0 and less than 4 GiB")
	ErrOrder = errors.New("symbols are not in the order of their addresses")
	ErrSize  = errors.New("more symbols or longer names than an image can have")
)

// TextInfo describes a text; see [Text] for the fields.
type TextInfo struct {
	Start, End uint64
	BuildID    string
	FileID     string
	Base       uint64
	Gap        Range
	Landmarks  *Landmarks
}

// A Builder makes a [Text] of symbols that are added in the order of their
// addresses, as the kernel lists its core; a [Sorter] brings others
// into that order. Its zero value is ready for use. It is not safe for
// concurrent use.
//
// Symbols are packed as they come, in chunks of fixed size that Build copies to
// arrays of the size they need: to let slices grow to an unknown length would
// allocate several times what the module keeps.
type Builder struct {
	packed packer
	first  uint64 // address of the first packed symbol
	below  uint64 // address of the last symbol that was forgotten, being too far below

	// What stands at the highest address so far.
	addr    uint64
	named   bool // the last packed symbol starts there
	twin    bool // and its name is a twin
	aliases group

	others []alias // the further names at the addresses so far

	err error // the first one
}

// Add adds a symbol of the kernel's list: its address, its type as nm(1) has it,
// and its name, which is not retained. What can neither be a name nor end one is
// ignored (see contract 3.1). A name longer than MaxNameLen only ends
// what comes before it.
func (b *Builder) Add(addr uint64, typ byte, name []byte) {
	class := classify(typ, name)
	if class == classIgnored || b.err != nil {
		return
	}
	if len(name) > MaxNameLen {
		class = classBound
	}
	if addr != b.addr {
		if addr < b.addr {
			b.err = fmt.Errorf("%w: %#x after %#x", ErrOrder, addr, b.addr)
			return
		}
		b.endSymbol(addr)
		b.addr = addr
	}
	switch {
	case class == classBound:
	case !b.named:
		b.startSymbol(name, class == classTwin)
	default:
		if b.aliases.empty() {
			b.aliases.add(b.packed.lastName(), b.twin)
		}
		b.aliases.add(name, class == classTwin)
	}
}

// StartAt forgets the symbols that start below addr, which must not be below the
// address added last.
func (b *Builder) StartAt(addr uint64) {
	name := slices.Clone(b.packed.lastName())
	keep := b.named && b.addr == addr
	b.packed, b.named, b.below, b.others = packer{}, false, 0, nil
	if keep {
		b.startSymbol(name, b.twin)
	} else {
		b.aliases.reset()
	}
}

// Build makes a text of the symbols that were added, and resets the builder. Symbols at info.End and
// above are left out, which only the address added last may be; none may lie below info.Start.
func (b *Builder) Build(info TextInfo) (*Text, error) {
	defer func() { *b = Builder{packed: b.packed.emptied()} }()
	if b.named && b.addr >= info.End {
		b.packed.dropLast()
		b.named = false
	}
	b.endSymbol(info.End)
	switch {
	case b.err != nil:
		return nil, b.err
	case info.Start >= info.End || info.End-info.Start > math.MaxUint32:
		return nil, fmt.Errorf("%w: %#x-%#x", ErrRange, info.Start, info.End)
	case b.packed.n > 0 && (b.first < info.Start || b.addr > info.End), b.below > 0 && b.below >= info.Start:
		return nil, fmt.Errorf("%w: symbols at %#x-%#x are not in %#x-%#x",
			ErrRange, b.first, b.addr, info.Start, info.End)
	}
	return &Text{
		Start: info.Start, End: info.End, BuildID: info.BuildID, FileID: info.FileID, Base: info.Base, Gap: info.Gap,
		Landmarks: info.Landmarks, symbols: b.packed.symbols(uint32(b.first-info.Start), info.gap()),
		aliases: slices.Clip(b.others),
	}, nil
}

// gap returns the offsets of the gap.
func (info *TextInfo) gap() offsets {
	if info.Gap == (Range{}) {
		return offsets{}
	}
	return offsets{start: uint32(info.Gap.Start - info.Start), end: uint32(info.Gap.End - info.Start)}
}

// startSymbol packs a symbol that starts at b.addr.
func (b *Builder) startSymbol(name []byte, twin bool) {
	if b.packed.n > 0 && b.addr-b.first > math.MaxUint32 {
		// These cannot be in one module with this symbol.
		b.below = b.first + uint64(b.packed.lastOffset())
		b.packed, b.others = packer{}, nil
	}
	if b.packed.n == 0 {
		b.first = b.addr
	}
	if !b.packed.add(uint32(b.addr-b.first), name, false) {
		b.err = ErrSize
		return
	}
	b.named, b.twin = true, twin
}

// endSymbol ends the last symbol where the next one starts (contract 3.2), if it starts at b.addr, and chooses
// between its names.
func (b *Builder) endSymbol(end uint64) {
	if !b.named || b.err != nil {
		return
	}
	if !b.aliases.empty() {
		name, folded := b.aliases.name()
		b.packed.dropLast()
		b.packed.add(uint32(b.addr-b.first), name, folded)
		b.others = b.aliases.appendOthers(b.others, uint32(b.packed.n-1), name)
		b.aliases.reset()
	}
	b.packed.setSize(uint32(min(end-b.addr, math.MaxUint32)))
	b.named = false
}

// AddDecided adds a symbol whose range, [start, end), and name are decided already (see
// contract 3.1 to 3.3); the name is not retained. One builder takes symbols by AddDecided or
// by [Builder.Add], not by both. Symbols come in the order of their addresses and
// do not overlap, and a name is at most MaxNameLen long.
func (b *Builder) AddDecided(start, end uint64, name []byte, folded bool) {
	switch {
	case b.err != nil:
	case start < b.addr || end <= start:
		b.err = fmt.Errorf("%w: %#x-%#x after %#x", ErrOrder, start, end, b.addr)
	case len(name) == 0 || len(name) > MaxNameLen || end-start > math.MaxUint32:
		b.err = fmt.Errorf("%w: %#x-%#x %.80q", ErrSize, start, end, name)
	default:
		if b.packed.n == 0 {
			b.first = start
		}
		if start-b.first > math.MaxUint32 || !b.packed.add(uint32(start-b.first), name, folded) {
			b.err = ErrSize
			return
		}
		b.packed.setSize(uint32(end - start))
		b.addr = end
	}
}
