// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/index"
)

// A Function is the content of an entry of the function table.
type Function struct {
	Name, System, File string
	StartLine          int64
}

// Functions is the function table.
type Functions struct {
	message   *Message
	table     pprofile.FunctionSlice
	appended  index.Index // of the entries that were appended
	came      index.Index // of the entries of the message
	isIndexed bool        // came is filled, which is seldom needed
	owned     int32       // the number of those
}

func (f *Functions) open(m *Message) {
	f.message = m
	f.appended.Clear()
	f.isIndexed = false
	f.owned = int32(f.table.Len())
}

// Len returns the number of functions.
func (f *Functions) Len() int { return f.table.Len() }

// At returns the content of a function, the zero value if there is none with that index.
func (f *Functions) At(i int32) Function {
	if uint(i) >= uint(f.table.Len()) {
		return Function{}
	}
	entry, strings := f.table.At(int(i)), &f.message.Strings
	return Function{
		Name: strings.At(entry.NameStrindex()), System: strings.At(entry.SystemNameStrindex()),
		File: strings.At(entry.FilenameStrindex()), StartLine: entry.StartLine(),
	}
}

// Name returns the name of a function, its system name if it has no other.
func (f *Functions) Name(i int32) string {
	if uint(i) >= uint(f.table.Len()) {
		return ""
	}
	entry := f.table.At(int(i))
	if name := f.message.Strings.At(entry.NameStrindex()); name != "" {
		return name
	}
	return f.message.Strings.At(entry.SystemNameStrindex())
}

// functionKey is the content of a function by the indices of its strings.
type functionKey struct {
	name, system, file int32
	startLine          int64
}

func keyOfFunction(f pprofile.Function) functionKey {
	return functionKey{f.NameStrindex(), f.SystemNameStrindex(), f.FilenameStrindex(), f.StartLine()}
}

func (k functionKey) hash() uint64 {
	h := index.Mix(0, uint64(uint32(k.name))<<32|uint64(uint32(k.system)))
	return index.Mix(index.Mix(h, uint64(k.file)), uint64(k.startLine))
}

// Intern returns the index of a function.
func (f *Functions) Intern(c Function) int32 {
	strings := &f.message.Strings
	key := functionKey{name: strings.Intern(c.Name), startLine: c.StartLine}
	key.system = key.name
	if c.System != c.Name {
		key.system = strings.Intern(c.System)
	}
	key.file = strings.Intern(c.File)
	return f.intern(key)
}

// InternWithFile returns the index of a function that has the file of c, and all else of the function with an index. A
// name that is missing there, or is given by index 0, is that of c.
func (f *Functions) InternWithFile(i int32, c Function) int32 {
	strings, key := &f.message.Strings, keyOfFunction(f.table.At(int(i)))
	if key.name == 0 || strings.At(key.name) == "" {
		key.name = strings.Intern(c.Name)
	}
	if key.system == 0 || strings.At(key.system) == "" {
		key.system = strings.Intern(c.System)
	}
	key.file = strings.Intern(c.File)
	return f.intern(key)
}

func (f *Functions) intern(key functionKey) int32 {
	hash := key.hash()
	if at, ok := f.find(key, hash); ok {
		return at
	}
	if f.table.Len() == 0 {
		f.table.AppendEmpty() // index 0 means none
	}
	at := int32(f.table.Len())
	entry := f.table.AppendEmpty()
	entry.SetNameStrindex(key.name)
	entry.SetSystemNameStrindex(key.system)
	entry.SetFilenameStrindex(key.file)
	entry.SetStartLine(key.startLine)
	f.appended.AddNew(hash, at)
	return at
}

// find finds a function among the appended ones. A function that came with the message has only
// strings that did, too.
func (f *Functions) find(key functionKey, hash uint64) (int32, bool) {
	is := func(i int32) bool { return keyOfFunction(f.table.At(int(i))) == key }
	if at, ok := f.appended.Find(hash, is); ok {
		return at, true
	}
	strings := &f.message.Strings
	if !strings.cameWithMessage(key.name) || !strings.cameWithMessage(key.system) || !strings.cameWithMessage(key.file) {
		return 0, false
	}
	if !f.isIndexed {
		f.buildIndex()
	}
	return f.came.Find(hash, is)
}

func (f *Functions) buildIndex() {
	f.isIndexed = true
	f.came.Reset(int(f.owned))
	for i := int32(1); i < f.owned; i++ { // 0 means none
		key := keyOfFunction(f.table.At(int(i)))
		f.came.Add(key.hash(), i, func(other int32) bool { return keyOfFunction(f.table.At(int(other))) == key })
	}
}
