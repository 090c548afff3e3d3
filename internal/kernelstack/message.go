// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"crypto/rand"
	"encoding/binary"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// message collects samples in a profile.
type message struct {
	profiles pprofile.Profiles
	profile  pprofile.Profile
	dict     pprofile.ProfilesDictionary
	events   int // samples added so far

	first, last uint64 // times of samples, in nanoseconds since the Unix epoch

	// The indices of entries in the tables.
	strings    map[string]int32
	attributes map[attributeKey]int32
	locations  map[uint64]int32
	stacks     map[string]int32 // by their addresses, eight bytes each
	samples    map[sampleKey]int

	key []byte
}

type attributeKey struct {
	key   string
	text  string
	value int64
}

// sampleKey identifies samples that are merged into one.
type sampleKey struct {
	stack         int32
	pid, tid, cpu uint32
	name          string
}

// The attributes of samples and locations, by the semantic conventions.
const (
	keyFrameType  = "profile.frame.type"
	keyPID        = "process.pid"
	keyThreadID   = "thread.id"
	keyThreadName = "thread.name"
	keyCPU        = "cpu.logical_number"
)

// guest stands in a stack for the work of a CPU in a guest. It is not an address of the kernel.
const guest uint64 = 0

var guestStack = []uint64{guest}

// guestName is the function of the frame that stands for a guest. kernelsym does not change a
// frame that has a name (see contract 1.2, 2.5).
const guestName = "[guest]"

// newMessage returns an empty message for samples of the event. It uses the sample type and
// period type of the OTel eBPF profiler: not all consumers interpret others as time.
func newMessage(event perfring.Sampling, scopeName, version string) *message {
	m := &message{
		profiles:   pprofile.NewProfiles(),
		strings:    map[string]int32{"": 0},
		attributes: make(map[attributeKey]int32),
		locations:  make(map[uint64]int32),
		stacks:     make(map[string]int32),
		samples:    make(map[sampleKey]int),
	}
	// Index 0 of each table is the zero value.
	m.dict = m.profiles.Dictionary()
	m.dict.StringTable().Append("")
	m.dict.AttributeTable().AppendEmpty()
	m.dict.MappingTable().AppendEmpty()
	m.dict.FunctionTable().AppendEmpty()
	m.dict.LocationTable().AppendEmpty()
	m.dict.StackTable().AppendEmpty()
	m.dict.LinkTable().AppendEmpty()

	scope := m.profiles.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty()
	scope.Scope().SetName(scopeName)
	scope.Scope().SetVersion(version)
	m.profile = scope.Profiles().AppendEmpty()
	m.profile.SetProfileID(newProfileID())
	m.setType(m.profile.SampleType(), "samples", "count")
	m.setType(m.profile.PeriodType(), "cpu", "nanoseconds")
	m.profile.SetPeriod(event.Period().Nanoseconds())
	return m
}

func (m *message) setType(t pprofile.ValueType, typ, unit string) {
	t.SetTypeStrindex(m.string(typ))
	t.SetUnitStrindex(m.string(unit))
}

func newProfileID() (id pprofile.ProfileID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// add adds a sample. unixNano is the time when it was taken; name is the thread's name, or
// empty. The sample gets no values: without values, each timestamp counts as one.
func (m *message) add(r *perfring.Record, unixNano uint64, name string) {
	addrs := r.Stack
	if r.Guest {
		addrs = guestStack
	}
	key := sampleKey{stack: m.stack(addrs), pid: r.PID, tid: r.TID, cpu: r.CPU, name: name}
	at, ok := m.samples[key]
	samples := m.profile.Samples()
	if !ok {
		at = samples.Len()
		m.samples[key] = at
		s := samples.AppendEmpty()
		s.SetStackIndex(key.stack)
		indices := s.AttributeIndices()
		if hasNumber(r.PID) {
			indices.Append(m.attribute(keyPID, "", int64(r.PID)))
		}
		if hasNumber(r.TID) {
			indices.Append(m.attribute(keyThreadID, "", int64(r.TID)))
		}
		if name != "" {
			indices.Append(m.attribute(keyThreadName, name, 0))
		}
		indices.Append(m.attribute(keyCPU, "", int64(r.CPU)))
	}
	samples.At(at).TimestampsUnixNano().Append(unixNano)
	if m.events == 0 {
		m.first = unixNano
	}
	m.first, m.last = min(m.first, unixNano), max(m.last, unixNano)
	m.events++
}

// finish returns the message, with samples taken from start up to, but not including, end. A
// sample can lie outside, because the wall clock was set or because of the error of the
// conversion. It then widens the profile's time, which always covers all samples.
func (m *message) finish(startUnixNano, endUnixNano int64) pprofile.Profiles {
	start, end := uint64(startUnixNano), uint64(endUnixNano)
	if m.events > 0 {
		start, end = min(start, m.first), max(end, m.last+1)
	}
	m.profile.SetTime(pcommon.Timestamp(start))
	m.profile.SetDurationNano(max(start, end) - start)
	return m.profiles
}

func (m *message) stack(addrs []uint64) int32 {
	m.key = m.key[:0]
	for _, addr := range addrs {
		m.key = binary.NativeEndian.AppendUint64(m.key, addr)
	}
	if at, ok := m.stacks[string(m.key)]; ok {
		return at
	}
	at := int32(m.dict.StackTable().Len())
	m.stacks[string(m.key)] = at
	indices := m.dict.StackTable().AppendEmpty().LocationIndices()
	indices.EnsureCapacity(len(addrs))
	for _, addr := range addrs {
		indices.Append(m.location(addr))
	}
	return at
}

func (m *message) location(addr uint64) int32 {
	if at, ok := m.locations[addr]; ok {
		return at
	}
	at := int32(m.dict.LocationTable().Len())
	m.locations[addr] = at
	loc := m.dict.LocationTable().AppendEmpty()
	if addr == guest {
		loc.Lines().AppendEmpty().SetFunctionIndex(m.function(guestName))
	}
	loc.SetAddress(addr)
	loc.AttributeIndices().Append(m.attribute(keyFrameType, "kernel", 0))
	return at
}

// function adds a function and returns its index.
func (m *message) function(name string) int32 {
	at := int32(m.dict.FunctionTable().Len())
	f := m.dict.FunctionTable().AppendEmpty()
	f.SetNameStrindex(m.string(name))
	f.SetSystemNameStrindex(m.string(name))
	return at
}

// attribute returns the index of an attribute with that text, or with that value
// if there is no text.
func (m *message) attribute(key, text string, value int64) int32 {
	k := attributeKey{key, text, value}
	if at, ok := m.attributes[k]; ok {
		return at
	}
	at := int32(m.dict.AttributeTable().Len())
	m.attributes[k] = at
	a := m.dict.AttributeTable().AppendEmpty()
	a.SetKeyStrindex(m.string(key))
	if text != "" {
		a.Value().SetStr(text)
	} else {
		a.Value().SetInt(value)
	}
	return at
}

func (m *message) string(s string) int32 {
	if at, ok := m.strings[s]; ok {
		return at
	}
	at := int32(m.dict.StringTable().Len())
	m.strings[s] = at
	m.dict.StringTable().Append(s)
	return at
}
