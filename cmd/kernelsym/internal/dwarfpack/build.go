// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"fmt"
	"math"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// Build adds nodes and rows to a pack, from the debug information that a file has about its code, and reports whether there
// were lines. It calls progress, unless that is nil, with the number of bytes read and the total. The error
// names the section. It wraps [ErrNoDebugInfo], [ErrUnsupported], [ErrMalformed], [ErrTooMuch] or
// an error of reading the file, and leaves the pack unusable. Build is not safe for concurrent use
// with the file or the writer.
func Build(f *kelf.File, w *pack.Writer, progress func(done, total int64)) (hasLines bool, err error) {
	s, err := openSections(f)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	hasLines, err = build(s, f, w, progress)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return hasLines, nil
}

// code is the code that a pack covers. [kelf.File] implements it.
type code interface {
	// Offset returns the pack addresses of the code [start, end), or false if it is not covered.
	Offset(start, end uint64) (pack.Range, bool)
}

// A builder reads the debug information of one file.
type builder struct {
	code  code
	units *units
	files *files
	tree  *tree
	lines lines
	rows  rows
}

// lines holds the lines of one unit at a time, and buffers for processing them.
type lines struct {
	machine lineMachine
	lines   []line
	spans   []span // of the lines, by number; the first line has the highest rank
	flat    [2][]span
	unit    []byte
	table   []byte
}

// A line is where code came from: a file, by its number in the unit, and a line in it.
type line struct{ file, line uint32 }

// build reads all units.
func build(s *sections, c code, w *pack.Writer, progress func(done, total int64)) (hasLines bool, err error) {
	b := &builder{code: c}
	if b.units, err = findUnits(s); err != nil {
		return false, err
	}
	b.files = &files{units: b.units, w: w}
	functions := &functions{units: b.units, files: b.files, w: w, known: map[uint64]pack.Function{}}
	b.tree = &tree{code: c, w: w, functions: functions, numbers: map[nodeKey]pack.Node{}}
	b.files.tree.outside = s.outOfTree
	if err := b.files.findTop(); err != nil {
		return false, err
	}
	total := int64(s.info.Size())
	for _, off := range b.units.starts {
		if progress != nil {
			progress(int64(off), total)
		}
		if err := b.buildUnit(off); err != nil {
			return false, fmt.Errorf("section %s: unit at %#x: %w", s.info.Name(), off, err)
		}
	}
	if progress != nil {
		progress(total, total)
	}
	b.rows.write(w)
	return b.rows.n > 0, nil
}

// buildUnit reads a unit.
func (b *builder) buildUnit(off uint64) error {
	u, err := b.units.read(off, b.lines.unit)
	if err != nil {
		return err
	}
	b.lines.unit = u.data
	if u.dies >= len(u.data) || u.root.kind == kindPartial {
		return nil
	}
	if err := b.tree.read(u); err != nil {
		return err
	}
	if err := b.readLines(u); err != nil {
		return err
	}
	return b.addRows(u)
}

// readLines reads the line table of a unit.
func (b *builder) readLines(u *unit) error {
	s := &b.lines
	s.lines, s.spans = s.lines[:0], s.spans[:0]
	t, err := u.fileTable(s.table)
	if err != nil {
		return err
	}
	s.table = t.data
	m := &s.machine
	m.t, m.r, m.emit = t, reader{order: u.sections.order}, b.addSequence
	if err := m.run(); err != nil {
		return fmt.Errorf("section %s at %#x: %w", u.sections.line.Name(), u.root.number(slotStmtList), err)
	}
	return nil
}

// addSequence adds the rows of a sequence, which ends at end.
func (b *builder) addSequence(rows []lineRow, end uint64) {
	start := rows[0].addr
	r, ok := b.code.Offset(start, end)
	if !ok {
		return // not code that a pack covers
	}
	s := &b.lines
	for i, row := range rows {
		if i > 0 && row.file == rows[i-1].file && row.line == rows[i-1].line {
			continue
		}
		at := r.Start + uint32(row.addr-start)
		if i > 0 {
			s.spans[len(s.spans)-1].end = at
		}
		s.spans = append(s.spans, span{at, r.End, math.MaxUint32 - uint32(len(s.lines))})
		s.lines = append(s.lines, line{row.file, row.line})
	}
}

// addRows adds the rows of a unit.
func (b *builder) addRows(u *unit) error {
	s := &b.lines
	for i, spans := range [...][]span{b.tree.spans, s.spans} {
		s.flat[i] = s.flat[i][:0]
		flatten(spans, func(f span) { s.flat[i] = coalesced(s.flat[i], f) })
	}
	b.rows.begin()
	return merge(s.flat[0], s.flat[1], func(p piece) error {
		if b.rows.n > maxRecords {
			return errRecords
		}
		var a answer
		var err error
		if p.node != noNode {
			if a.node, err = b.tree.number(u, p.node); err != nil {
				return err
			}
		}
		if p.line >= 0 {
			l := s.lines[p.line]
			if a.file, err = b.files.number(u, uint64(l.file)); err != nil {
				return err
			}
			if a.file != 0 {
				a.line = l.line
			}
		}
		b.rows.add(p.start, p.end, a)
		return nil
	})
}
