// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// callLen is the length of a call instruction. A return address is at least that far from the
// function's start.
const callLen = 5

// size is the size of a message.
type size struct {
	locations, stacks, depth, samples int
	noKernel                          bool // no location belongs to the kernel
	mixed                             bool // a location is the leaf of some stacks and a caller in others
}

// times returns the size of a message that is some times larger.
func (s size) times(n int) size {
	s.locations, s.stacks, s.samples = n*s.locations, n*s.stacks, n*s.samples
	return s
}

// newMessage returns a message as an agent for whole-system profiling sends it: 30 % of its
// locations are kernel code without a name, 40 % are native code without a name, and 30 % are
// interpreted or JITed code with a line. There is one kernel function for every three kernel
// locations, because a function makes calls in several places, and is interrupted in more.
func newMessage(r *rand.Rand, core *timeline.Image, s size) pprofile.Profiles {
	pd := pprofile.NewProfiles()
	dict := pd.Dictionary()
	dict.StringTable().Append("", "profile.frame.type", "thread.name", "process.pid")
	for _, frameType := range []string{"", "kernel", "native", "jvm"} {
		a := dict.AttributeTable().AppendEmpty()
		if frameType != "" {
			a.SetKeyStrindex(1)
			a.Value().SetStr(frameType)
		}
	}
	const firstThread, threads = 4, 200
	for i := range threads {
		a := dict.AttributeTable().AppendEmpty()
		a.SetKeyStrindex(2)
		a.Value().SetStr(fmt.Sprintf("thread-%d", i))
	}
	const mappings = 300
	for i := range mappings {
		m := dict.MappingTable().AppendEmpty()
		if i > 0 {
			m.SetFilenameStrindex(int32(dict.StringTable().Len()))
			dict.StringTable().Append(fmt.Sprintf("/usr/lib/x86_64-linux-gnu/libsomething%d.so.1", i))
			m.SetMemoryStart(uint64(i) << 32)
			m.SetMemoryLimit(uint64(i)<<32 + 1<<20)
		}
	}
	dict.FunctionTable().AppendEmpty()
	dict.LinkTable().AppendEmpty()
	dict.LocationTable().AppendEmpty()
	functions := make([]symtab.Symbol, max(1, s.locations/10))
	for i := range functions {
		for functions[i] = core.Text.Symbol(r.IntN(core.Len())); core.Text.Landmarks.Entry.Contains(functions[i].Start); {
			functions[i] = core.Text.Symbol(r.IntN(core.Len())) // not entry code, whose callers were interrupted
		}
	}
	for i := 1; i < s.locations; i++ {
		loc := dict.LocationTable().AppendEmpty()
		switch kind := r.IntN(10); {
		case kind < 3 && !s.noKernel:
			loc.AttributeIndices().Append(1)
			f := functions[r.IntN(len(functions))]
			loc.SetAddress(f.Start + min(callLen+r.Uint64N(f.End()-f.Start), f.End()-f.Start-1))
		case kind < 7:
			loc.AttributeIndices().Append(2)
			loc.SetAddress(r.Uint64N(1 << 20))
			loc.SetMappingIndex(1 + r.Int32N(mappings-1))
		default:
			loc.AttributeIndices().Append(3)
			f := dict.FunctionTable().AppendEmpty()
			f.SetNameStrindex(int32(dict.StringTable().Len()))
			dict.StringTable().Append(fmt.Sprintf("com.example.application.Service%d.handle", i))
			line := loc.Lines().AppendEmpty()
			line.SetFunctionIndex(int32(dict.FunctionTable().Len() - 1))
			line.SetLine(int64(r.IntN(1000)))
		}
	}
	dict.StackTable().AppendEmpty()
	for range s.stacks {
		indices := dict.StackTable().AppendEmpty().LocationIndices()
		// The CPU is seldom interrupted at a return address.
		leaves, callers := int32(s.locations/5), int32(s.locations/5)
		if s.mixed {
			leaves, callers = int32(s.locations-1), 0
		}
		indices.Append(1 + r.Int32N(leaves))
		for range s.depth - 1 {
			indices.Append(1 + callers + r.Int32N(int32(s.locations-1)-callers))
		}
	}
	scope := pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty()
	scope.Scope().SetName("bench")
	profile := scope.Profiles().AppendEmpty()
	for range s.samples {
		sample := profile.Samples().AppendEmpty()
		sample.SetStackIndex(1 + r.Int32N(int32(s.stacks)))
		sample.Values().Append(1)
		sample.TimestampsUnixNano().Append(uint64(firstSample) + r.Uint64N(5_000_000_000))
		sample.AttributeIndices().Append(firstThread + r.Int32N(threads))
	}
	return pd
}

