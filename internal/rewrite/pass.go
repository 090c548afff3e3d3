package rewrite

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// pass is the work on one message. Its memory is used again for the next.
type pass struct {
	opts     *Options
	known    Known
	counts   Counts
	clockOff int  // profiles
	wrote    bool // the message is another than before

	dictionary
	attributes    attributes
	mappings      []mapping // what is known of each mapping, by its index; see mappingAt
	functionKinds []functionKind
	candidates    []candidate
	anyNamed      bool // there are kernel frames that had a name before
	dangling      dangling

	frames           []frame
	order, orderNext []int32
	last             answer   // the last one that had a symbol
	function         function // the last one that was written

	tables tables
	split  split
	times  times
}

// dictionary is the message and its tables.
type dictionary struct {
	resources    pprofile.ResourceProfilesSlice
	stringTable  pcommon.StringSlice
	attrTable    pprofile.KeyValueAndUnitSlice
	mappingTable pprofile.MappingSlice
	funcTable    pprofile.FunctionSlice
	locTable     pprofile.LocationSlice
	stackTable   pprofile.StackSlice
}

func (d *dictionary) use(pd pprofile.Profiles) {
	dict := pd.Dictionary()
	*d = dictionary{
		resources:    pd.ResourceProfiles(),
		stringTable:  dict.StringTable(),
		attrTable:    dict.AttributeTable(),
		mappingTable: dict.MappingTable(),
		funcTable:    dict.FunctionTable(),
		locTable:     dict.LocationTable(),
		stackTable:   dict.StackTable(),
	}
}

// str returns entry i of the string table, and false if there is none. Entry 0 is empty
// also where the table was left out.
func (d *dictionary) str(i int32) (string, bool) {
	if uint(i) >= uint(d.stringTable.Len()) {
		return "", i == 0
	}
	return d.stringTable.At(int(i)), true
}

func (p *pass) begin(pd pprofile.Profiles, opts *Options, known Known) {
	p.use(pd)
	p.opts, p.known = opts, known
	p.counts, p.clockOff, p.wrote = Counts{}, 0, false
}

// maxKept is the number of table entries in a message up to which a pass keeps
// the memory it needed for it.
const maxKept = 1 << 17

// end forgets the message and reports whether the pass should be used again.
func (p *pass) end() bool {
	keep := max(p.locTable.Len(), p.stringTable.Len(), p.attrTable.Len(),
		p.mappingTable.Len(), p.funcTable.Len(), p.stackTable.Len(), p.split.len()) <= maxKept
	p.dictionary = dictionary{}
	p.opts, p.known = nil, Known{}
	clear(p.mappings)
	clear(p.frames)
	p.functionKinds = p.functionKinds[:0]
	p.mappings, p.candidates, p.frames = p.mappings[:0], p.candidates[:0], p.frames[:0]
	p.anyNamed, p.last, p.function = false, answer{}, function{}
	p.tables.end()
	p.split.end()
	p.times.end()
	return keep
}

// count counts a frame.
func (p *pass) count(o Outcome, of owner) { p.counts[o][of.origin()]++ }
