package profilefile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// ErrInvalid says that a message refers to something that is not in it.
var ErrInvalid = errors.New("message refers to an entry that it does not have")

// A Merger makes one profile for pprof of many messages. Profiles whose values
// are of another type than those of the first are left out.
type Merger struct {
	profile   *profile.Profile
	mappings  map[profile.Mapping]*profile.Mapping
	functions map[profile.Function]*profile.Function
	locations map[string]*profile.Location
	samples   map[string]*profile.Sample
	skipped   int
}

// NewMerger returns a Merger without any message.
func NewMerger() *Merger {
	return &Merger{
		profile:   &profile.Profile{},
		mappings:  make(map[profile.Mapping]*profile.Mapping),
		functions: make(map[profile.Function]*profile.Function),
		locations: make(map[string]*profile.Location),
		samples:   make(map[string]*profile.Sample),
	}
}

// Profile returns the merged profile. It is empty if no message had samples.
func (m *Merger) Profile() *profile.Profile { return m.profile }

// Skipped returns the number of profiles that were left out.
func (m *Merger) Skipped() int { return m.skipped }

// Add adds the profiles of a message. With an error, which wraps ErrInvalid, it
// may have added some of them.
func (m *Merger) Add(pd pprofile.Profiles) error {
	c := converter{Merger: m, dict: pd.Dictionary(), byIndex: make(map[int32]*profile.Location)}
	for _, rp := range pd.ResourceProfiles().All() {
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
	dict    pprofile.ProfilesDictionary
	byIndex map[int32]*profile.Location
}

func (c *converter) profile(p pprofile.Profile) error {
	sampleType, err := c.valueType(p.SampleType())
	if err != nil {
		return err
	}
	out := c.Merger.profile
	if len(out.SampleType) == 0 {
		out.SampleType = []*profile.ValueType{&sampleType}
		if periodType, err := c.valueType(p.PeriodType()); err == nil {
			out.PeriodType, out.Period = &periodType, p.Period()
		}
		out.TimeNanos = int64(p.Time())
	}
	if *out.SampleType[0] != sampleType {
		c.skipped++
		return nil
	}
	start, end := int64(p.Time()), int64(p.Time())+int64(p.DurationNano())
	outEnd := max(out.TimeNanos+out.DurationNanos, end)
	out.TimeNanos = min(out.TimeNanos, start)
	out.DurationNanos = outEnd - out.TimeNanos
	for _, s := range p.Samples().All() {
		if err := c.sample(s); err != nil {
			return err
		}
	}
	return nil
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

// Weight returns the sum of a sample's values. Where there are none, OTLP has each
// timestamp count as one (message Sample of profiles.proto).
func Weight(s pprofile.Sample) (sum int64) {
	if s.Values().Len() == 0 {
		return int64(s.TimestampsUnixNano().Len())
	}
	for _, v := range s.Values().All() {
		sum += v
	}
	return sum
}

// stack returns the locations of a stack, and a key that only equal ones have.
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
	mapping, err := c.mapping(in.MappingIndex())
	if err != nil {
		return nil, err
	}
	out := profile.Location{Address: in.Address(), Mapping: mapping}
	var key strings.Builder
	fmt.Fprint(&key, in.Address())
	if mapping != nil {
		fmt.Fprint(&key, " ", mapping.ID)
	}
	for _, l := range in.Lines().All() {
		if l.FunctionIndex() == 0 {
			continue // none is known
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
	return &out, nil
}

func (c *converter) function(index int32) (*profile.Function, error) {
	if uint(index) >= uint(c.dict.FunctionTable().Len()) {
		return nil, fmt.Errorf("%w: function %d", ErrInvalid, index)
	}
	in := c.dict.FunctionTable().At(int(index))
	name, err1 := c.str(in.NameStrindex())
	system, err2 := c.str(in.SystemNameStrindex())
	file, err3 := c.str(in.FilenameStrindex())
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	out := profile.Function{Name: name, SystemName: system, Filename: file, StartLine: in.StartLine()}
	if f := c.functions[out]; f != nil {
		return f, nil
	}
	key := out
	p := c.Merger.profile
	out.ID = uint64(len(p.Function) + 1)
	p.Function = append(p.Function, &out)
	c.functions[key] = &out
	return &out, nil
}

// mapping returns nil for index 0, which means none.
func (c *converter) mapping(index int32) (*profile.Mapping, error) {
	if index == 0 {
		return nil, nil //nolint:nilnil // pprof has nil for no mapping
	}
	if uint(index) >= uint(c.dict.MappingTable().Len()) {
		return nil, fmt.Errorf("%w: mapping %d", ErrInvalid, index)
	}
	in := c.dict.MappingTable().At(int(index))
	file, err := c.str(in.FilenameStrindex())
	if err != nil {
		return nil, err
	}
	labels, err := c.labels(in.AttributeIndices())
	if err != nil {
		return nil, err
	}
	out := profile.Mapping{Start: in.MemoryStart(), Limit: in.MemoryLimit(), Offset: in.FileOffset(), File: file}
	if id := labels["process.executable.build_id.gnu"]; len(id) > 0 {
		out.BuildID = id[0]
	}
	if m := c.mappings[out]; m != nil {
		return m, nil
	}
	key := out
	p := c.Merger.profile
	out.ID = uint64(len(p.Mapping) + 1)
	out.HasFunctions = true
	p.Mapping = append(p.Mapping, &out)
	c.mappings[key] = &out
	return &out, nil
}

// labels returns attributes as texts.
func (c *converter) labels(indices pcommon.Int32Slice) (map[string][]string, error) {
	var labels map[string][]string
	for _, i := range indices.All() {
		if uint(i) >= uint(c.dict.AttributeTable().Len()) {
			return nil, fmt.Errorf("%w: attribute %d", ErrInvalid, i)
		}
		attr := c.dict.AttributeTable().At(int(i))
		key, err := c.str(attr.KeyStrindex())
		if err != nil {
			return nil, err
		}
		if labels == nil {
			labels = make(map[string][]string)
		}
		labels[key] = append(labels[key], attr.Value().AsString())
	}
	return labels, nil
}

func (c *converter) str(index int32) (string, error) {
	if uint(index) >= uint(c.dict.StringTable().Len()) {
		return "", fmt.Errorf("%w: string %d", ErrInvalid, index)
	}
	return c.dict.StringTable().At(int(index)), nil
}
