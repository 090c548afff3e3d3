// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"crypto/rand"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// message collects the samples of an interval, in a profile for each container and one for the host.
type message struct {
	event     perfring.Sampling
	scopeName string
	version   string

	parts    []*dictionary // each of them is sent on its own
	profiles map[string]*profile
	events   int // samples added so far

	first, last uint64 // times of samples, in nanoseconds since the Unix epoch
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
)

// newMessage returns an empty message for samples of the event.
func newMessage(event perfring.Sampling, scopeName, version string) *message {
	return &message{event: event, scopeName: scopeName, version: version, profiles: make(map[string]*profile)}
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

// newProfile returns an empty profile. It uses the sample type and period type of the OTel eBPF profiler: not all
// consumers interpret others as time.
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
	d.setType(p.SampleType(), "samples", "count")
	d.setType(p.PeriodType(), "cpu", "nanoseconds")
	p.SetPeriod(m.event.Period().Nanoseconds())
	return &profile{dictionary: d, profile: p, samples: make(map[sampleKey]int)}
}

func newProfileID() (id pprofile.ProfileID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// add adds a sample of a container, or of the host. unixNano is the time when it was taken; name is the thread's name, or
// empty. The sample gets no values: without values, each timestamp counts as one.
func (m *message) add(r *perfring.Record, unixNano uint64, name, container string) {
	m.of(container).sample(r, name).TimestampsUnixNano().Append(unixNano)
	if m.events == 0 {
		m.first = unixNano
	}
	m.first, m.last = min(m.first, unixNano), max(m.last, unixNano)
	m.events++
}

// sample returns the sample of a record's stack, thread and CPU.
func (p *profile) sample(r *perfring.Record, name string) pprofile.Sample {
	d, samples := p.dictionary, p.profile.Samples()
	key := sampleKey{stack: d.stack(addressesOf(r)), pid: r.PID, tid: r.TID, cpu: r.CPU, name: name}
	if at, ok := p.samples[key]; ok {
		return samples.At(at)
	}
	p.samples[key] = samples.Len()
	s := samples.AppendEmpty()
	s.SetStackIndex(key.stack)
	indices := s.AttributeIndices()
	if hasNumber(r.PID) {
		indices.Append(d.attribute(keyPID, "", int64(r.PID)))
	}
	if hasNumber(r.TID) {
		indices.Append(d.attribute(keyThreadID, "", int64(r.TID)))
	}
	if name != "" {
		indices.Append(d.attribute(keyThreadName, name, 0))
	}
	indices.Append(d.attribute(keyCPU, "", int64(r.CPU)))
	return s
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
