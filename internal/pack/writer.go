// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

type (
	// File is a Writer's number for a source file; 0 stands for none.
	File uint32

	// Function is a Writer's number for a function; 0 stands for none.
	Function uint32

	// Node is a Writer's number for a function at the place where it is inlined; 0 stands for
	// none.
	Node uint32
)

// A Writer makes a pack. Its user adds first the nodes, then the rows and the symbols, both in
// the order of their addresses. The pack leaves out everything that no row uses. It is not safe
// for concurrent use.
type Writer struct {
	info      Info
	out       output
	files     numbered[string]
	functions numbered[functionKey]
	nodes     numbered[nodeKey]
	rows      lastRow
	symbolEnd uint32
}

type functionKey struct {
	name string
	file File
	line uint32
}

type nodeKey struct {
	parent   Node
	function Function
	callFile File
	callLine uint32
	depth    uint8
}

type rowKey struct {
	node Node
	file File
	line uint32
}

// lastRow is the last row that was added.
type lastRow struct {
	key    rowKey
	addr   uint32
	number uint32 // number of its node in the pack
}

// The errors of [Writer.Bytes].
var (
	ErrOrder = errors.New("not in the order of addresses")
	ErrInput = errors.New("cannot be part of a pack")
)

// NewWriter returns a Writer for the pack of a build.
func NewWriter(info Info) *Writer {
	w := &Writer{info: info, out: output{offsets: map[string]uint32{}}}
	w.files.intern("")
	w.functions.add(functionKey{})
	w.nodes.add(nodeKey{})
	w.file(0)
	if err := info.check(); err != nil {
		w.out.fail(ErrInput, "%w", err)
	}
	return w
}

// File returns the number of a path. The number of the empty path is 0.
func (w *Writer) File(path string) File { return File(w.files.intern(path)) }

// Function returns the number of a function, given its linkage name and the place of its
// declaration.
func (w *Writer) Function(name string, file File, line uint32) Function {
	if name == "" || line > maxNumber || int(file) >= len(w.files.records) {
		w.out.fail(ErrInput, "function %q in line %d of file %d", name, line, file)
		return 0
	}
	return Function(w.functions.intern(functionKey{name, file, line}))
}

// Node returns the number of a function at the place where it is inlined: its parent, and the
// place of the call there. Without a parent it has code of its own, and the call is ignored.
func (w *Writer) Node(parent Node, f Function, callFile File, callLine uint32) Node {
	if parent == 0 {
		callFile, callLine = 0, 0
	}
	if int(parent) < len(w.nodes.records) && f != 0 && int(f) < len(w.functions.records) &&
		int(callFile) < len(w.files.records) && callLine <= maxNumber {
		if depth := w.nodes.records[parent].depth + 1; depth <= maxDepth {
			return Node(w.nodes.add(nodeKey{parent, f, callFile, callLine, depth}))
		}
	}
	w.out.fail(ErrInput, "function %d inlined into node %d in line %d", f, parent, callLine)
	return 0
}

// Row records the source of the code from an address up to the next row. A row without node and
// file has no information; the last row must be such a row.
func (w *Writer) Row(addr uint32, n Node, file File, line uint32) {
	r := rowKey{n, file, line}
	if n == 0 && file == 0 {
		r.line = 0
	}
	first := w.out.counts[countRows] == 0
	switch {
	case int(n) >= len(w.nodes.records) || int(file) >= len(w.files.records) || line > maxNumber:
		w.out.fail(ErrInput, "row of node %d and file %d in line %d", n, file, line)
	case !first && addr <= w.rows.addr:
		w.out.fail(ErrOrder, "row at %#x after the row at %#x", addr, w.rows.addr)
	case !first && addr-w.rows.addr > maxNumber:
		w.out.fail(ErrInput, "row at %#x, more than 2 GiB after the row at %#x", addr, w.rows.addr)
	case first && r == rowKey{}, !first && r == w.rows.key:
	default:
		w.appendRow(addr, r)
	}
}

// Symbol adds a symbol.
func (w *Writer) Symbol(s Symbol) {
	size := s.Range.End - s.Range.Start
	switch {
	case s.Range.Start < w.symbolEnd:
		w.out.fail(ErrOrder, "symbol %q at %#x", s.Name, s.Range.Start)
		return
	case s.Range.End <= s.Range.Start || size > maxNumber || s.Name == "":
		w.out.fail(ErrInput, "symbol %q from %#x to %#x", s.Name, s.Range.Start, s.Range.End)
		return
	}
	size <<= 1
	if s.Folded {
		size |= 1
	}
	w.out.append(sectionSymbols, s.Range.Start-w.symbolEnd, size, w.out.string(s.Name))
	w.out.counts[countSymbols]++
	w.symbolEnd = s.Range.End
}

// Bytes returns the pack. The error wraps ErrOrder or ErrInput, and describes the first call
// that failed.
func (w *Writer) Bytes() ([]byte, error) {
	if w.rows.key != (rowKey{}) {
		w.out.fail(ErrInput, "the last row, at %#x, has no end", w.rows.addr)
	}
	if w.out.err != nil {
		return nil, fmt.Errorf("writing a pack: %w", w.out.err)
	}
	w.out.sections[sectionInfo] = w.info.appendTo(nil)
	b := binary.LittleEndian.AppendUint32([]byte(magic), version)
	b = append(b, 0, 0, 0, 0) // the checksum
	for _, s := range w.out.sections {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	}
	for _, n := range w.out.counts {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	for _, s := range w.out.sections {
		b = append(b, s...)
	}
	binary.LittleEndian.PutUint32(b[checksumAt:], crc32.Checksum(b[lengthsAt:], castagnoli))
	return b, nil
}
