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

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestMergerMakesOneProfile merges messages whose tables differ in their order.
func TestMergerMakesOneProfile(t *testing.T) {
	m := NewMerger("")
	m.Add(written(message()))
	m.Add(written(rewritetest.NewMessage().Profile(nil, "scope").Sample(padding, syscall).Profiles))
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
	assert.Empty(t, m.Kinds().Others())
}

// written returns a message with the names that it came with.
func written(pd pprofile.Profiles) *rewrite.Named {
	n, err := rewrite.AsWritten(pd)
	if err != nil {
		panic(err)
	}
	return n
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
	m := NewMerger("")
	m.Add(written(msg.Profiles))
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
			m := NewMerger("")
			m.Add(written(msg.Profiles))
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
	m := NewMerger("")
	for _, pd := range []pprofile.Profiles{at(0, 7), at(500, 100), at(1000, 50), at(0, 0), at(400, 10), at(450, 1<<63-1)} {
		m.Add(written(pd))
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
	m := NewMerger("")
	m.Add(written(msg.Profiles))
	assert.Equal(t, map[string]int64{"vfs_read": 3}, stacks(m.Profile()))
}

func TestMergerLeavesOtherValuesOut(t *testing.T) {
	other := message()
	table := other.Dictionary().StringTable()
	table.Append("nanoseconds")
	other.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).SampleType().SetUnitStrindex(int32(table.Len() - 1))
	m := NewMerger("")
	m.Add(written(message()))
	m.Add(written(other))
	assert.Equal(t, "1 profile with values of type samples in nanoseconds", m.Kinds().Others())
	assert.Equal(t, int64(2), stacks(m.Profile())["vfs_read do_syscall_64 0x7f0000000123"])
}
