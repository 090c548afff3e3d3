package kernelsym

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/processor/xprocessor"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/metadata"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// pipeline is a processor and what it passes on.
type pipeline struct {
	xprocessor.Profiles
	sink *consumertest.ProfilesSink
}

func newPipeline(t *testing.T, f xprocessor.Factory, c *Config) pipeline {
	t.Helper()
	sink := new(consumertest.ProfilesSink)
	p, err := f.CreateProfiles(t.Context(), processortest.NewNopSettings(metadata.Type), c, sink)
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
	all := kerneltest.ReadSymbols(t).Names
	for addr, names := range all {
		for _, name := range names {
			if name == "vfs_read" {
				return addr + 1, names
			}
		}
	}
	t.Fatal("no vfs_read in this kernel")
	return 0, nil
}

func TestProcessorOnTheRunningKernel(t *testing.T) {
	kerneltest.NeedAddresses(t)
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

	// What is read from now on has another name.
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
