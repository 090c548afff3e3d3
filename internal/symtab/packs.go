// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"fmt"
	"math"
)

// NewPackSnapshot returns a snapshot of the images of packs: of any number of kernels, each
// at addresses of its own, which stand for none of a machine (contract 10.2). Images are
// found by their ids; absolute addresses mean nothing.
func NewPackSnapshot(images ...*Image) *Snapshot {
	packs := NewTable(images...)
	return &Snapshot{tables: []*Table{packs}, packs: packs}
}

// CoreAt returns the core kernel that has an address, nil if none has. Only a snapshot of
// packs can have more than one.
func (s *Snapshot) CoreAt(addr uint64) *Image {
	core := s.Core()
	if s != nil && s.packs != nil {
		if found := s.packs.root.at(addr); found != nil && found.live.Origin == OriginKernel {
			core = found.live
		}
	}
	if core == nil || !core.Contains(addr) {
		return nil
	}
	return core
}

// AddDecided adds a symbol of which is decided already what it covers, [start, end), and
// what it is called (contract 3.1 to 3.3); the name is not retained. What is added with
// [Builder.Add] must not be mixed with it. Symbols come in the order of their addresses and
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