// newRealistic returns a message shaped like the messages that agents send from a busy node every
// few seconds. It has few locations and shallow stacks. The kernel frames are at the leaf end, and
// the last one is in entry code. Where the CPU was interrupted is seldom a return address, too.
func newRealistic(r *rand.Rand, core *timeline.Image, locations int) pprofile.Profiles {
	functions, stacks, samples := locations*7/10, locations*7/20, locations*2/5
	pd := pprofile.NewProfiles()
	dict := pd.Dictionary()
	dict.StringTable().Append("", "profile.frame.type", "kernel", "native", "libc.so.6")
	dict.AttributeTable().AppendEmpty()
	for _, frameType := range []string{"kernel", "native"} {
		a := dict.AttributeTable().AppendEmpty()
		a.SetKeyStrindex(1)
		a.Value().SetStr(frameType)
	}
	dict.MappingTable().AppendEmpty()
	dict.MappingTable().AppendEmpty().SetFilenameStrindex(4)
	dict.FunctionTable().AppendEmpty()
	dict.LinkTable().AppendEmpty()
	dict.LocationTable().AppendEmpty()
	const kernel, native = 1, 2
	add := func(frameType int32, addr uint64, mapping int32) int32 {
		loc := dict.LocationTable().AppendEmpty()
		loc.AttributeIndices().Append(frameType)
		loc.SetAddress(addr)
		loc.SetMappingIndex(mapping)
		return int32(dict.LocationTable().Len() - 1)
	}
	var inKernel, inUser []int32
	called := make([]symtab.Symbol, functions)
	for i := range called {
		called[i] = core.Text.Symbol(r.IntN(core.Len()))
	}
	for range locations * 3 / 4 {
		f := called[r.IntN(functions)]
		inKernel = append(inKernel, add(kernel, f.Start+min(callLen+r.Uint64N(f.End()-f.Start), f.End()-f.Start-1), 0))
	}
	for range locations - locations*3/4 {
		inUser = append(inUser, add(native, r.Uint64N(1<<20), 1))
	}
	entry := add(kernel, core.Text.Landmarks.Entry.Start+1+r.Uint64N(core.Text.Landmarks.Entry.End-core.Text.Landmarks.Entry.Start-1), 0)
	interrupted := len(inKernel) / 3
	leaves, callers := inKernel[:interrupted], inKernel[interrupted-interrupted/20:]
	dict.StackTable().AppendEmpty()
	for range stacks {
		indices := dict.StackTable().AppendEmpty().LocationIndices()
		indices.Append(leaves[r.IntN(len(leaves))])
		for range 2 + r.IntN(7) {
			indices.Append(callers[r.IntN(len(callers))])
		}
		indices.Append(entry)
		for range r.IntN(6) {
			indices.Append(inUser[r.IntN(len(inUser))])
		}
	}
	scope := pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty()
	profile := scope.Profiles().AppendEmpty()
	for range samples {
		sample := profile.Samples().AppendEmpty()
		sample.SetStackIndex(1 + r.Int32N(int32(stacks)))
		sample.Values().Append(1)
		sample.TimestampsUnixNano().Append(uint64(firstSample) + r.Uint64N(5_000_000_000))
	}
	return pd
}

func copyOf(pd pprofile.Profiles) pprofile.Profiles {
	c := pprofile.NewProfiles()
	pd.CopyTo(c)
	return c
}

