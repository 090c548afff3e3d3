// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// numbered holds records that get their number in the pack when they are first used.
type numbered[T comparable] struct {
	records []T
	numbers []uint32 // by record: its place in the pack, counted from 1; 0 if it has none yet
	indices map[T]uint32
}

// add returns the index of a new record.
func (n *numbered[T]) add(record T) uint32 {
	n.records, n.numbers = append(n.records, record), append(n.numbers, 0)
	return uint32(len(n.records) - 1)
}

// intern returns the index of a record. It adds the record if it is new.
func (n *numbered[T]) intern(record T) uint32 {
	if n.indices == nil {
		n.indices = map[T]uint32{}
	}
	i, ok := n.indices[record]
	if !ok {
		i = n.add(record)
		n.indices[record] = i
	}
	return i
}

// output is a pack under construction.
type output struct {
	sections [numSections][]byte
	counts   [numCounts]uint32
	offsets  map[string]uint32 // of strings in their section
	err      error             // the first error
}

func (o *output) fail(kind error, format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%w: "+format, append([]any{kind}, args...)...)
	}
}

// append appends a record to a section.
func (o *output) append(to section, values ...uint32) {
	for _, v := range values {
		o.sections[to] = appendUint(o.sections[to], v)
	}
}

// index appends values of fixed size to an index, or to the files.
func (o *output) index(to section, values ...uint32) {
	for _, v := range values {
		o.sections[to] = binary.LittleEndian.AppendUint32(o.sections[to], v)
	}
}

// begin begins a new record of a section, and returns its number, counted from 1.
func (o *output) begin(records section, count, group int) uint32 {
	if o.counts[count]%uint32(group) == 0 {
		o.index(records+1, uint32(len(o.sections[records]))) // the next section is its index
	}
	o.counts[count]++
	return o.counts[count]
}

// string returns the offset of a string. It adds the string if it is new.
func (o *output) string(s string) uint32 {
	if at, ok := o.offsets[s]; ok {
		return at
	}
	if len(s) > maxString || !utf8.ValidString(s) {
		o.fail(ErrInput, "%.80q", s)
		return 0
	}
	strings := &o.sections[sectionStrings]
	at := uint32(len(*strings))
	o.offsets[s] = at
	*strings = appendString(*strings, s)
	return at
}

// file returns the number of a file in the pack.
func (w *Writer) file(f File) uint32 {
	number := &w.files.numbers[f]
	if *number == 0 {
		w.out.index(sectionFiles, w.out.string(w.files.records[f]))
		*number = uint32(len(w.out.sections[sectionFiles]) / 4)
	}
	return *number - 1
}

// function returns the number of a function in the pack.
func (w *Writer) function(f Function) uint32 {
	number := &w.functions.numbers[f]
	if *number == 0 {
		key := &w.functions.records[f]
		*number = w.out.begin(sectionFunctions, countFunctions, functionGroup)
		w.out.append(sectionFunctions, w.out.string(key.name), w.file(key.file), key.line)
	}
	return *number
}

// functionOf returns the function of a node, or the zero value if n is 0.
func (w *Writer) functionOf(n Node) *functionKey {
	return &w.functions.records[w.nodes.records[n].function]
}

// node returns the number of a node in the pack, which is higher than its parent's.
func (w *Writer) node(n Node) uint32 {
	if n == 0 || w.nodes.numbers[n] != 0 {
		return w.nodes.numbers[n]
	}
	key := w.nodes.records[n]
	parent, function := w.node(key.parent), w.function(key.function)
	number := w.out.begin(sectionNodes, countNodes, nodeGroup)
	w.nodes.numbers[n] = number
	if parent == 0 {
		w.out.append(sectionNodes, 0, function)
		return number
	}
	into := w.functionOf(key.parent)
	w.out.append(sectionNodes, (number-parent)<<1|boolBit(key.callFile != into.file), function,
		zigzag(int32(key.callLine-into.line)))
	if key.callFile != into.file {
		w.out.append(sectionNodes, w.file(key.callFile))
	}
	return number
}

// appendRow appends a row.
func (w *Writer) appendRow(addr uint32, r rowKey) {
	if w.out.counts[countRows]%rowGroup == 0 {
		w.out.index(sectionRowIndex, addr, uint32(len(w.out.sections[sectionRows])))
		w.rows.addr, w.rows.number = addr, 0
	}
	w.out.counts[countRows]++
	number, in := w.node(r.node), w.functionOf(r.node)
	w.out.append(sectionRows, (addr-w.rows.addr)<<1|boolBit(r.file != in.file), zigzag(int32(number-w.rows.number)),
		zigzag(int32(r.line-in.line)))
	if r.file != in.file {
		w.out.append(sectionRows, w.file(r.file))
	}
	w.rows = lastRow{key: r, addr: addr, number: number}
}

func boolBit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
