// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
)

func TestConfig(t *testing.T) {
	load := func(raw map[string]any) (*Config, error) {
		c := createDefaultConfig().(*Config)
		if err := confmap.NewFromStringMap(raw).Unmarshal(c); err != nil {
			return nil, err
		}
		return c, confmap.Validate(c)
	}
	c, err := load(nil)
	require.NoError(t, err)
	assert.Equal(t, &Config{
		Frequency: 97, Interval: 5 * time.Second, MaxSamples: 20000, Event: "cpu-clock",
		OffCPU: OffCPU{Threshold: time.Millisecond, MaxSwitches: 50000, Sum: true, Buffer: "256KiB"}, ContainerID: "resource",
		SampleAttributes: SampleAttributes{Process: true, Thread: true, ThreadName: true, CPU: true},
		Buffer:           "64KiB", Procfs: "/proc", Sysfs: "/sys", Cgroupfs: "/sys/fs/cgroup",
	}, c)

	c, err = load(map[string]any{"event": "auto", "frequency": 10, "idle": true, "containers": true, "cgroupfs": "/host/cgroup"})
	require.NoError(t, err)
	assert.Equal(t, kernelstack.Options{
		Threads: kernelstack.Running{Event: kernelstack.EventAuto, Frequency: 10, Idle: true}, Buffer: 65536,
		Interval: 5 * time.Second, MaxSamples: 20000, Procfs: "/proc", Sysfs: "/sys", Containers: true, Cgroupfs: "/host/cgroup",
		ContainerID: kernelstack.OnResource,
	}, known(t, c.options()))

	c, err = load(map[string]any{"container_id": "both", "sample_attributes": map[string]any{"thread": false, "cpu": false}})
	require.NoError(t, err)
	assert.Equal(t, kernelstack.OnBoth, c.options().ContainerID)
	assert.Equal(t, kernelstack.Omit{Thread: true, CPU: true}, c.options().Omit)
	assert.Equal(t, kernelstack.Omit{Thread: true, CPU: true}, c.waitOptions().Omit)
	assert.Equal(t, kernelstack.Waiting{Threshold: time.Millisecond, MaxSwitches: 50000, Sum: true}, c.waitOptions().Threads)

	c, err = load(map[string]any{"containers": true, "interval": "10s", "off_cpu": map[string]any{
		"enabled": true, "threshold": "0s", "max_switches": 1000, "sum": false, "buffer": "1MiB",
	}})
	require.NoError(t, err)
	assert.Equal(t, kernelstack.Options{
		Threads: kernelstack.Waiting{Threshold: 0, MaxSwitches: 1000}, Buffer: 1 << 20, Least: 64 << 10, Buffers: 16 << 20, Interval: 10 * time.Second, MaxSamples: 20000,
		Procfs: "/proc", Sysfs: "/sys", Containers: true, Cgroupfs: "/sys/fs/cgroup", ContainerID: kernelstack.OnResource,
	}, known(t, c.waitOptions()))

	c, err = load(map[string]any{"off_cpu": map[string]any{"buffer": "16KiB"}})
	require.NoError(t, err)
	assert.Equal(t, 16<<10, c.waitOptions().Least)
	c = createDefaultConfig().(*Config)
	assert.Equal(t, []int{kernelstack.DefaultBuffer, kernelstack.DefaultSwitchBuffer}, []int{c.options().Buffer, c.waitOptions().Buffer})

	for want, wrong := range map[string]map[string]any{
		"frequency is 0: it must be an integer from 1 to 100000":              {"frequency": 0},
		"frequency is 100001: it must be an integer from 1 to 100000":         {"frequency": 100001},
		"interval is 99ms: it must be a duration of at least 100ms":           {"interval": "99ms"},
		"interval is 5: it needs a unit, such as 5s":                          {"interval": 5},
		"max_samples is 0: it must be an integer of at least 1":               {"max_samples": 0},
		"buffer is 65536: it needs a unit, such as 64KiB":                     {"buffer": 65536},
		`buffer is "4095B": it must be a size with a unit from 4.0 KiB`:       {"buffer": "4095B"},
		`buffer is "2GiB": it must be a size with a unit from 4.0 KiB`:        {"buffer": "2GiB"},
		`buffer is "64": it must be a size with a unit from 4.0 KiB`:          {"buffer": "64"},
		`event is "clock": it must be one of auto, cycles, cpu-clock`:         {"event": "clock"},
		`container_id is "sample": it must be one of resource, samples, both`: {"container_id": "sample"},
		"sample_attributes::cpu":                                              {"sample_attributes": map[string]any{"cpus": false}},
		`procfs is "proc": it must be an absolute path, such as /proc`:        {"procfs": "proc"},
		`sysfs is "sys": it must be an absolute path, such as /sys`:           {"sysfs": "sys"},
		"frequencies": {"frequencies": 97},
		"off_cpu::threshold is -1ms: it must be a duration of at least 0s":                    {"off_cpu": map[string]any{"threshold": "-1ms"}},
		"off_cpu::max_switches is 0: it must be an integer of at least 1":                     {"off_cpu": map[string]any{"max_switches": 0}},
		"off_cpu is true: it must be a section with the keys buffer (string), enabled (bool)": {"off_cpu": true},
		"off_cpu is [1]: it must be a section":                                                {"off_cpu": []any{1}},
		`off_cpu::buffer is "1": it must be a size with a unit`:                               {"off_cpu": map[string]any{"buffer": "1"}},
	} {
		_, err := load(wrong)
		require.ErrorContains(t, err, want)
	}
	c, err = load(map[string]any{"off_cpu": nil})
	require.NoError(t, err, "an empty section has the defaults")
	assert.False(t, c.OffCPU.Enabled)
	c, err = load(map[string]any{"interval": "100ms", "frequency": 100000, "buffer": "4KiB"})
	require.NoError(t, err, "the limits themselves are accepted")
	assert.Equal(t, 4096, c.options().Buffer)
}

// known returns options without the function that asks for the located kernel, since functions cannot be compared.
func known(t *testing.T, o kernelstack.Options) kernelstack.Options {
	t.Helper()
	require.NotNil(t, o.Located)
	o.Located = nil
	return o
}
