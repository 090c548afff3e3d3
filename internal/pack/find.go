// SPDX-License-Identifier: Apache-2.0

package pack

import "iter"

// A Frame is a function at an address, and a source line in it.
type Frame struct {
	// Function is the linkage name. It is empty if the debug information has no function for
	// the line (assembler).
	Function string

	File string // path from the top of the kernel's source tree; empty if it is not known
	Line uint32 // counted from 1; 0 if it is not known

	// ID is the same for frames of one pack that have the same function and file.
	ID uint64
}

// Find appends the functions at a pack address to frames: the innermost inlined function, then
// the function it was inlined into, at the line of that call, and so on up to the function with
// code of its own. It appends nothing if the pack has no information about the address.
func (p *Pack) Find(addr uint32, frames []Frame) []Frame {
	r, ok := p.row(addr)
	if !ok {
		return frames
	}
	if !r.isKnown() {
		return frames
	}
	if r.node == 0 {
		return append(frames, Frame{File: p.file(r.file), Line: uint32(r.line), ID: uint64(r.file)})
	}
	n := p.node(r.node)
	f := p.function(n.function)
	file, line := r.file, uint32(int32(f.line)+r.line)
	if !r.hasFile {
		file = f.file
	}
	for {
		frames = append(frames, Frame{
			Function: p.string(f.name), File: p.file(file), Line: line,
			ID: uint64(n.function)<<32 | uint64(file),
		})
		if n.parent == 0 {
			return frames
		}
		call := n
		n = p.node(call.parent)
		f = p.function(n.function)
		file, line = call.file, uint32(int32(f.line)+call.line)
		if !call.hasFile {
			file = f.file
		}
	}
}

// row is the information about an address. If it has no file of its own, its file is the file
// of the node's function. Its line is relative to the line of that function.
type row struct {
	node    uint32
	file    uint32
	line    int32
	hasFile bool
}

// row returns the last row at or below an address.
func (p *Pack) row(addr uint32) (r row, ok bool) {
	index := p.sections[sectionRowIndex]
	low, high := 0, len(index)/8
	for low < high {
		if mid := int(uint(low+high) / 2); fixed(index, 8*mid) <= addr {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 {
		return row{}, false
	}
	group := low - 1
	data, at := p.sections[sectionRows], int(fixed(index, 8*group+4))
	start := fixed(index, 8*group)
	var node uint32
	lineAt := 0 // offset of the line of the last row
	for range min(rowGroup, int(p.counts[countRows])-group*rowGroup) {
		head, next := uvarint(data, at)
		if start += head >> 1; start > addr {
			break
		}
		delta, next := uvarint(data, next)
		node += uint32(unzigzag(delta))
		at = skip(data, next, 1+int(head&1))
		r, lineAt = row{node: node, hasFile: head&1 != 0}, next
	}
	line, at := uvarint(data, lineAt)
	r.line = unzigzag(line)
	if r.hasFile {
		r.file, _ = uvarint(data, at)
	}
	return r, true
}

// node is an inlined function or, without a parent, a function with code of its own. The line
// of its call is relative to the line of the parent's function.
type node struct {
	function, parent uint32
	file             uint32 // of the call
	line             int32
	hasFile          bool // if not, the call is in the file of the parent's function
}

func (p *Pack) node(number uint32) (n node) {
	data := p.sections[sectionNodes]
	i := int(number) - 1
	at := int(fixed(p.sections[sectionNodeIndex], i/nodeGroup*4))
	for range i % nodeGroup {
		head, next := uvarint(data, at)
		fields := 1
		if head>>1 != 0 {
			fields += 1 + int(head&1)
		}
		at = skip(data, next, fields)
	}
	head, at := uvarint(data, at)
	n.function, at = uvarint(data, at)
	if head>>1 == 0 {
		return n
	}
	n.parent = number - head>>1
	line, at := uvarint(data, at)
	n.line = unzigzag(line)
	if n.hasFile = head&1 != 0; n.hasFile {
		n.file, _ = uvarint(data, at)
	}
	return n
}

// function is a function's name, and where it is declared.
type function struct{ name, file, line uint32 }

func (p *Pack) function(number uint32) (f function) {
	data := p.sections[sectionFunctions]
	i := int(number) - 1
	at := skip(data, int(fixed(p.sections[sectionFunctionIndex], i/functionGroup*4)), 3*(i%functionGroup))
	f.name, at = uvarint(data, at)
	f.file, at = uvarint(data, at)
	f.line, _ = uvarint(data, at)
	return f
}

// Rows returns the ranges of addresses with information, in the order of their addresses. For
// all addresses of a range, Find appends the same frames.
func (p *Pack) Rows() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		var last Range
		known := false
		rows := rowReader{decoder: decoder{data: p.sections[sectionRows]}, index: p.sections[sectionRowIndex]}
		for i := range p.counts[countRows] {
			r := rows.next(i)
			if last.End = rows.addr; known && !yield(last) {
				return
			}
			last.Start, known = rows.addr, r.isKnown()
		}
	}
}

// isKnown reports whether a row has any information.
func (r *row) isKnown() bool { return r.node != 0 || r.file != 0 }

// rowReader reads all rows.
type rowReader struct {
	decoder decoder
	index   string
	addr    uint32 // address of the last row that was read
	node    uint32 // node of the last row that was read
}

// next reads row i, which must be the one after the last that was read. The first row of a
// group has the address in the index.
func (d *rowReader) next(i uint32) (r row) {
	if i%rowGroup == 0 {
		d.addr, d.node = fixed(d.index, int(i/rowGroup)*8), 0
	}
	head := d.decoder.uint()
	d.addr += head >> 1
	d.node += uint32(d.decoder.int())
	r = row{node: d.node, line: d.decoder.int(), hasFile: head&1 != 0}
	if r.hasFile {
		r.file = d.decoder.uint()
	}
	return r
}