func equal(a, b pprofile.Profiles) bool {
	var m pprofile.ProtoMarshaler
	x, errX := m.MarshalProfiles(copyOf(a))
	y, errY := m.MarshalProfiles(copyOf(b))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// answers holds everything that a rewrite changed in a message, with all indices known.
type answers struct {
	strings    []string
	functions  []pprofile.Function
	mappings   []pprofile.Mapping
	attributes []pprofile.KeyValueAndUnit
	appended   []pprofile.Location
	changed    []change
	stacks     []pprofile.Stack
	stackIndex map[int]int32 // by sample
	inPlace    map[int][]int32
}

// change is the change to one location.
type change struct {
	index    int
	address  uint64
	mapping  int32
	function int32
}

func answersOf(before, after pprofile.Profiles) *answers {
	a := &answers{stackIndex: make(map[int]int32), inPlace: make(map[int][]int32)}
	x, y := before.Dictionary(), after.Dictionary()
	for i := x.StringTable().Len(); i < y.StringTable().Len(); i++ {
		a.strings = append(a.strings, y.StringTable().At(i))
	}
	for i := x.FunctionTable().Len(); i < y.FunctionTable().Len(); i++ {
		a.functions = append(a.functions, y.FunctionTable().At(i))
	}
	for i := x.MappingTable().Len(); i < y.MappingTable().Len(); i++ {
		a.mappings = append(a.mappings, y.MappingTable().At(i))
	}
	for i := x.AttributeTable().Len(); i < y.AttributeTable().Len(); i++ {
		a.attributes = append(a.attributes, y.AttributeTable().At(i))
	}
	for i := x.LocationTable().Len(); i < y.LocationTable().Len(); i++ {
		a.appended = append(a.appended, y.LocationTable().At(i))
	}
	for i := range x.LocationTable().Len() {
		if l := y.LocationTable().At(i); !l.Equal(x.LocationTable().At(i)) {
			c := change{index: i, address: l.Address(), mapping: l.MappingIndex()}
			if l.Lines().Len() > 0 {
				c.function = l.Lines().At(0).FunctionIndex()
			}
			a.changed = append(a.changed, c)
		}
	}
	for i := x.StackTable().Len(); i < y.StackTable().Len(); i++ {
		a.stacks = append(a.stacks, y.StackTable().At(i))
	}
	for i := range x.StackTable().Len() {
		if s := y.StackTable().At(i); !s.Equal(x.StackTable().At(i)) {
			a.inPlace[i] = s.LocationIndices().AsRaw()
		}
	}
	u, v := samplesOf(before), samplesOf(after)
	for i := range u.Len() {
		if to := v.At(i).StackIndex(); to != u.At(i).StackIndex() {
			a.stackIndex[i] = to
		}
	}
	return a
}

func samplesOf(pd pprofile.Profiles) pprofile.SampleSlice {
	return pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples()
}

// write makes the changes in the fastest possible way: each table grows once.
func (a *answers) write(pd pprofile.Profiles) {
	d := pd.Dictionary()
	d.StringTable().EnsureCapacity(d.StringTable().Len() + len(a.strings))
	d.FunctionTable().EnsureCapacity(d.FunctionTable().Len() + len(a.functions))
	d.LocationTable().EnsureCapacity(d.LocationTable().Len() + len(a.appended))
	d.StackTable().EnsureCapacity(d.StackTable().Len() + len(a.stacks))
	for _, s := range a.strings {
		d.StringTable().Append(s)
	}
	for _, f := range a.functions {
		to := d.FunctionTable().AppendEmpty()
		to.SetNameStrindex(f.NameStrindex())
		to.SetSystemNameStrindex(f.SystemNameStrindex())
	}
	for _, m := range a.mappings {
		m.CopyTo(d.MappingTable().AppendEmpty())
	}
	for _, attr := range a.attributes {
		attr.CopyTo(d.AttributeTable().AppendEmpty())
	}
	for _, c := range a.changed {
		loc := d.LocationTable().At(c.index)
		loc.SetAddress(c.address)
		loc.SetMappingIndex(c.mapping)
		if c.function != 0 {
			loc.Lines().EnsureCapacity(1)
			loc.Lines().AppendEmpty().SetFunctionIndex(c.function)
		}
	}
	for _, l := range a.appended {
		l.CopyTo(d.LocationTable().AppendEmpty())
	}
	for i, indices := range a.inPlace {
		d.StackTable().At(i).LocationIndices().FromRaw(indices)
	}
	for _, s := range a.stacks {
		s.CopyTo(d.StackTable().AppendEmpty())
	}
	samples := samplesOf(pd)
	for i, to := range a.stackIndex {
		samples.At(i).SetStackIndex(to)
	}
}
