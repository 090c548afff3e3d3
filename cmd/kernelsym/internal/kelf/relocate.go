// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
)

// blockLen is the number of relocations that are read at once.
const blockLen = 4096

// newRelocations returns the relocations in a section of a file, given the addresses of its
// symbols. They must be in the order of their offsets, as linkers write them.
func newRelocations(f *elf.File, symbols []uint64, s *elf.Section) (*relocations, error) {
	r := &relocations{
		name: s.Name, order: f.ByteOrder, machine: f.Machine, symbols: symbols,
		data: s.ReaderAt, n: int(min(s.FileSize, math.MaxInt32) / relocationLen),
	}
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil, fmt.Errorf("section %s: %w: compressed", s.Name, errors.ErrUnsupported)
	}
	var last uint64
	for i := range r.n {
		e, err := r.at(i)
		if err != nil {
			return nil, err
		}
		offset := r.order.Uint64(e)
		if offset < last {
			return nil, fmt.Errorf("section %s: %w: not in the order of offsets at %#x", s.Name, errors.ErrUnsupported, offset)
		}
		last = offset
	}
	return r, nil
}

// at returns entry number i.
func (r *relocations) at(i int) ([]byte, error) {
	at := (i - r.blockFirst) * relocationLen
	if at < 0 || at >= len(r.block) {
		n := min(blockLen, r.n-i)
		if cap(r.block) == 0 {
			r.block = make([]byte, n*relocationLen)
		}
		r.block = r.block[:n*relocationLen]
		if m, err := r.data.ReadAt(r.block, int64(i)*relocationLen); m < len(r.block) {
			r.block = r.block[:0]
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("section %s: %w", r.name, err)
		}
		r.blockFirst, at = i, 0
	}
	return r.block[at:][:relocationLen], nil
}

// apply applies the relocations to data, which begins at an offset of the section.
func (r *relocations) apply(data []byte, off uint64) error {
	const longest = 8
	end := off + uint64(len(data))
	for i := r.search(off - min(off, longest-1)); i < r.n; i++ {
		e, err := r.at(i)
		if err != nil {
			return err
		}
		at := r.order.Uint64(e)
		if at >= end {
			return nil
		}
		info := r.order.Uint64(e[8:])
		var value [longest]byte
		n, err := r.value(value[:], info, r.order.Uint64(e[16:]))
		if err != nil {
			return fmt.Errorf("at %#x: %w", at, err)
		}
		if at >= off {
			copy(data[at-off:], value[:n])
		} else if skip := off - at; skip < uint64(n) {
			copy(data, value[skip:n])
		}
	}
	return nil
}

// search returns the number of the first relocation at an offset or above.
func (r *relocations) search(off uint64) int {
	if len(r.block) > 0 && r.order.Uint64(r.block) < off {
		n := len(r.block) / relocationLen
		i := sort.Search(n, func(i int) bool { return r.order.Uint64(r.block[i*relocationLen:]) >= off })
		if i < n || r.blockFirst+n == r.n {
			return r.blockFirst + i
		}
	}
	var entry [relocationLen]byte
	return sort.Search(r.n, func(i int) bool {
		// A read that fails here fails again when the entry is applied.
		_, err := r.data.ReadAt(entry[:], int64(i)*relocationLen)
		return err != nil || r.order.Uint64(entry[:]) >= off
	})
}

// value writes the value of a relocation to b, and returns its length in bytes. See the ABI
// supplements for x86-64 and for the Arm 64-bit architecture.
func (r *relocations) value(b []byte, info, addend uint64) (int, error) {
	n, err := r.size(uint32(info))
	if n == 0 || err != nil {
		return 0, err
	}
	symbol := info >> 32
	if symbol >= uint64(len(r.symbols)) {
		return 0, fmt.Errorf("%w: of symbol %d of %d", ErrRelocation, symbol, len(r.symbols))
	}
	v := r.symbols[symbol] + addend
	if n == 8 {
		r.order.PutUint64(b, v)
		return n, nil
	}
	if v > math.MaxUint32 {
		return 0, fmt.Errorf("%w: four bytes for an address", ErrRelocation)
	}
	r.order.PutUint32(b, uint32(v))
	return n, nil
}

// size returns the length in bytes of a relocation of a type.
func (r *relocations) size(typ uint32) (int, error) {
	switch r.machine {
	case elf.EM_X86_64:
		switch elf.R_X86_64(typ) {
		case elf.R_X86_64_NONE:
			return 0, nil
		case elf.R_X86_64_64:
			return 8, nil
		case elf.R_X86_64_32, elf.R_X86_64_32S:
			return 4, nil
		}
		return 0, fmt.Errorf("%w: %v", ErrRelocation, elf.R_X86_64(typ))
	case elf.EM_AARCH64:
		switch elf.R_AARCH64(typ) {
		case elf.R_AARCH64_NONE, elf.R_AARCH64_NULL:
			return 0, nil
		case elf.R_AARCH64_ABS64:
			return 8, nil
		case elf.R_AARCH64_ABS32:
			return 4, nil
		}
		return 0, fmt.Errorf("%w: %v", ErrRelocation, elf.R_AARCH64(typ))
	}
	return 0, fmt.Errorf("%w: type %d of %v", ErrRelocation, typ, r.machine)
}
