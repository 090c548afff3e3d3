package rewrite

import (
	"hash/maphash"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// tables appends to the dictionary, without duplicates of what is there. Each
// index is built when it is first needed.
type tables struct {
	strings      index
	ownStrings   int32 // the number of strings that were there
	newFunctions index // those that were appended
	functions    index // all that were there when that was needed
	attributes   index // of the kinds that this package knows
	modules      map[moduleMapping]int32

	lastModule  moduleMapping // the last that was asked for
	lastMapping int32

	functionMappings map[functionMapping]int32 // by what they say
	lastFunction     lastFunction
}

func (t *tables) end() {
	t.strings.built, t.functions.built = false, false
	t.attributes.built = false
	clear(t.modules)
	t.lastModule = moduleMapping{}
	clear(t.functionMappings)
	t.lastFunction = lastFunction{}
}

var hashSeed = maphash.MakeSeed()

func hashString(s string) uint32 { return uint32(maphash.String(hashSeed, s) >> 32) }

// stringIndex returns the index of s in the string table. fresh says that it was
// appended by this call, so that nothing can refer to it yet.
func (p *pass) stringIndex(s string) (at int32, fresh bool) {
	x := &p.tables.strings
	if !x.built {
		n := p.stringTable.Len()
		p.tables.ownStrings = int32(n)
		expected := len(p.candidates) / 4 // several frames have one function
		p.tables.newFunctions.reset(expected)
		x.reset(n + expected)
		for i := range n {
			entry := p.stringTable.At(i)
			x.add(hashString(entry), int32(i), func(pos int32) bool { return p.stringTable.At(int(pos)) == entry })
		}
	}
	hash := hashString(s)
	if at, ok := x.find(hash, func(pos int32) bool { return p.stringTable.At(int(pos)) == s }); ok {
		return at, false
	}
	if p.stringTable.Len() == 0 && s != "" {
		p.stringTable.Append("") // index 0 is the zero value
		x.addNew(hashString(""), 0)
	}
	at = int32(p.stringTable.Len())
	p.stringTable.Append(s)
	x.addNew(hash, at)
	return at, true
}

// functionKey is a function's content.
type functionKey struct {
	name, system, file int32
	startLine          int64
}

func keyOf(f pprofile.Function) functionKey {
	return functionKey{f.NameStrindex(), f.SystemNameStrindex(), f.FilenameStrindex(), f.StartLine()}
}

func (k functionKey) hash() uint32 {
	h := mix(0, uint64(uint32(k.name))<<32|uint64(uint32(k.system)))
	return mix(mix(h, uint64(k.file)), uint64(k.startLine))
}

// functionIndex returns the index of the function with these names, of that source
// file.
func (p *pass) functionIndex(name *symtab.Name, file string) int32 {
	var key functionKey
	var fresh, freshSystem, freshFile bool
	key.name, fresh = p.stringIndex(name.Name)
	key.system = key.name
	if name.System != name.Name {
		key.system, freshSystem = p.stringIndex(name.System)
	}
	if file != "" {
		key.file, freshFile = p.stringIndex(file)
	}
	hash := key.hash()
	if !fresh && !freshSystem && !freshFile { // else no function can have it
		if at, ok := p.findFunction(key, hash); ok {
			return at
		}
	}
	if p.funcTable.Len() == 0 {
		p.funcTable.AppendEmpty() // index 0 is the zero value
	}
	at := int32(p.funcTable.Len())
	f := p.funcTable.AppendEmpty()
	f.SetNameStrindex(key.name)
	f.SetSystemNameStrindex(key.system)
	f.SetFilenameStrindex(key.file)
	p.tables.newFunctions.addNew(hash, at)
	return at
}

// findFunction finds a function among those that were appended and, if its name
// was there before, among the others.
func (p *pass) findFunction(key functionKey, hash uint32) (int32, bool) {
	t := &p.tables
	is := func(key functionKey) func(int32) bool {
		return func(pos int32) bool { return keyOf(p.funcTable.At(int(pos))) == key }
	}
	equal := is(key)
	if at, ok := t.newFunctions.find(hash, equal); ok {
		return at, true
	}
	if max(key.name, key.system, key.file) >= t.ownStrings {
		return 0, false
	}
	if !t.functions.built {
		n := p.funcTable.Len()
		t.functions.reset(n)
		for i := range n {
			entry := keyOf(p.funcTable.At(i))
			t.functions.add(entry.hash(), int32(i), is(entry))
		}
	}
	return t.functions.find(hash, equal)
}
