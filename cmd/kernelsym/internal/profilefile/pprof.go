// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// ErrInvalid is returned for a message that refers to an entry it does not have.
var ErrInvalid = errors.New("message refers to an entry that it does not have")

// A Merger merges many messages into one profile for pprof. It leaves out profiles whose type of
// value differs from the first profile's.
type Merger struct {
	profile   *profile.Profile
	mappings  map[profile.Mapping]*profile.Mapping
	functions map[profile.Function]*profile.Function
	locations map[string]*profile.Location
	samples   map[string]*profile.Sample
	types     map[*profile.Location]string // profile.frame.type, which pprof has no field for
	kinds     Kinds
}

// NewMerger returns a Merger without messages.
func NewMerger() *Merger {
	return &Merger{
		profile:   &profile.Profile{},
		mappings:  make(map[profile.Mapping]*profile.Mapping),
		functions: make(map[profile.Function]*profile.Function),
		locations: make(map[string]*profile.Location),
		samples:   make(map[string]*profile.Sample),
		types:     make(map[*profile.Location]string),
	}
}

// Profile returns the merged profile. It is empty if no message had samples.
func (m *Merger) Profile() *profile.Profile { return m.profile }

// Skipped returns the number of profiles that were left out.
func (m *Merger) Skipped() int { return m.kinds.Skipped() }

// Kinds compares the types of values. The zero value has not compared any.
type Kinds struct {
	first   *profile.ValueType // of the first profile
	skipped int
}

// Skips reports whether to leave out a profile, and counts it if so. Values of a type other than
// the first profile's cannot be added to them. The error wraps ErrInvalid.
func (k *Kinds) Skips(d pprofile.ProfilesDictionary, p pprofile.Profile) (bool, error) {
	c := converter{dict: d}
	kind, err := c.valueType(p.SampleType())
	if err != nil {
		return false, err
	}
	if k.first == nil {
		k.first = &kind
	}
	if *k.first == kind {
		return false, nil
	}
	k.skipped++
	return true, nil
}

// Type returns the type of the values that count, empty if there are none.
func (k *Kinds) Type() string {
	if k.first == nil {
		return ""
	}
	return k.first.Type
}

// Skipped returns the number of profiles that were left out.
func (k *Kinds) Skipped() int { return k.skipped }

