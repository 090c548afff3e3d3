// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"fmt"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestMergerMakesOneProfile merges messages whose tables differ in their order.
func TestMergerMakesOneProfile(t *testing.T) {
	m := NewMerger()
	require.NoError(t, m.Add(message()))
	require.NoError(t, m.Add(rewritetest.NewMessage().Profile(nil, "scope").Sample(padding, syscall).Profiles))
	p := m.Profile()
	require.NoError(t, p.CheckValid())
	assert.Equal(t, []*profile.ValueType{{Type: "samples", Unit: "count"}}, p.SampleType)
	assert.Equal(t, map[string]int64{
		"vfs_read do_syscall_64 0x7f0000000123": 2,
		"0xffffffff81000030 do_syscall_64":      2,
	}, stacks(p))
	assert.Len(t, p.Location, 4)
	assert.Len(t, p.Function, 2)
	require.Len(t, p.Mapping, 2)
	assert.Equal(t, "ab12", p.Mapping[0].BuildID)
	assert.Zero(t, m.Skipped())
}

func stacks(p *profile.Profile) map[string]int64 {
	all := make(map[string]int64)
	for _, s := range p.Sample {
		key := ""
		for i, loc := range s.Location {
			if i > 0 {
				key += " "
			}
			if len(loc.Line) > 0 {
				key += loc.Line[0].Function.Name
			} else {
				key += fmt.Sprintf("%#x", loc.Address)
			}
		}
		all[key] += s.Value[0]
	}
	return all
}

func TestMergerKeepsSamplesOfThreadsApart(t *testing.T) {
	msg := rewritetest.NewMessage().Profile(nil, "scope").Sample(read)
	msg.LastSample().AttributeIndices().Append(msg.Attribute("thread.name", "a"))
	msg.Sample(read)
	msg.LastSample().AttributeIndices().Append(msg.Attribute("thread.name", "b"))
	m := NewMerger()
	require.NoError(t, m.Add(msg.Profiles))
	require.Len(t, m.Profile().Sample, 2)
	assert.Equal(t, map[string][]string{"thread.name": {"b"}}, m.Profile().Sample[1].Label)
}

// TestMergerContainer verifies that a sample has one container: its own or, if it has none, that of the resource.
func TestMergerContainer(t *testing.T) {
	for _, c := range []struct {
		name             string
		resource, sample string
		want             map[string][]string
	}{
		{"on the resource", "a", "", map[string][]string{"container.id": {"a"}}},
		{"on the sample", "", "a", map[string][]string{"container.id": {"a"}}},
		{"on both", "a", "a", map[string][]string{"container.id": {"a"}}},
		{"none", "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			resource := map[string]any{}
			if c.resource != "" {
				resource["container.id"] = c.resource
			}
			msg := rewritetest.NewMessage().Profile(resource, "scope").Sample(read)
			if c.sample != "" {
				msg.LastSample().AttributeIndices().Append(msg.Attribute("container.id", c.sample))
			}
			m := NewMerger()
			require.NoError(t, m.Add(msg.Profiles))
			require.Len(t, m.Profile().Sample, 1)
			assert.Equal(t, c.want, m.Profile().Sample[0].Label)
		})
	}
}

// TestMergerTimes verifies that the merged profile covers the time of all profiles that have a
// time.
func TestMergerTimes(t *testing.T) {
	at := func(start pcommon.Timestamp, duration uint64) pprofile.Profiles {
		pd := message()
		p := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
		p.SetTime(start)
		p.SetDurationNano(duration)
		return pd
	}
	m := NewMerger()
	for _, pd := range []pprofile.Profiles{at(0, 7), at(500, 100), at(1000, 50), at(0, 0), at(400, 10), at(450, 1<<63-1)} {
		require.NoError(t, m.Add(pd))
	}
	assert.Equal(t, int64(400), m.Profile().TimeNanos)
	assert.Equal(t, int64(650), m.Profile().DurationNanos)
}

// TestMergerCountsEventsWithoutValues: a sample without values stands for one
// event for each of its timestamps.
func TestMergerCountsEventsWithoutValues(t *testing.T) {
	msg := rewritetest.NewMessage().Profile(nil, "scope").Sample(read)
	msg.LastSample().Values().FromRaw(nil)
	msg.LastSample().TimestampsUnixNano().FromRaw([]uint64{1, 2, 3})
	m := NewMerger()
	require.NoError(t, m.Add(msg.Profiles))
	assert.Equal(t, map[string]int64{"vfs_read": 3}, stacks(m.Profile()))
}

func TestMergerLeavesOtherValuesOut(t *testing.T) {
	other := message()
	table := other.Dictionary().StringTable()
	table.Append("nanoseconds")
	other.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).SampleType().SetUnitStrindex(int32(table.Len() - 1))
	m := NewMerger()
	require.NoError(t, m.Add(message()))
	require.NoError(t, m.Add(other))
	assert.Equal(t, 1, m.Skipped())
	assert.Equal(t, int64(2), stacks(m.Profile())["vfs_read do_syscall_64 0x7f0000000123"])
}

