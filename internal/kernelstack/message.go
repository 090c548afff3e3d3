// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"crypto/rand"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// message collects the samples of an interval, in a profile for each resource.
type message struct {
	kind kind
	form form

	parts    []*dictionary       // each of them is sent on its own
	profiles map[string]*profile // by the container of the resource, empty for the host
	events   int                 // samples added so far; a sum of waits is one
	waits    int                 // waits added so far
	indices  []int32             // of the attributes of the sample that is being added

	first, last uint64 // times of samples, in nanoseconds since the Unix epoch
}

// form says how samples are written.
type form struct {
	scopeName, version string
	containerID        string // OnResource, OnSamples or OnBoth
	omit               Omit
	resource           map[string]string // the attributes of each resource, but for the container's id
	functions          *functions        // which stand in stacks with their numbers; nil if none do
}

// Where the id of a container stands.
const (
	OnResource = "resource" // each container has one
	OnSamples  = "samples"  // all of which have one resource
	OnBoth     = "both"
)

// Omit says which attributes samples do not have.
type Omit struct {
	Process, Thread, ThreadName, CPU bool
}

// kind says what the samples of a message mean.
type kind struct {
	sampleType, unit string
	periodType       string        // in nanoseconds; never empty, because Parca cannot list profiles without a period type
	period           time.Duration // the time that each of them stands for; 0 if they have values
}

// kindOfWaits is the kind of samples that stand for waits. Their sample type is that of the OTel eBPF profiler. Pyroscope
// recognizes them by the period 0.
var kindOfWaits = kind{sampleType: "off_cpu", unit: "nanoseconds", periodType: "off_cpu"}

// A sample says where in the kernel a thread was interrupted, or how long it waited.
type sample struct {
	stack         []uint64 // leaf first; or guestStack or userStack
	pid, tid, cpu uint32
	name          string // of the thread; empty if it is not known
	owner         owner
	at            int64 // when it was taken, or the end of the wait, on the clock of the records
	waited        int64 // nanoseconds; 0 if it was interrupted
	preempted     bool  // it waited although it could have gone on
	before        bool  // the wait began before recording
	sums          bool  // it may be summed: the names of its stack do not depend on the time
}

// maxResources is the number of resources that a part has at most. Messages of many resources are large, and consumers
// may do work for each of them.
const maxResources = 256

// profile is the profile of one resource.
type profile struct {
	dictionary *dictionary
	profile    pprofile.Profile
	samples    map[string]int // the indices of samples, by their stack and attributes, four bytes for the index of each
	key        []byte         // of a sample
}

// The attributes of resources and samples.
const (
	keyContainer  = string(semconv.ContainerIDKey)
	keyPID        = string(semconv.ProcessPIDKey)
	keyThreadID   = string(semconv.ThreadIDKey)
	keyThreadName = string(semconv.ThreadNameKey)
	keyCPU        = string(semconv.CPULogicalNumberKey)
	keySwitch     = string(semconv.ProcessContextSwitchTypeKey)
)

// The values of keySwitch for blocked and for preempted threads.
const (
	voluntary   = "voluntary"
	involuntary = "involuntary"
)

// newMessage returns an empty message for samples of a kind.
func newMessage(k kind, f form) *message {
	return &message{kind: k, form: f, profiles: make(map[string]*profile)}
}

// of returns the profile for samples of a container, or of the host if its id is empty.
func (m *message) of(container string) *profile {
	if m.form.containerID == OnSamples {
		container = ""
	}
	p, ok := m.profiles[container]
	if !ok {
		p = m.newProfile(container)
		m.profiles[container] = p
	}
	return p
}

// newProfile returns an empty profile. Samples of running threads have the types of the OTel eBPF profiler: not all consumers
// interpret others as time.
func (m *message) newProfile(container string) *profile {
	if len(m.profiles)%maxResources == 0 {
		m.parts = append(m.parts, newDictionary(m.form.functions))
	}
	d := m.parts[len(m.parts)-1]
	resource := d.profiles.ResourceProfiles().AppendEmpty()
	for _, key := range slices.Sorted(maps.Keys(m.form.resource)) {
		resource.Resource().Attributes().PutStr(key, m.form.resource[key])
	}
	if container != "" {
		resource.Resource().Attributes().PutStr(keyContainer, container)
	}
	scope := resource.ScopeProfiles().AppendEmpty()
	scope.Scope().SetName(m.form.scopeName)
	scope.Scope().SetVersion(m.form.version)
	p := scope.Profiles().AppendEmpty()
	p.SetProfileID(newProfileID())
	d.setType(p.SampleType(), m.kind.sampleType, m.kind.unit)
	d.setType(p.PeriodType(), m.kind.periodType, "nanoseconds")
	p.SetPeriod(m.kind.period.Nanoseconds())
	return &profile{dictionary: d, profile: p, samples: make(map[string]int)}
}

