// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"context"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/processor/xprocessor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/kernelsym/kernelsym/internal/metadata"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// A stopping M stops the caches that no processor uses any more after the tests: they would run on for a minute. It is
// for the generated TestMain.
type stopping struct{ *testing.M }

func (m stopping) Run() int {
	code := m.M.Run()
	caches.StopUnused()
	return code
}

// pipeline is a processor and the sink that it sends to.
type pipeline struct {
	xprocessor.Profiles
	sink *consumertest.ProfilesSink
}

func newPipeline(t *testing.T, f xprocessor.Factory, c *Config) pipeline {
	t.Helper()
	return newPipelineBy(t, f, c, processortest.NewNopSettings(metadata.Type))
}

func newPipelineBy(t *testing.T, f xprocessor.Factory, c *Config, set processor.Settings) pipeline {
	t.Helper()
	kerneltest.SameInEachKernel(t) // the collector is tested in each kernel
	sink := new(consumertest.ProfilesSink)
	p, err := f.CreateProfiles(t.Context(), set, c, sink)
	require.NoError(t, err)
	return pipeline{p, sink}
}

func (p pipeline) start(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
}

func (p pipeline) shutdown(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Shutdown(context.Background()))
}

// name sends a profile with a kernel address and returns the name it gets.
func (p pipeline) name(t *testing.T, addr uint64) string {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(rewritetest.Frame{Address: addr, Type: "kernel"})
	require.NoError(t, p.ConsumeProfiles(t.Context(), m.Profiles))
	all := p.sink.AllProfiles()
	require.NoError(t, rewritetest.CheckSent(all[len(all)-1]))
	if lines := rewritetest.Samples(all[len(all)-1])[0].Stack[0].Lines; len(lines) > 0 {
		return lines[0].System
	}
	return ""
}

func (p pipeline) waitForName(t *testing.T, addr uint64) string {
	t.Helper()
	require.Eventually(t, func() bool { return p.name(t, addr) != "" }, time.Minute, 10*time.Millisecond)
	return p.name(t, addr)
}

// someAddress returns an address of the running kernel and the names it may get.
func someAddress(t *testing.T) (addr uint64, names []string) {
	t.Helper()
	list := kerneltest.ReadSymbols(t)
	addr = list.Address["vfs_read"]
	require.NotZero(t, addr, "no vfs_read in this kernel")
	return addr + 1, list.Names[addr]
}

func TestProcessorOnTheRunningKernel(t *testing.T) {
	kerneltest.NeedAddresses(t)
	kerneltest.SameInEachKernel(t) // before it reads the list
	addr, names := someAddress(t)
	f := NewFactory().(xprocessor.Factory)
	p := newPipeline(t, f, f.CreateDefaultConfig().(*Config))
	assert.True(t, p.Capabilities().MutatesData)
	p.start(t)
	defer p.shutdown(t)
	assert.Contains(t, names, p.waitForName(t, addr))
}

func TestPipelinesShareACache(t *testing.T) {
	procfs := t.TempDir()
	kallsyms := procfs + "/kallsyms"
	list := "ffffffff81000000 T _text\nffffffff81000000 T f\nffffffff81001000 T _etext\n"
	require.NoError(t, os.WriteFile(kallsyms, []byte(list), 0o600))

	f := NewFactory().(xprocessor.Factory)
	config := func(change func(c *Config)) *Config {
		c := f.CreateDefaultConfig().(*Config)
		c.Procfs = procfs
		change(c)
		return c
	}
	first := newPipeline(t, f, config(func(*Config) {}))
	first.start(t)
	assert.Equal(t, "f", first.waitForName(t, 0xffffffff81000010))

	// From now on, the file has another name.
	require.NoError(t, os.WriteFile(kallsyms, []byte(list[:25]+"ffffffff81000000 T g\nffffffff81001000 T _etext\n"), 0o600))
	second := newPipeline(t, f, config(func(c *Config) { c.Rewrite = "all" })) // another id, the same sources
	second.start(t)
	assert.Equal(t, "f", second.name(t, 0xffffffff81000010), "at once, from the shared cache")
	first.shutdown(t)
	assert.Equal(t, "f", second.name(t, 0xffffffff81000010), "the second still uses it")

	other := newPipeline(t, f, config(func(c *Config) { c.Sysfs = procfs }))
	other.start(t)
	assert.Equal(t, "g", other.waitForName(t, 0xffffffff81000010), "other sources, another cache")
	other.shutdown(t)
	second.shutdown(t)

	// As when a collector reloads its configuration.
	again := newPipeline(t, NewFactory().(xprocessor.Factory), config(func(*Config) {}))
	again.start(t)
	assert.NotEmpty(t, again.name(t, 0xffffffff81000010), "at once: the cache was kept")
	again.shutdown(t)
}