// TestInvalidIndices damages one index at a time.
func TestInvalidIndices(t *testing.T) {
	for name, damage := range map[string]func(pprofile.ProfilesDictionary, pprofile.Profile){
		"stack":          func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.Samples().At(0).SetStackIndex(99) },
		"negative stack": func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.Samples().At(0).SetStackIndex(-1) },
		"location": func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
			d.StackTable().At(1).LocationIndices().SetAt(0, 99)
		},
		"mapping": func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.LocationTable().At(1).SetMappingIndex(99) },
		"function": func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
			d.LocationTable().At(1).Lines().At(0).SetFunctionIndex(99)
		},
		"name": func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.FunctionTable().At(1).SetNameStrindex(99) },
		"file": func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
			d.MappingTable().At(1).SetFilenameStrindex(99)
		},
		"attribute": func(_ pprofile.ProfilesDictionary, p pprofile.Profile) {
			p.Samples().At(0).AttributeIndices().Append(99)
		},
		"attribute of a mapping": func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
			d.MappingTable().At(1).AttributeIndices().Append(99)
		},
		"key":         func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.AttributeTable().At(1).SetKeyStrindex(99) },
		"sample type": func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.SampleType().SetTypeStrindex(99) },
	} {
		t.Run(name, func(t *testing.T) {
			pd := message()
			damage(pd.Dictionary(), pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0))
			assert.ErrorIs(t, NewMerger().Add(pd), ErrInvalid)
		})
	}
}

func TestKernelFrames(t *testing.T) {
	pd := message()
	frames, err := KernelFrames(pd)
	require.NoError(t, err)
	assert.Equal(t, []KernelFrame{
		{}, // the zero value
		{Kernel: true, Name: "vfs_read", Module: "vmlinux", Address: 0x10},
		{Kernel: true, Name: "do_syscall_64", Module: "vmlinux", Address: 0x20},
		{},
		{Kernel: true, Address: padding.Address},
	}, frames)

	pd.Dictionary().LocationTable().At(1).AttributeIndices().Append(99)
	frames, err = KernelFrames(pd)
	require.ErrorIs(t, err, ErrInvalid)
	assert.Len(t, frames, 5)
}

// TestContract_1_2_PlaceholdersAreNoNames verifies that neither placeholders nor the labels of
// "unresolved: label" are names. One function with a name is enough.
func TestContract_1_2_PlaceholdersAreNoNames(t *testing.T) {
	for _, tt := range []struct {
		module string
		names  []string
		want   KernelFrame
		named  bool
	}{
		{"vmlinux", []string{"vfs_read"}, KernelFrame{Name: "vfs_read"}, true},
		{"vmlinux", []string{"[unknown]"}, KernelFrame{}, false},
		{"vmlinux", []string{"UNKNOWN"}, KernelFrame{}, false},
		{"vmlinux", []string{"0xffffffff81001234"}, KernelFrame{}, false},
		{"vmlinux", []string{"ffffffff81001234"}, KernelFrame{}, false},
		{"[kernel.kallsyms]", []string{"[kernel.kallsyms]"}, KernelFrame{}, false},
		{"vmlinux", []string{"vmlinux+0x1234"}, KernelFrame{}, false},
		{"nf_tables", []string{"nf_tables-0x10"}, KernelFrame{}, false},
		{"vmlinux", []string{"vfs_read+0x1234"}, KernelFrame{Name: "vfs_read+0x1234"}, true},
		{"vmlinux", []string{"vmlinux+0x"}, KernelFrame{Name: "vmlinux+0x"}, true},
		{"", []string{"+0x1234"}, KernelFrame{Name: "+0x1234"}, true},
		{"vmlinux", []string{"[unknown]", "vfs_read"}, KernelFrame{Outer: []string{"vfs_read"}}, true},
		{"vmlinux", []string{"[unknown]", "UNKNOWN"}, KernelFrame{Outer: []string{""}}, false},
	} {
		f := rewritetest.Frame{Address: 0x10, Mapping: &rewritetest.Mapping{File: tt.module, BuildID: "ab12"}, Type: "kernel"}
		for _, name := range tt.names {
			f.Lines = append(f.Lines, rewritetest.Line{Name: name, System: name})
		}
		frames, err := KernelFrames(rewritetest.NewMessage().Profile(nil, "scope").Sample(f).Profiles)
		require.NoError(t, err)
		tt.want.Kernel, tt.want.Address, tt.want.Module = true, 0x10, tt.module
		assert.Equal(t, tt.want, frames[1], tt.names)
		assert.Equal(t, tt.named, frames[1].HasName(), tt.names)
	}
}