// Add adds the profiles of a message. If it returns an error, which wraps ErrInvalid, it may have
// added some of them.
func (m *Merger) Add(pd pprofile.Profiles) error {
	c := converter{Merger: m, dict: pd.Dictionary(), byIndex: make(map[int32]*profile.Location)}
	for _, rp := range pd.ResourceProfiles().All() {
		c.container = ""
		if id, ok := rp.Resource().Attributes().Get(LabelContainer); ok {
			c.container = id.AsString()
		}
		for _, sp := range rp.ScopeProfiles().All() {
			for _, p := range sp.Profiles().All() {
				if err := c.profile(p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// converter adds one message.
type converter struct {
	*Merger
	dict      pprofile.ProfilesDictionary
	byIndex   map[int32]*profile.Location
	container string // of the resource; empty if it has none
}

// Labels of samples, by the semantic conventions. Labels are the samples' attributes, with the container of
// the resource where a sample has none.
const (
	LabelContainer  = "container.id"
	LabelProcess    = "process.pid"
	LabelThread     = "thread.id"
	LabelThreadName = "thread.name"
)

func (c *converter) profile(p pprofile.Profile) error {
	if skips, err := c.kinds.Skips(c.dict, p); skips || err != nil {
		return err
	}
	out := c.Merger.profile
	if len(out.SampleType) == 0 {
		out.SampleType = []*profile.ValueType{{Type: c.kinds.first.Type, Unit: c.kinds.first.Unit}}
		if periodType, err := c.valueType(p.PeriodType()); err == nil {
			out.PeriodType, out.Period = &periodType, p.Period()
		}
	}
	if start, end, ok := TimeOf(p); ok {
		end = max(end, out.TimeNanos+out.DurationNanos)
		if out.TimeNanos == 0 || start < out.TimeNanos {
			out.TimeNanos = start
		}
		out.DurationNanos = end - out.TimeNanos
	}
	for _, s := range p.Samples().All() {
		if err := c.sample(s); err != nil {
			return err
		}
	}
	return nil
}

// TimeOf returns the start and end of a profile, in nanoseconds since the Unix epoch. ok is false
// if the profile has no time.
func TimeOf(p pprofile.Profile) (start, end int64, ok bool) {
	start = int64(p.Time())
	return start, max(start, start+int64(p.DurationNano())), start > 0
}

func (c *converter) valueType(t pprofile.ValueType) (profile.ValueType, error) {
	typ, err := c.str(t.TypeStrindex())
	if err != nil {
		return profile.ValueType{}, err
	}
	unit, err := c.str(t.UnitStrindex())
	return profile.ValueType{Type: typ, Unit: unit}, err
}

func (c *converter) sample(s pprofile.Sample) error {
	locations, key, err := c.stack(s.StackIndex())
	if err != nil {
		return err
	}
	labels, err := c.labels(s.AttributeIndices())
	if err != nil {
		return err
	}
	key += fmt.Sprint(labels)
	out := c.samples[key]
	if out == nil {
		out = &profile.Sample{Location: locations, Value: []int64{0}, Label: labels}
		c.samples[key] = out
		c.Merger.profile.Sample = append(c.Merger.profile.Sample, out)
	}
	out.Value[0] += Weight(s)
	return nil
}

// Weight returns the sum of a sample's values. In a sample without values, each timestamp counts as
// one (message Sample of profiles.proto).
func Weight(s pprofile.Sample) (sum int64) {
	if s.Values().Len() == 0 {
		return int64(s.TimestampsUnixNano().Len())
	}
	for _, v := range s.Values().All() {
		sum += v
	}
	return sum
}

// stack returns the locations of a stack, and a key that only equal stacks share.
func (c *converter) stack(index int32) (locations []*profile.Location, key string, err error) {
	if uint(index) >= uint(c.dict.StackTable().Len()) {
		return nil, "", fmt.Errorf("%w: stack %d", ErrInvalid, index)
	}
	var b strings.Builder
	for _, i := range c.dict.StackTable().At(int(index)).LocationIndices().All() {
		loc := c.byIndex[i]
		if loc == nil {
			if loc, err = c.location(i); err != nil {
				return nil, "", err
			}
			c.byIndex[i] = loc
		}
		locations = append(locations, loc)
		fmt.Fprintf(&b, "%d,", loc.ID)
	}
	return locations, b.String(), nil
}

func (c *converter) location(index int32) (*profile.Location, error) {
	if uint(index) >= uint(c.dict.LocationTable().Len()) {
		return nil, fmt.Errorf("%w: location %d", ErrInvalid, index)
	}
	in := c.dict.LocationTable().At(int(index))
	mapping, err1 := c.mapping(in.MappingIndex())
	frameType, err2 := c.frameType(in)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	out := profile.Location{Address: in.Address(), Mapping: mapping}
	var key strings.Builder
	fmt.Fprintf(&key, "%d %q", in.Address(), frameType)
	if mapping != nil {
		fmt.Fprint(&key, " ", mapping.ID)
	}
	for _, l := range in.Lines().All() {
		if l.FunctionIndex() == 0 {
			continue // the function is unknown
		}
		f, err := c.function(l.FunctionIndex())
		if err != nil {
			return nil, err
		}
		out.Line = append(out.Line, profile.Line{Function: f, Line: l.Line(), Column: l.Column()})
		fmt.Fprint(&key, " ", f.ID, ":", l.Line(), ":", l.Column())
	}
	if loc := c.locations[key.String()]; loc != nil {
		return loc, nil
	}
	p := c.Merger.profile
	out.ID = uint64(len(p.Location) + 1)
	p.Location = append(p.Location, &out)
	c.locations[key.String()] = &out
	c.types[&out] = frameType
	return &out, nil
}

func (c *converter) frameType(loc pprofile.Location) (string, error) {
	labels, err := c.labels(loc.AttributeIndices())
	return typeOf(labels), err
}

// typeOf returns the type of a frame with these attributes, empty if it has none.
func typeOf(labels map[string][]string) string {
	if typ := labels["profile.frame.type"]; len(typ) > 0 {
		return typ[0]
	}
	return ""
}
