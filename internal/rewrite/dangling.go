package rewrite

import "math"

// dangling has, for tables that are appended to, the lowest index by which a location,
// or what it refers to, refers past the end of the table. What is appended there would
// be taken for what was meant: a frame could get another one's name.
type dangling struct{ strings, attributes, mappings, functions lowest }

// lowest is the lowest index seen that is in no table of that length. Index 0 means
// nothing, also in a table that was left out.
type lowest struct{ length, index int32 }

func lowestOf(length int) lowest { return lowest{length: int32(length), index: math.MaxInt32} }

func (l *lowest) see(index int32) {
	if index >= l.length && index > 0 {
		l.index = min(l.index, index)
	}
}

// canTake reports whether n entries can be appended that nothing refers to yet, behind
// the zero value that an empty table gets first.
func (l *lowest) canTake(n int) bool { return int(l.index) >= max(1, int(l.length))+n }

// What is appended at most for a location that is written: a mapping and a function,
// with their names, and attributes of the location and the mapping. The keys of these
// are appended once.
const (
	stringsAWrite    = 4
	attributesAWrite = 8
)

// canWrite reports whether n locations can be written without anything appended that a
// location refers to already.
func (d *dangling) canWrite(n int) bool {
	return d.strings.canTake(stringsAWrite*n+numAttributes) && d.attributes.canTake(attributesAWrite*n) &&
		d.mappings.canTake(n) && d.functions.canTake(n)
}

func (p *pass) beginDangling() {
	p.dangling = dangling{
		strings:    lowestOf(p.stringTable.Len()),
		attributes: lowestOf(p.attrTable.Len()),
		mappings:   lowestOf(p.mappingTable.Len()),
		functions:  lowestOf(p.funcTable.Len()),
	}
}

// findDangling looks at what locations refer to, and what that refers to, but for
// attributes, which have been looked at.
func (p *pass) findDangling() {
	d := &p.dangling
	for i := range p.locTable.Len() {
		loc := p.locTable.At(i)
		d.mappings.see(loc.MappingIndex())
		lines := loc.Lines()
		for k := range lines.Len() {
			d.functions.see(lines.At(k).FunctionIndex())
		}
	}
	for i := range p.mappingTable.Len() {
		m := p.mappingTable.At(i)
		d.strings.see(m.FilenameStrindex())
		indices := m.AttributeIndices()
		for k := range indices.Len() {
			d.attributes.see(indices.At(k))
		}
	}
	for i := range p.funcTable.Len() {
		f := p.funcTable.At(i)
		d.strings.see(f.NameStrindex())
		d.strings.see(f.SystemNameStrindex())
		d.strings.see(f.FilenameStrindex())
	}
}
