// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"encoding/binary"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// dictionary adds entries to the tables of profiles, each of them once.
type dictionary struct {
	profiles pprofile.Profiles
	tables   pprofile.ProfilesDictionary

	// The indices of entries in the tables.
	strings    map[string]int32
	attributes map[attributeKey]int32
	locations  map[uint64]int32
	mappings   map[string]int32 // by their files
	stacks     map[string]int32 // by their addresses, eight bytes each

	functions *functions // that stand in stacks with their numbers; nil if none do
	key       []byte     // of a stack
}

type attributeKey struct {
	key   string
	text  string
	value int64
}

// keyFrameType is the attribute of locations, by the semantic conventions.
const keyFrameType = "profile.frame.type"

// These stand in a stack for the work of a CPU outside of the kernel, and for functions without an address. They are no
// addresses of the kernel.
const (
	guest uint64 = iota
	user
	firstFunction // the number of the first in functions
)

var (
	guestStack = []uint64{guest}
	userStack  = []uint64{user}
)

// GuestName is the function of the frame that stands for a guest, at address 0. kernelsym does not change a frame that has a
// name (see contract 1.2, 2.5). It is a kernel frame, because not all consumers accept frames without a type.
const GuestName = "[guest]"

// UserName is the function of the frame that stands for user code.
const UserName = "[user space]"

// addressesOf returns the stack of a sample, as stack takes it.
func addressesOf(r *perfring.Record) []uint64 {
	switch {
	case r.Guest:
		return guestStack
	case len(r.Stack) == 0:
		return userStack
	}
	return r.Stack
}

// newDictionary returns the dictionary of profiles that have no resource yet. Index 0 of each table is the zero value.
func newDictionary(f *functions) *dictionary {
	d := &dictionary{
		profiles:   pprofile.NewProfiles(),
		strings:    map[string]int32{"": 0},
		attributes: make(map[attributeKey]int32),
		locations:  make(map[uint64]int32),
		mappings:   make(map[string]int32),
		stacks:     make(map[string]int32),
		functions:  f,
	}
	d.tables = d.profiles.Dictionary()
	d.tables.StringTable().Append("")
	d.tables.AttributeTable().AppendEmpty()
	d.tables.MappingTable().AppendEmpty()
	d.tables.FunctionTable().AppendEmpty()
	d.tables.LocationTable().AppendEmpty()
	d.tables.StackTable().AppendEmpty()
	d.tables.LinkTable().AppendEmpty()
	return d
}

func (d *dictionary) setType(t pprofile.ValueType, typ, unit string) {
	t.SetTypeStrindex(d.string(typ))
	t.SetUnitStrindex(d.string(unit))
}

func (d *dictionary) stack(addrs []uint64) int32 {
	d.key = d.key[:0]
	for _, addr := range addrs {
		d.key = binary.NativeEndian.AppendUint64(d.key, addr)
	}
	if at, ok := d.stacks[string(d.key)]; ok {
		return at
	}
	at := int32(d.tables.StackTable().Len())
	d.stacks[string(d.key)] = at
	indices := d.tables.StackTable().AppendEmpty().LocationIndices()
	indices.EnsureCapacity(len(addrs))
	for _, addr := range addrs {
		indices.Append(d.location(addr))
	}
	return at
}

func (d *dictionary) location(addr uint64) int32 {
	if at, ok := d.locations[addr]; ok {
		return at
	}
	at := int32(d.tables.LocationTable().Len())
	d.locations[addr] = at
	loc := d.tables.LocationTable().AppendEmpty()
	fn, isFunction := d.functions.at(addr)
	switch {
	case addr == user:
		loc.Lines().AppendEmpty().SetFunctionIndex(d.function(UserName))
		return at
	case addr == guest:
		loc.Lines().AppendEmpty().SetFunctionIndex(d.function(GuestName))
	case isFunction:
		loc.Lines().AppendEmpty().SetFunctionIndex(d.function(fn.Name))
		loc.SetMappingIndex(d.mapping(fn.File))
		addr = 0
	}
	loc.SetAddress(addr)
	loc.AttributeIndices().Append(d.attribute(keyFrameType, "kernel", 0))
	return at
}

// mapping returns the index of the mapping of a file, without addresses.
func (d *dictionary) mapping(file string) int32 {
	at, ok := d.mappings[file]
	if !ok {
		at = int32(d.tables.MappingTable().Len())
		d.mappings[file] = at
		d.tables.MappingTable().AppendEmpty().SetFilenameStrindex(d.string(file))
	}
	return at
}

// function adds a function and returns its index.
func (d *dictionary) function(name string) int32 {
	at := int32(d.tables.FunctionTable().Len())
	f := d.tables.FunctionTable().AppendEmpty()
	f.SetNameStrindex(d.string(name))
	f.SetSystemNameStrindex(d.string(name))
	return at
}

// attribute returns the index of an attribute with that text, or with that value
// if there is no text.
func (d *dictionary) attribute(key, text string, value int64) int32 {
	k := attributeKey{key, text, value}
	if at, ok := d.attributes[k]; ok {
		return at
	}
	at := int32(d.tables.AttributeTable().Len())
	d.attributes[k] = at
	a := d.tables.AttributeTable().AppendEmpty()
	a.SetKeyStrindex(d.string(key))
	if text != "" {
		a.Value().SetStr(text)
	} else {
		a.Value().SetInt(value)
	}
	return at
}

func (d *dictionary) string(s string) int32 {
	if at, ok := d.strings[s]; ok {
		return at
	}
	at := int32(d.tables.StringTable().Len())
	d.strings[s] = at
	d.tables.StringTable().Append(s)
	return at
}
