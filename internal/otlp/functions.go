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
	message  *Message
	table    pprofile.FunctionSlice
	interner interner[functionKey]
}

func (f *Functions) open(m *Message) {
	f.message = m
	f.interner.open(f.table.Len())
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

func (f *Functions) keyOf(i int32) functionKey {
	entry := f.table.At(int(i))
	return functionKey{entry.NameStrindex(), entry.SystemNameStrindex(), entry.FilenameStrindex(), entry.StartLine()}
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
	strings, key := &f.message.Strings, f.keyOf(i)
	if key.name == 0 || strings.At(key.name) == "" {
		key.name = strings.Intern(c.Name)
	}
	if key.system == 0 || strings.At(key.system) == "" {
		key.system = strings.Intern(c.System)
	}
	key.file = strings.Intern(c.File)
	return f.intern(key)
}

// intern returns the index of a function. An original one has only original strings.
func (f *Functions) intern(key functionKey) int32 {
	strings := &f.message.Strings
	mayBeOriginal := strings.isOriginal(key.name) && strings.isOriginal(key.system) && strings.isOriginal(key.file)
	at, _ := f.interner.intern(f, key, mayBeOriginal)
	return at
}

func (f *Functions) content(i int32) (key functionKey, isFindable bool) { return f.keyOf(i), i != 0 }
func (f *Functions) has(i int32, key functionKey) bool                  { return f.keyOf(i) == key }

func (f *Functions) hash(key functionKey) uint64 {
	h := index.Mix(0, uint64(uint32(key.name))<<32|uint64(uint32(key.system)))
	return index.Mix(index.Mix(h, uint64(key.file)), uint64(key.startLine))
}

func (f *Functions) append(key functionKey) int32 {
	if f.table.Len() == 0 {
		f.table.AppendEmpty() // index 0 means none
	}
	entry := f.table.AppendEmpty()
	entry.SetNameStrindex(key.name)
	entry.SetSystemNameStrindex(key.system)
	entry.SetFilenameStrindex(key.file)
	entry.SetStartLine(key.startLine)
	return int32(f.table.Len() - 1)
}
