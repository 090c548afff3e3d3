// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"fmt"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// A fileTable is the header of a line table (section 6.2.4 of DWARF 5).
type fileTable struct {
	data       []byte // of the line table, with its header
	program    int    // where the program begins
	format     format
	parameters lineParameters
	dirs       []value
	files      []fileEntry
	first      uint64 // number of the first file: 0 in DWARF 5, else 1
}

// lineParameters determine the meaning of opcodes.
type lineParameters struct {
	minLength  uint64 // of an instruction
	lineBase   int64
	lineRange  uint64
	opcodeBase uint64
	lengths    []byte // the number of operands of each opcode, from 1 on
}

// A fileEntry is a file's name and the number of its directory.
type fileEntry struct {
	name   value
	dir    uint64
	number pack.File
	known  bool // number is set
}

// maxFiles bounds the number of files, and of directories, in a line table. It is several times
// their number in all line tables of the largest kernel.
const maxFiles = 1 << 20

// errFiles is returned if there are more.
var errFiles = fmt.Errorf("%w: more than %d files or directories", ErrTooMuch, maxFiles)

// maxLine is the largest plausible line number.
const maxLine = 1<<31 - 1

// fileTable returns the header of a unit's line table, which is empty if the unit has none.
func (u *unit) fileTable(buf []byte) (*fileTable, error) {
	if u.files != nil {
		return u.files, nil
	}
	off, ok := u.root.get(slotStmtList)
	if !ok {
		u.files = &fileTable{}
		return u.files, nil
	}
	t, err := u.readFileTable(off.v, buf)
	if err != nil {
		return nil, fmt.Errorf("section %s at %#x: %w", u.sections.line.Name(), off.v, err)
	}
	u.files = t
	const fileSize = 48 // in memory
	u.sections.kept += cap(t.data) + fileSize*len(t.files)
	return t, nil
}

// readFileTable reads the header of the line table at an offset.
func (u *unit) readFileTable(off uint64, buf []byte) (*fileTable, error) {
	line := u.sections.line
	if off >= line.Size() {
		return nil, errShort
	}
	var header [12]byte
	head := header[:min(uint64(len(header)), line.Size()-off)]
	if err := readAt(line, head, off); err != nil {
		return nil, err
	}
	r := reader{data: head, order: u.sections.order}
	n, wide := r.length()
	from := uint64(r.pos)
	if r.short || n > maxTable || n > line.Size()-off-from {
		return nil, errShort
	}
	if err := u.sections.spend(n); err != nil {
		return nil, err
	}
	if uint64(cap(buf)) < n {
		buf = make([]byte, n+n/4)
	}
	t := &fileTable{data: buf[:n]}
	if err := readAt(line, t.data, off+from); err != nil {
		return nil, err
	}
	r = reader{data: t.data, order: u.sections.order}
	t.format.wide = wide
	return t, t.readHeader(&r)
}

// readHeader reads the header after its length.
func (t *fileTable) readHeader(r *reader) error {
	t.format.version = uint16(r.uint(2))
	if t.format.version < 2 || t.format.version > 5 {
		return fmt.Errorf("%w: version %d", ErrUnsupported, t.format.version)
	}
	if t.format.version >= 5 {
		if size := r.uint(1); size != addrSize {
			return fmt.Errorf("%w: addresses of %d bytes", ErrUnsupported, size)
		}
		r.uint(1) // size of a segment selector
	}
	length := r.uint(t.format.offsetSize())
	if length > uint64(len(t.data)-r.pos) {
		return errShort
	}
	t.program = r.pos + int(length)
	t.parameters.minLength = r.uint(1)
	if t.format.version >= 4 {
		if ops := r.uint(1); ops > 1 {
			return fmt.Errorf("%w: %d operations in an instruction", ErrUnsupported, ops)
		}
	}
	r.uint(1) // default of is_stmt
	t.parameters.lineBase = int64(int8(r.uint(1)))
	t.parameters.lineRange = r.uint(1)
	t.parameters.opcodeBase = max(1, r.uint(1))
	t.parameters.lengths = r.next(t.parameters.opcodeBase - 1)
	if t.format.version >= 5 {
		return t.readEntries(r)
	}
	t.first = 1
	t.dirs = append(t.dirs, value{}) // the directory of the unit
	for r.left() && r.data[r.pos] != 0 {
		if len(t.dirs) > maxFiles {
			return errFiles
		}
		t.dirs = append(t.dirs, value{formString, r.variable(formString)})
	}
	r.uint(1)
	for r.left() && r.data[r.pos] != 0 {
		if len(t.files) > maxFiles {
			return errFiles
		}
		t.readFile(r)
	}
	if r.short {
		return errShort
	}
	return nil
}

// readFile reads a file of a line table before DWARF 5.
func (t *fileTable) readFile(r *reader) {
	name := r.variable(formString)
	t.files = append(t.files, fileEntry{name: value{formString, name}, dir: r.uleb()})
	r.uleb() // time
	r.uleb() // size
}

// The parts of entries that this package needs (section 6.2.4.1 of DWARF 5).
const (
	contentPath = 1
	contentDir  = 2
)

// readEntries reads the directories and files of DWARF 5.
func (t *fileTable) readEntries(r *reader) error {
	err := t.readTable(r, func(e fileEntry) { t.dirs = append(t.dirs, e.name) })
	if err != nil {
		return fmt.Errorf("directories: %w", err)
	}
	if err := t.readTable(r, func(e fileEntry) { t.files = append(t.files, e) }); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	return nil
}

// readTable reads a table of entries, which all have the same parts.
func (t *fileTable) readTable(r *reader, add func(fileEntry)) error {
	type part struct {
		content uint64
		form    form
	}
	var parts []part
	for range r.uint(1) {
		content, f := r.uleb(), r.uleb()
		if n, ok := form(f).size(t.format); f > 0xffff || !ok || n == 0 {
			return fmt.Errorf("%w: %v", ErrUnsupported, form(f))
		}
		parts = append(parts, part{content, form(f)})
	}
	n := r.uleb()
	if n > maxFiles {
		return errFiles
	}
	for i := uint64(0); i < n && len(parts) > 0 && !r.short; i++ {
		var e fileEntry
		for _, p := range parts {
			v, err := r.value(p.form, t.format)
			if err != nil {
				return err
			}
			switch p.content {
			case contentPath:
				e.name = v
			case contentDir:
				e.dir = v.v
			}
		}
		add(e)
	}
	if r.short {
		return errShort
	}
	return nil
}
