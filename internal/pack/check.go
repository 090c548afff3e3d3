// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"errors"
	"fmt"
)

// check reads the whole pack once, so that no look-up can fail or take long.
func (p *Pack) check() error {
	d := decoder{data: p.sections[sectionInfo]}
	p.info = d.info()
	if d.failed || d.left() > 0 {
		return errors.New("information cut off")
	}
	if err := p.info.check(); err != nil {
		return err
	}
	c := checker{pack: p}
	for _, s := range []struct {
		what  string
		check func() bool
	}{
		{"strings", c.strings},
		{"files", c.files},
		{"functions", c.functions},
		{"nodes", c.nodes},
		{"rows", c.rows},
		{"symbols", c.symbols},
	} {
		if !s.check() {
			return fmt.Errorf("malformed %s", s.what)
		}
	}
	return nil
}

// checker checks the sections of a pack in order: each refers to earlier sections.
type checker struct {
	pack       *Pack
	starts     []uint64 // a bit for each offset at which a string begins
	lines      []uint32 // by function, from 1
	functionOf []uint32 // by node, from 1
}

// strings checks the strings. The first must be empty, and no other may be: a record that
// refers to another string relies on it not being empty.
func (c *checker) strings() bool {
	d := decoder{data: c.pack.sections[sectionStrings]}
	c.starts = make([]uint64, len(d.data)/64+1)
	for d.left() > 0 {
		start := d.at
		c.starts[start/64] |= 1 << (start % 64)
		if empty := d.string() == ""; empty != (start == 0) {
			return false
		}
	}
	return !d.failed && len(d.data) > 0
}

// isString reports whether a string begins at an offset.
func (c *checker) isString(at uint32) bool {
	return int(at) < len(c.pack.sections[sectionStrings]) && c.starts[at/64]&(1<<(at%64)) != 0
}

// isFile reports whether a file has that number.
func (c *checker) isFile(number uint32) bool {
	return int(number) < len(c.pack.sections[sectionFiles])/4
}

// files checks the table of files. The first entry stands for no file.
func (c *checker) files() bool {
	files := c.pack.sections[sectionFiles]
	if len(files) < 4 || len(files)%4 != 0 || fixed(files, 0) != 0 {
		return false
	}
	for at := 0; at < len(files); at += 4 {
		if !c.isString(fixed(files, at)) {
			return false
		}
	}
	return true
}

// isIndexed reports whether an index of offsets has the right length for count records, and
// whether the section can hold that many records.
func isIndexed(index, records string, count uint32, group int) bool {
	return int64(count) <= int64(len(records)) && len(index) == 4*((int(count)+group-1)/group)
}

func (c *checker) functions() bool {
	d := decoder{data: c.pack.sections[sectionFunctions]}
	index, count := c.pack.sections[sectionFunctionIndex], c.pack.counts[countFunctions]
	if !isIndexed(index, d.data, count, functionGroup) {
		return false
	}
	c.lines = make([]uint32, count+1)
	for i := range count {
		if i%functionGroup == 0 && int(fixed(index, int(i/functionGroup*4))) != d.at {
			return false
		}
		name, file, line := d.uint(), d.uint(), d.uint()
		if name == 0 || !c.isString(name) || !c.isFile(file) || line > maxNumber {
			return false
		}
		c.lines[i+1] = line
	}
	return !d.failed && d.left() == 0
}

func (c *checker) nodes() bool {
	d := decoder{data: c.pack.sections[sectionNodes]}
	index, count := c.pack.sections[sectionNodeIndex], c.pack.counts[countNodes]
	if !isIndexed(index, d.data, count, nodeGroup) {
		return false
	}
	c.functionOf = make([]uint32, count+1)
	depths := make([]uint8, count+1)
	for i := range count {
		if i%nodeGroup == 0 && int(fixed(index, int(i/nodeGroup*4))) != d.at {
			return false
		}
		head, function, number := d.uint(), d.uint(), i+1
		if function == 0 || int(function) >= len(c.lines) {
			return false
		}
		c.functionOf[number] = function
		depths[number] = 1
		if distance := head >> 1; distance == 0 {
			if head != 0 {
				return false
			}
			continue
		} else if distance >= number {
			return false
		}
		parent := number - head>>1
		depths[number] = depths[parent] + 1
		if depths[number] > maxDepth || !isLine(c.lines[c.functionOf[parent]], d.int()) {
			return false
		}
		if head&1 != 0 && !c.isFile(d.uint()) {
			return false
		}
	}
	return !d.failed && d.left() == 0
}

// isLine reports whether a line plus a delta is a valid line number.
func isLine(from uint32, delta int32) bool {
	line := int64(from) + int64(delta)
	return 0 <= line && line <= maxNumber
}

// rows checks the rows: their addresses must increase, and the last one must have no
// information.
func (c *checker) rows() bool {
	index, count := c.pack.sections[sectionRowIndex], c.pack.counts[countRows]
	d := rowReader{decoder: decoder{data: c.pack.sections[sectionRows]}, index: index}
	if int64(count) > int64(len(d.decoder.data)) || len(index) != 8*((int(count)+rowGroup-1)/rowGroup) {
		return false
	}
	var r row
	for i := range count {
		before := d.addr
		if i%rowGroup == 0 && int(fixed(index, int(i/rowGroup)*8+4)) != d.decoder.at {
			return false
		}
		isFirst := i%rowGroup == 0 && d.decoder.left() > 0 && d.decoder.data[d.decoder.at]>>1 == 0
		r = d.next(i)
		switch {
		case i%rowGroup == 0 && !isFirst, i > 0 && d.addr <= before:
			return false
		case int(r.node) >= len(c.functionOf), !c.isFile(r.file):
			return false
		case !isLine(c.lines[c.functionOf[r.node]], r.line):
			return false
		}
	}
	return !d.decoder.failed && d.decoder.left() == 0 && !r.isKnown()
}

// symbols checks the symbols: none may begin before the end of the previous one.
func (c *checker) symbols() bool {
	d := decoder{data: c.pack.sections[sectionSymbols]}
	count := c.pack.counts[countSymbols]
	if int64(count) > int64(len(d.data)) {
		return false
	}
	var end uint32
	for range count {
		s := d.symbol(end)
		name := d.uint()
		if s.Range.Start < end || s.Range.End <= s.Range.Start || name == 0 || !c.isString(name) {
			return false
		}
		end = s.Range.End
	}
	return !d.failed && d.left() == 0
}
