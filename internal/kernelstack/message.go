// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"crypto/rand"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// message collects the samples of an interval, in a profile for each container and one for the host.
type message struct {
	kind      kind
	scopeName string
	version   string

	parts    []*dictionary // each of them is sent on its own
	profiles map[string]*profile
	events   int // samples added so far

	first, last uint64 // times of samples, in nanoseconds since the Unix epoch
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
}

// maxResources is the number of resources that a part has at most. Messages of many resources are large, and consumers
// may do work for each of them.
const maxResources = 256

// profile is the profile of one resource.
type profile struct {
	dictionary *dictionary
	profile    pprofile.Profile
	samples    map[sampleKey]int // the indices of samples
}

// sampleKey identifies samples that are merged into one.
type sampleKey struct {
	stack         int32
	pid, tid, cpu uint32
	name          string
}

// The attributes of resources and samples, by the semantic conventions.
const (
	keyContainer  = "container.id"
	keyPID        = "process.pid"
	keyThreadID   = "thread.id"
	keyThreadName = "thread.name"
	keyCPU        = "cpu.logical_number"
	keySwitch     = "process.context_switch.type"
)

// The values of keySwitch for blocked and for preempted threads.
const (
	voluntary   = "voluntary"
	involuntary = "involuntary"
)

// newMessage returns an empty message for samples of a kind.
func newMessage(k kind, scopeName, version string) *message {
	return &message{kind: k, scopeName: scopeName, version: version, profiles: make(map[string]*profile)}
}

// of returns the profile of a container, or of the host if its id is empty.
func (m *message) of(container string) *profile {
	p, ok := m.profiles[container]
	if !ok {
		p = m.newProfile(container)
		m.profiles[container] = p
	}
	return p
}

// newProfile returns an empty profile. Samples of what runs have the types of the OTel eBPF profiler: not all consumers
// interpret others as time.
func (m *message) newProfile(container string) *profile {
	if len(m.profiles)%maxResources == 0 {
		m.parts = append(m.parts, newDictionary())
	}
	d := m.parts[len(m.parts)-1]
	resource := d.profiles.ResourceProfiles().AppendEmpty()
	if container != "" {
		resource.Resource().Attributes().PutStr(keyContainer, container)
	}
	scope := resource.ScopeProfiles().AppendEmpty()
	scope.Scope().SetName(m.scopeName)
	scope.Scope().SetVersion(m.version)
	p := scope.Profiles().AppendEmpty()
	p.SetProfileID(newProfileID())
	d.setType(p.SampleType(), m.kind.sampleType, m.kind.unit)
	d.setType(p.PeriodType(), m.kind.periodType, "nanoseconds")
	p.SetPeriod(m.kind.period.Nanoseconds())
	return &profile{dictionary: d, profile: p, samples: make(map[sampleKey]int)}
}

func newProfileID() (id pprofile.ProfileID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// add adds a sample, with its time in nanoseconds since the Unix epoch. Samples of the same place are merged, without
// values: each timestamp then counts as one. A wait stays a sample of its own, because there are consumers that refuse
// several values beside timestamps.
func (m *message) add(s *sample, unixNano uint64) {
	p := m.of(s.owner.container)
	var to pprofile.Sample
	if m.kind == kindOfWaits {
		to = p.newSample(s)
		to.Values().Append(s.waited)
	} else {
		to = p.merged(s)
	}
	to.TimestampsUnixNano().Append(unixNano)
	if m.events == 0 {
		m.first = unixNano
	}
	m.first, m.last = min(m.first, unixNano), max(m.last, unixNano)
	m.events++
}

// merged returns the sample of a stack, thread and CPU.
func (p *profile) merged(s *sample) pprofile.Sample {
	key := sampleKey{stack: p.dictionary.stack(s.stack), pid: s.pid, tid: s.tid, cpu: s.cpu, name: s.name}
	at, ok := p.samples[key]
	if !ok {
		p.samples[key] = p.profile.Samples().Len()
		return p.newSample(s)
	}
	return p.profile.Samples().At(at)
}

// newSample adds a sample without a time.
func (p *profile) newSample(s *sample) pprofile.Sample {
	d, to := p.dictionary, p.profile.Samples().AppendEmpty()
	to.SetStackIndex(d.stack(s.stack))
	indices := to.AttributeIndices()
	if hasNumber(s.pid) {
		indices.Append(d.attribute(keyPID, "", int64(s.pid)))
	}
	if hasNumber(s.tid) {
		indices.Append(d.attribute(keyThreadID, "", int64(s.tid)))
	}
	if s.name != "" {
		indices.Append(d.attribute(keyThreadName, s.name, 0))
	}
	indices.Append(d.attribute(keyCPU, "", int64(s.cpu)))
	if s.waited > 0 {
		how := voluntary
		if s.preempted {
			how = involuntary
		}
		indices.Append(d.attribute(keySwitch, how, 0))
	}
	return to
}

// finish returns the message, with samples taken from start up to, but not including, end. A
// sample can lie outside, because the wall clock was set or because of the error of the
// conversion. It then widens the profiles' time, which always covers all samples.
func (m *message) finish(startUnixNano, endUnixNano int64) (parts []pprofile.Profiles) {
	start, end := min(uint64(startUnixNano), m.first), max(uint64(endUnixNano), m.last+1)
	for _, p := range m.profiles {
		p.profile.SetTime(pcommon.Timestamp(start))
		p.profile.SetDurationNano(end - start)
	}
	for _, d := range m.parts {
		parts = append(parts, d.profiles)
	}
	return parts
}
