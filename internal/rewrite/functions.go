// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// functionKind is what an entry of the function table says.
type functionKind uint8

const (
	functionUnknown functionKind = iota // was not looked at yet
	functionNamed
	functionUnnamed
)

// functions is what is known of the function table, and appends to it what is not there
// yet.
type functions struct {
	kinds    []functionKind // by index; empty while none was asked for
	appended index          // those that were appended
	all      index          // those that came with the message, when that was needed
}

// isNamed reports whether one of the lines leads to a function with a name that
// is more than a placeholder (contract 1.2).
func (t *functions) isNamed(d *dictionary, lines pprofile.LineSlice) bool {
	for i := range lines.Len() {
		if t.kind(d, lines.At(i).FunctionIndex()) == functionNamed {
			return true
		}
	}
	return false
}

// kind looks at a function once for a message.
func (t *functions) kind(d *dictionary, index int32) functionKind {
	n := d.functions.Len()
	if uint(index) >= uint(n) {
		return functionUnnamed
	}
	if len(t.kinds) == 0 {
		t.kinds = zeroed(t.kinds, n)
	}
	kind := &t.kinds[index]
	if *kind == functionUnknown {
		*kind = functionNamed
		if IsPlaceholder(nameOf(d, d.functions.At(int(index)))) {
			*kind = functionUnnamed
		}
	}
	return *kind
}

// nameOf returns a function's name, the system's if it has no other.
func nameOf(d *dictionary, f pprofile.Function) string {
	if name := d.str(f.NameStrindex()); name != "" {
		return name
	}
	return d.str(f.SystemNameStrindex())
}

// maxDigits is more digits than anybody writes an address with. Many functions can
// have one long name.
const maxDigits = 64

// IsPlaceholder reports whether a name says no more than that there is none (contract 1.2).
func IsPlaceholder(name string) bool {
	if name == "" {
		return true
	}
	switch name[0] {
	case '[':
		switch name {
		case "[unknown]", "[symbolication_failed]", "[kernel.kallsyms]", "[[kernel.kallsyms]]":
			return true
		}
		return false
	case 'U':
		return name == "UNKNOWN"
	case '0':
		if digits, ok := strings.CutPrefix(name, "0x"); ok {
			return len(digits) <= maxDigits && isHex(digits)
		}
	}
	return len(name) == 16 && isHex(name)
}

func isHex(digits string) bool {
	for i := range len(digits) {
		switch c := digits[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return digits != ""
}

// functionKey is a function's content.
type functionKey struct {
	name, system, file int32
	startLine          int64
}

func keyOf(f pprofile.Function) functionKey {
	return functionKey{f.NameStrindex(), f.SystemNameStrindex(), f.FilenameStrindex(), f.StartLine()}
}

func (k functionKey) hash() uint64 {
	h := mix(0, uint64(uint32(k.name))<<32|uint64(uint32(k.system)))
	return mix(mix(h, uint64(k.file)), uint64(k.startLine))
}

// functionText is what is known of a function, and the hashes of name.Name and file.
type functionText struct {
	name               *symtab.Name
	file               string
	nameHash, fileHash uint64
}

func textOf(name *symtab.Name, file string) functionText {
	return functionText{name, file, hashString(name.Name), hashString(file)}
}

// intern returns the index of the function with these names, of that source file, which
// is appended if it is not there.
func (t *functions) intern(m *message, name *symtab.Name, file string) int32 {
	text := textOf(name, file)
	return t.internText(m, &text)
}

// internText is intern for a function whose hashes are known.
func (t *functions) internText(m *message, text *functionText) int32 {
	return t.internFrom(m, functionKey{}, text)
}

// internFrom is internText for a function of which some is known: the names that it has, and where
// it starts.
func (t *functions) internFrom(m *message, key functionKey, text *functionText) int32 {
	d, name := &m.dictionary, text.name
	var fresh, freshSystem, freshFile bool
	if key.name == 0 {
		key.name, fresh = m.strs.internHashed(d, name.Name, text.nameHash)
	}
	if key.system == 0 && name.System == name.Name {
		key.system = key.name
	} else if key.system == 0 {
		key.system, freshSystem = m.strs.intern(d, name.System)
	}
	if key.file = 0; text.file != "" || d.str(0) != "" { // contract 1.6: 0 may not mean none
		key.file, freshFile = m.strs.internHashed(d, text.file, text.fileHash)
	}
	hash := key.hash()
	if !fresh && !freshSystem && !freshFile { // else no function can have it
		if at, ok := t.find(m, key, hash); ok {
			return at
		}
	}
	if d.functions.Len() == 0 {
		d.functions.AppendEmpty() // index 0 is the zero value
	}
	at := int32(d.functions.Len())
	f := d.functions.AppendEmpty()
	f.SetNameStrindex(key.name)
	f.SetSystemNameStrindex(key.system)
	f.SetFilenameStrindex(key.file)
	f.SetStartLine(key.startLine)
	if !t.appended.built {
		t.appended.resetAgain()
	}
	t.appended.addNew(hash, at)
	return at
}

// find finds a function among those that were appended and, if its names came with the
// message, among those that did.
func (t *functions) find(m *message, key functionKey, hash uint64) (int32, bool) {
	d := &m.dictionary
	is := func(key functionKey) func(int32) bool {
		return func(pos int32) bool { return keyOf(d.functions.At(int(pos))) == key }
	}
	equal := is(key)
	if t.appended.built {
		if at, ok := t.appended.find(hash, equal); ok {
			return at, true
		}
	}
	if max(key.name, key.system, key.file) >= m.strs.own {
		return 0, false
	}
	if !t.all.built {
		n := d.functions.Len()
		t.all.reset(n)
		for i := 1; i < n; i++ { // 0 means none
			entry := keyOf(d.functions.At(i))
			t.all.add(entry.hash(), int32(i), is(entry))
		}
	}
	return t.all.find(hash, equal)
}

// hasFile reports whether the file of a function is known.
func (t *functions) hasFile(d *dictionary, index int32) bool {
	return uint(index) < uint(d.functions.Len()) && d.str(d.functions.At(int(index)).FilenameStrindex()) != ""
}

// hasName reports whether a function has one of a symbol's names.
func (t *functions) hasName(d *dictionary, index int32, name *symtab.Name) bool {
	if uint(index) >= uint(d.functions.Len()) {
		return false
	}
	has := nameOf(d, d.functions.At(int(index)))
	return has == name.Name || has == name.System
}
