// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"cmp"
	"fmt"
	"slices"
)

// A lineRow has the line that the code from an address on came from.
type lineRow struct {
	addr       uint64
	file, line uint32
}

// The opcodes of a line table's program (section 6.2.5 of DWARF 5).
const (
	opExtended     = 0
	opCopy         = 1
	opAdvancePC    = 2
	opAdvanceLine  = 3
	opSetFile      = 4
	opConstAddPC   = 8
	opFixedAdvance = 9

	opEndSequence = 1
	opSetAddress  = 2
	opDefineFile  = 3
)

// A lineMachine runs the program of a line table.
type lineMachine struct {
	t    *fileTable
	r    reader
	addr uint64
	file uint64
	line int64
	rows []lineRow // of the sequence
	all  int       // rows of the program
	emit func(rows []lineRow, end uint64)
}

// run runs the program. It calls emit with the rows of each sequence, in the order of their
// addresses. There is one row for an address, and none at the end of the sequence.
func (m *lineMachine) run() error {
	m.r.data, m.r.pos, m.all = m.t.data, m.t.program, 0
	m.reset()
	for m.r.left() && m.all <= maxRecords {
		op := m.r.uint(1)
		switch {
		case op >= m.t.parameters.opcodeBase:
			if m.t.parameters.lineRange == 0 {
				return fmt.Errorf("%w: no lines in an opcode", ErrMalformed)
			}
			op -= m.t.parameters.opcodeBase
			m.addr += op / m.t.parameters.lineRange * m.t.parameters.minLength
			m.line += m.t.parameters.lineBase + int64(op%m.t.parameters.lineRange)
			m.row()
		case op == opExtended:
			if err := m.extended(); err != nil {
				return err
			}
		default:
			if err := m.standard(op); err != nil {
				return err
			}
		}
	}
	switch {
	case m.r.short:
		return errShort
	case m.all > maxRecords:
		return errRecords
	}
	return nil
}

// reset begins a sequence.
func (m *lineMachine) reset() {
	m.addr, m.file, m.line, m.rows = 0, 1, 1, m.rows[:0]
}

// standard runs a standard opcode.
func (m *lineMachine) standard(op uint64) error {
	switch op {
	case opCopy:
		m.row()
	case opAdvancePC:
		m.addr += m.r.uleb() * m.t.parameters.minLength
	case opAdvanceLine:
		m.line += m.r.sleb()
	case opSetFile:
		m.file = m.r.uleb()
	case opConstAddPC:
		if m.t.parameters.lineRange == 0 {
			return fmt.Errorf("%w: no lines in an opcode", ErrMalformed)
		}
		m.addr += (255 - m.t.parameters.opcodeBase) / m.t.parameters.lineRange * m.t.parameters.minLength
	case opFixedAdvance:
		m.addr += m.r.uint(2)
	default: // irrelevant or unknown
		for range m.t.parameters.lengths[op-1] {
			m.r.uleb()
		}
	}
	return nil
}

// extended runs an extended opcode.
func (m *lineMachine) extended() error {
	n := m.r.uleb()
	if n == 0 || n > uint64(len(m.r.data)-m.r.pos) {
		return errShort
	}
	end := m.r.pos + int(n)
	switch m.r.uint(1) {
	case opEndSequence:
		m.endSequence()
	case opSetAddress:
		if n != 1+addrSize {
			return fmt.Errorf("%w: an address of %d bytes", ErrUnsupported, n-1)
		}
		m.addr = m.r.uint(addrSize)
	case opDefineFile:
		m.t.readFile(&m.r)
	}
	m.r.pos = end
	return nil
}

// row adds a row. It replaces one at the same address.
func (m *lineMachine) row() {
	row := lineRow{addr: m.addr, file: uint32(min(m.file, maxLine))}
	if m.line >= 0 && m.line <= maxLine {
		row.line = uint32(m.line)
	}
	if n := len(m.rows); n > 0 && m.rows[n-1].addr == m.addr {
		m.rows[n-1] = row
		return
	}
	m.rows = append(m.rows, row)
	m.all++
}

// endSequence emits the rows of the sequence.
func (m *lineMachine) endSequence() {
	byAddr := func(a, b lineRow) int { return cmp.Compare(a.addr, b.addr) }
	if !slices.IsSortedFunc(m.rows, byAddr) {
		slices.SortStableFunc(m.rows, byAddr)
	}
	for len(m.rows) > 0 && m.rows[len(m.rows)-1].addr >= m.addr {
		m.rows = m.rows[:len(m.rows)-1]
	}
	if len(m.rows) > 0 {
		m.emit(m.rows, m.addr)
	}
	m.reset()
}