// TestContract_9_PipelinesCountTogether has two processors with configurations of their own,
// one of them in two pipelines.
func TestContract_9_PipelinesCountTogether(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	f := NewFactory().(xprocessor.Factory)
	create := func(name string, config *Config) pipeline {
		set := processortest.NewNopSettings(metadata.Type)
		set.ID, set.TelemetrySettings = component.NewIDWithName(metadata.Type, name), telemetry.NewTelemetrySettings()
		p := newPipelineBy(t, f, config, set)
		p.start(t)
		t.Cleanup(func() { p.shutdown(t) })
		return p
	}
	shared := kernelWith(t, f, "one")
	for i, p := range []pipeline{create("", shared), create("", shared), create("other", kernelWith(t, f, "one", "two"))} {
		for range i + 1 {
			p.name(t, 0xffffffff81000000)
		}
	}
	assert.Equal(t, map[string]int64{"kernelsym": 1 + 2, "kernelsym/other": 3}, sums(t, telemetry, "frames"))
	loads := map[string]int64{"kernelsym": 1, "kernelsym/other": 2}
	require.Eventually(t, func() bool {
		return maps.Equal(loads, sums(t, telemetry, "updates", attribute.String("kind", "load")))
	}, time.Minute, 10*time.Millisecond)
}

// sums returns the values of a counter by processor, of the points with all of the given
// attributes.
func sums(t *testing.T, telemetry *componenttest.Telemetry, name string, with ...attribute.KeyValue) map[string]int64 {
	t.Helper()
	m, err := telemetry.GetMetric("otelcol_processor_kernelsym_" + name)
	require.NoError(t, err)
	n := make(map[string]int64)
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		if !slices.ContainsFunc(with, func(kv attribute.KeyValue) bool { v, _ := p.Attributes.Value(kv.Key); return v != kv.Value }) {
			id, _ := p.Attributes.Value("processor")
			n[id.AsString()] += p.Value
		}
	}
	return n
}

// kernelWith returns a configuration whose procfs and sysfs show a kernel with these modules.
func kernelWith(t *testing.T, f xprocessor.Factory, modules ...string) *Config {
	t.Helper()
	c := f.CreateDefaultConfig().(*Config)
	c.Procfs, c.Sysfs, c.Bpf.Enabled = t.TempDir(), t.TempDir(), false
	symbols, list := "ffffffff81000000 T _text\nffffffff81001000 T _etext\n", ""
	for i, name := range modules {
		start := strconv.FormatUint(0xffffffffc0000000+uint64(i)<<16, 16)
		symbols += start + " t in_" + name + "\t[" + name + "]\n"
		list += name + " 16384 0 - Live 0x" + start + "\n"
		require.NoError(t, os.MkdirAll(c.Sysfs+"/module/"+name+"/sections", 0o700))
		require.NoError(t, os.WriteFile(c.Sysfs+"/module/"+name+"/sections/.text", []byte("0x"+start+"\n"), 0o600))
	}
	require.NoError(t, os.WriteFile(c.Procfs+"/kallsyms", []byte(symbols), 0o600))
	require.NoError(t, os.WriteFile(c.Procfs+"/modules", []byte(list), 0o600))
	return c
}
