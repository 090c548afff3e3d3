// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"errors"
	"fmt"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

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

// labels returns attributes as text, and the container of the resource if they have none.
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
	if c.container != "" && labels[LabelContainer] == nil {
		if labels == nil {
			labels = make(map[string][]string)
		}
		labels[LabelContainer] = []string{c.container}
	}
	return labels, nil
}

func (c *converter) str(index int32) (string, error) {
	if uint(index) >= uint(c.dict.StringTable().Len()) {
		return "", fmt.Errorf("%w: string %d", ErrInvalid, index)
	}
	return c.dict.StringTable().At(int(index)), nil
}