func newProfileID() (id pprofile.ProfileID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// add adds a sample, with its time in nanoseconds since the Unix epoch. Samples of the same place are merged. It reports
// false if the sample became a part of the sum of others.
func (m *message) add(s *sample, unixNano uint64) (takesRoom bool) {
	p := m.of(s.owner.container)
	stack, attributes := p.dictionary.stack(s.stack), m.attributesOf(s, p.dictionary)
	takesRoom = true
	if m.kind == kindOfWaits {
		takesRoom = p.addWait(s, stack, attributes, unixNano)
		m.waits++
	} else { // without values: each timestamp then counts as one
		p.merged(stack, attributes).TimestampsUnixNano().Append(unixNano)
	}
	if m.events == 0 {
		m.first = unixNano
	}
	m.first, m.last = min(m.first, unixNano), max(m.last, unixNano)
	if takesRoom {
		m.events++
	}
	return takesRoom
}

// addWait adds a wait: to the sum of those of the same place, which has the time of the last one, or as a sample of its own.
// It reports whether there was no such sum. No sample has several values, because there are consumers that refuse them beside
// timestamps.
func (p *profile) addWait(s *sample, stack int32, attributes []int32, unixNano uint64) (isNew bool) {
	var to pprofile.Sample
	if s.sums {
		to = p.merged(stack, attributes)
	} else {
		to = p.newSample(stack, attributes)
	}
	if to.Values().Len() == 0 {
		to.Values().Append(s.waited)
		to.TimestampsUnixNano().Append(unixNano)
		return true
	}
	to.Values().SetAt(0, to.Values().At(0)+s.waited)
	to.TimestampsUnixNano().SetAt(0, max(to.TimestampsUnixNano().At(0), unixNano))
	return false
}

// attributesOf returns the indices of a sample's attributes. The next call overwrites them.
func (m *message) attributesOf(s *sample, d *dictionary) []int32 {
	m.indices = m.indices[:0]
	number := func(key string, value uint32) { m.indices = append(m.indices, d.attribute(key, "", int64(value))) }
	text := func(key, value string) { m.indices = append(m.indices, d.attribute(key, value, 0)) }
	omit := m.form.omit
	if m.form.containerID != OnResource && s.owner.container != "" {
		text(keyContainer, s.owner.container)
	}
	if !omit.Process && hasNumber(s.pid) {
		number(keyPID, s.pid)
	}
	if !omit.Thread && hasNumber(s.tid) {
		number(keyThreadID, s.tid)
	}
	if !omit.ThreadName && s.name != "" {
		text(keyThreadName, s.name)
	}
	if !omit.CPU {
		number(keyCPU, s.cpu)
	}
	if s.before {
		number(KeyBefore, 1)
	}
	switch {
	case s.waited == 0: // it was interrupted
	case s.preempted:
		text(keySwitch, involuntary)
	default:
		text(keySwitch, voluntary)
	}
	return m.indices
}

// merged returns the sample with a stack and attributes.
func (p *profile) merged(stack int32, attributes []int32) pprofile.Sample {
	p.key = binary.NativeEndian.AppendUint32(p.key[:0], uint32(stack))
	for _, index := range attributes {
		p.key = binary.NativeEndian.AppendUint32(p.key, uint32(index))
	}
	if at, ok := p.samples[string(p.key)]; ok {
		return p.profile.Samples().At(at)
	}
	p.samples[string(p.key)] = p.profile.Samples().Len()
	return p.newSample(stack, attributes)
}

// newSample adds a sample without a time.
func (p *profile) newSample(stack int32, attributes []int32) pprofile.Sample {
	to := p.profile.Samples().AppendEmpty()
	to.SetStackIndex(stack)
	to.AttributeIndices().FromRaw(attributes)
	return to
}

// apart is the time between the starts of two profiles of a message. Where attributes of resources are lost, the profiles of
// two containers can belong to one series, and Pyroscope returns only one profile of a series for each millisecond.
const apart = time.Millisecond

// finish returns the message, with samples taken from start up to, but not including, end. A sample can lie outside,
// because the wall clock was set or because of the error of the conversion. It then widens the profiles' time, which
// always covers all samples. No two profiles begin at the same time. All end at the same time, and they are at most twice as
// long as the interval.
//
//	host          ├──────────────────────▶
//	container    ├───────────────────────▶
//	container   ├────────────────────────▶
func (m *message) finish(startUnixNano, endUnixNano int64) (parts []pprofile.Profiles) {
	start, end := min(uint64(startUnixNano), m.first), max(uint64(endUnixNano), m.last+1)
	step := min(uint64(apart), (end-start)/uint64(max(len(m.profiles), 1)))
	for _, d := range m.parts {
		for _, resource := range d.profiles.ResourceProfiles().All() {
			p := resource.ScopeProfiles().At(0).Profiles().At(0)
			p.SetTime(pcommon.Timestamp(start))
			p.SetDurationNano(end - start)
			start -= min(start, step)
		}
		parts = append(parts, d.profiles)
	}
	return parts
}
