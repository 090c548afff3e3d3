// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"strings"
)

// The errors of [Read].
var (
	ErrFormat  = errors.New("not a pack")
	ErrVersion = errors.New("a pack of another version")
	ErrDamaged = errors.New("damaged pack")
)

// A Pack holds the debug information of one build. It is immutable and safe for concurrent use.
type Pack struct {
	info     Info
	sections [numSections]string
	counts   [numCounts]uint32
	bytes    int64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Read reads a pack of size bytes from r. It reads r once and keeps the content in memory, so
// that the pack cannot change later. It checks all of it: the error wraps ErrFormat, ErrVersion
// or ErrDamaged, or comes from r. The time and memory it takes are proportional to size.
func Read(r io.Reader, size int64) (*Pack, error) {
	header := make([]byte, headerLen)
	if _, err := io.ReadFull(r, header); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: shorter than its header", ErrFormat)
	} else if err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	if string(header[:len(magic)]) != magic {
		return nil, ErrFormat
	}
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(header[at:]) }
	if v := number(versionAt); v != version {
		return nil, fmt.Errorf("%w: %d, where %d is known", ErrVersion, v, version)
	}
	p := &Pack{bytes: size}
	var lengths [numSections]int64
	total := int64(headerLen)
	for i := range lengths {
		lengths[i] = int64(number(lengthsAt + 4*i))
		total += lengths[i]
	}
	for i := range p.counts {
		p.counts[i] = number(countsAt + 4*i)
	}
	if total != size {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", ErrDamaged, size, total)
	}
	var body strings.Builder
	body.Grow(int(total) - headerLen)
	sum := crc32.New(castagnoli)
	sum.Write(header[lengthsAt:]) // never fails
	if _, err := io.CopyN(&body, io.TeeReader(r, sum), total-int64(headerLen)); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it ends early", ErrDamaged)
	} else if err != nil {
		return nil, fmt.Errorf("reading a pack: %w", err)
	}
	if sum.Sum32() != number(checksumAt) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	rest := body.String()
	for i, n := range lengths {
		p.sections[i], rest = rest[:n], rest[n:]
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return p, nil
}

// Info returns the build that the pack describes. The caller must not change it.
func (p *Pack) Info() *Info { return &p.info }

// Bytes returns the size of the pack in memory, which equals the size of its file.
func (p *Pack) Bytes() int64 { return p.bytes }

// HasLines reports whether the pack has source lines, not only symbols.
func (p *Pack) HasLines() bool { return p.counts[countRows] > 0 }

// NumSymbols returns the number of symbols.
func (p *Pack) NumSymbols() int { return int(p.counts[countSymbols]) }

// Counts are the numbers of records in a pack.
type Counts struct {
	Functions int
	Nodes     int // functions at the places where they are inlined
	Rows      int // spans with one source line and chain
	Files     int
}

// Counts returns how many records the pack has.
func (p *Pack) Counts() Counts {
	return Counts{
		Functions: int(p.counts[countFunctions]), Nodes: int(p.counts[countNodes]), Rows: int(p.counts[countRows]),
		Files: len(p.sections[sectionFiles])/4 - 1,
	}
}

// A Symbol is a symbol of the kernel and the addresses that it covers (see contract 3.1 to
// 3.3).
type Symbol struct {
	Range  Range
	Name   string
	Folded bool // the address had other names, too
}

// Symbols returns the symbols in the order of their addresses.
func (p *Pack) Symbols() iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		d := decoder{data: p.sections[sectionSymbols]}
		var end uint32
		for range p.counts[countSymbols] {
			s := d.symbol(end)
			s.Name = p.string(d.uint())
			if end = s.Range.End; !yield(s) {
				return
			}
		}
	}
}

// symbol reads a symbol without its name. end is the end of the previous symbol.
func (d *decoder) symbol(end uint32) (s Symbol) {
	s.Range.Start = end + d.uint()
	size := d.uint()
	s.Folded = size&1 != 0
	s.Range.End = s.Range.Start + size>>1
	return s
}

// string returns the string that begins at an offset.
func (p *Pack) string(at uint32) string {
	strings := p.sections[sectionStrings]
	n, from := uvarint(strings, int(at))
	return strings[from : from+int(n)]
}

// file returns a file's path.
func (p *Pack) file(number uint32) string {
	return p.string(fixed(p.sections[sectionFiles], 4*int(number)))
}
