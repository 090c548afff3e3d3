// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"fmt"
	"strings"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// A Merger merges many messages into one profile for pprof.
type Merger struct {
	profile   *profile.Profile
	mappings  map[profile.Mapping]*profile.Mapping
	functions map[profile.Function]*profile.Function
	locations map[string]*profile.Location
	samples   map[string]*profile.Sample
	codes     map[*profile.Location]rewrite.Code
	kinds     Kinds
}

// NewMerger returns a Merger without messages, for profiles whose values are of a type; see [NewKinds].
func NewMerger(kind string) *Merger {
	return &Merger{
		kinds:     NewKinds(kind),
		profile:   &profile.Profile{},
		mappings:  make(map[profile.Mapping]*profile.Mapping),
		functions: make(map[profile.Function]*profile.Function),
		locations: make(map[string]*profile.Location),
		samples:   make(map[string]*profile.Sample),
		codes:     make(map[*profile.Location]rewrite.Code),
	}
}

// Profile returns the merged profile. It is empty if no message had samples.
func (m *Merger) Profile() *profile.Profile { return m.profile }

// Code returns what a location of the profile is.
func (m *Merger) Code(loc *profile.Location) rewrite.Code { return m.codes[loc] }

// Kinds says which profiles were left out.
func (m *Merger) Kinds() *Kinds { return &m.kinds }

// Add adds the profiles of a message.
func (m *Merger) Add(n *rewrite.Named) {
	c := converter{merger: m, named: n, message: n.Message(), byCode: make(map[int]*profile.Location)}
	for p := range n.Profiles() {
		c.profile(p)
	}
}

// converter adds one message.
type converter struct {
	merger  *Merger
	named   *rewrite.Named
	message *otlp.Message
	byCode  map[int]*profile.Location
}

func (c *converter) profile(p rewrite.NamedProfile) {
	if c.merger.kinds.Skips(p) {
		return
	}
	out := c.merger.profile
	if len(out.SampleType) == 0 {
		out.SampleType = []*profile.ValueType{{Type: p.Type().Name, Unit: p.Type().Unit}}
		period := p.PeriodType()
		out.PeriodType, out.Period = &profile.ValueType{Type: period.Name, Unit: period.Unit}, p.Profile.Period()
	}
	if start, end, ok := p.Span(); ok {
		end = max(end, out.TimeNanos+out.DurationNanos)
		if out.TimeNanos == 0 || start < out.TimeNanos {
			out.TimeNanos = start
		}
		out.DurationNanos = end - out.TimeNanos
	}
	for s := range p.Samples() {
		if IsWaits(p.Type()) {
			s.Frames = AtWait(c.named, s.Frames)
		}
		c.sample(s)
	}
}

func (c *converter) sample(s *rewrite.NamedSample) {
	locations, key := c.stack(s.Frames)
	labels := labelsOf(s)
	key += fmt.Sprint(labels)
	out := c.merger.samples[key]
	if out == nil {
		out = &profile.Sample{Location: locations, Value: []int64{0}, Label: labels}
		c.merger.samples[key] = out
		c.merger.profile.Sample = append(c.merger.profile.Sample, out)
	}
	out.Value[0] += s.Weight
}

// HostKeys are the attributes that say which host a sample is of. The first one that it has counts.
var HostKeys = []attribute.Key{semconv.HostNameKey, semconv.K8SNodeNameKey, semconv.HostIDKey}

// Host returns the host that a sample is of, empty if it does not say.
func Host(s *rewrite.NamedSample) string {
	for _, key := range HostKeys {
		if host, _ := s.Attribute(string(key)); host.Text != "" {
			return host.Text
		}
	}
	return ""
}

// labelsOf returns the labels of a sample: its attributes, with the container and the host of the resource if it has none
// itself.
func labelsOf(s *rewrite.NamedSample) map[string][]string {
	labels := make(map[string][]string)
	for key, value := range s.Attributes() {
		labels[key] = append(labels[key], value)
	}
	for _, key := range append([]attribute.Key{semconv.ContainerIDKey}, HostKeys...) {
		if of, ok := s.Attribute(string(key)); ok && labels[string(key)] == nil {
			labels[string(key)] = []string{of.Text}
		}
	}
	if len(labels) == 0 {
		return nil
	}
	return labels
}

// stack returns the locations of a stack, and a key that only equal stacks share.
func (c *converter) stack(frames []rewrite.StackFrame) (locations []*profile.Location, key string) {
	var b strings.Builder
	for _, f := range frames {
		loc := c.byCode[f.Code]
		if loc == nil {
			loc = c.location(f.Code)
			c.byCode[f.Code] = loc
		}
		locations = append(locations, loc)
		fmt.Fprintf(&b, "%d,", loc.ID)
	}
	return locations, b.String()
}

// location returns the location of a code. The messages are as they were written, so its number is that of a location.
func (c *converter) location(number int) *profile.Location {
	in, code := c.message.Locations.At(int32(number)), c.named.Code(number)
	out := profile.Location{Address: in.Address(), Mapping: c.mapping(in.MappingIndex())}
	var key strings.Builder
	fmt.Fprint(&key, in.Address(), " ", code.IsKernel)
	if out.Mapping != nil {
		fmt.Fprint(&key, " ", out.Mapping.ID)
	}
	for _, l := range in.Lines().All() {
		if l.FunctionIndex() == 0 {
			continue // the function is unknown
		}
		f := c.function(l.FunctionIndex())
		out.Line = append(out.Line, profile.Line{Function: f, Line: l.Line(), Column: l.Column()})
		fmt.Fprint(&key, " ", f.ID, ":", l.Line(), ":", l.Column())
	}
	m := c.merger
	if loc := m.locations[key.String()]; loc != nil {
		return loc
	}
	out.ID = uint64(len(m.profile.Location) + 1)
	m.profile.Location = append(m.profile.Location, &out)
	m.locations[key.String()], m.codes[&out] = &out, code
	return &out
}

func (c *converter) function(index int32) *profile.Function {
	in := c.message.Functions.At(index)
	key := profile.Function{Name: in.Name, SystemName: in.System, Filename: in.File, StartLine: in.StartLine}
	m := c.merger
	if f := m.functions[key]; f != nil {
		return f
	}
	out := key
	out.ID = uint64(len(m.profile.Function) + 1)
	m.profile.Function = append(m.profile.Function, &out)
	m.functions[key] = &out
	return &out
}

// mapping returns nil, which pprof has for no mapping, if an index means none.
func (c *converter) mapping(index int32) *profile.Mapping {
	if c.message.Mappings.IsNone(index) {
		return nil
	}
	in, _ := c.message.Mappings.At(index)
	key := profile.Mapping{Start: in.Start, Limit: in.Limit, Offset: in.Offset, File: in.File, BuildID: in.BuildID}
	m := c.merger
	if mapping := m.mappings[key]; mapping != nil {
		return mapping
	}
	out := key
	out.ID = uint64(len(m.profile.Mapping) + 1)
	out.HasFunctions = true
	m.profile.Mapping = append(m.profile.Mapping, &out)
	m.mappings[key] = &out
	return &out
}
