// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// validate has the built collector check a configuration.
func validate(t *testing.T, config string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), kerneltest.Built(t, kerneltest.Collector), "validate", otelcol.FeatureGates, "--config", config)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestExampleConfigurationsAreValid(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	examples, err := filepath.Glob("../../../deploy/examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, example := range examples {
		t.Run(filepath.Base(example), func(t *testing.T) {
			out, err := validate(t, example)
			require.NoError(t, err, out)
		})
	}
}

// TestConfigurationErrors verifies that the built collector refuses an unknown key and an invalid
// value, with a message that names the key and the allowed values.
func TestConfigurationErrors(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	for name, tt := range map[string]struct {
		processor, receiver string
		want                []string
	}{
		"unknown key":               {"{adresses: keep}", "", []string{"adresses", "addresses"}},
		"unknown key below another": {"{modules: {settel: 1s}}", "", []string{"settel", "settle"}},
		"value":                     {"{addresses: absolute}", "", []string{"addresses", "relative", "keep"}},
		"type":                      {"{host_check: perhaps}", "", []string{"host_check"}},
		"gateway without packs":     {"{local: false}", "", []string{"local", "debug_info::directory", "debug_info::url"}},
		"URL without build id":      {"{debug_info: {url: 'https://packs.example/'}}", "", []string{"debug_info::url", "{build_id}"}},
		"size without unit":         {"{debug_info: {max_bytes: 64}}", "", []string{"max_bytes"}},
		"unknown key of a client":   {"{debug_info: {http: {tmeout: 1s}}}", "", []string{"debug_info::http", "tmeout", "timeout"}},
		"receiver's unknown key":    {"", "{hertz: 97}", []string{"hertz", "frequency"}},
		"receiver's value":          {"", "{frequency: 0}", []string{"frequency", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`
receivers: {kernelstack: %s}
processors: {kernelsym: %s}
exporters: {debug: }
service: {pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [debug]}}}
`, tt.receiver, tt.processor)), 0o600))
			out, err := validate(t, file)
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			for _, want := range tt.want {
				assert.Contains(t, out, want)
			}
			assert.NotContains(t, out, "goroutine", "a panic")
		})
	}
}

const twoPipelines = `
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}}}}
processors: {kernelsym: {addresses: relative}, kernelsym/keep: {addresses: keep}}
exporters:
  file/relative: {path: %[2]s/relative.json, flush_interval: 50ms}
  file/keep: {path: %[2]s/keep.json, flush_interval: 50ms}
service:
  pipelines:
    profiles/relative: {receivers: [otlp], processors: [kernelsym], exporters: [file/relative]}
    profiles/keep: {receivers: [otlp], processors: [kernelsym/keep], exporters: [file/keep]}
`

// TestTwoPipelinesShareTheSymbols verifies that two pipelines with different settings for addresses
// each get their own addresses for one message, from one cache.
func TestTwoPipelinesShareTheSymbols(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.Built(t, kerneltest.Collector)
	k := readKernel(t)
	endpoint, dir := freeAddress(t), t.TempDir()
	c := startCollector(t, fmt.Sprintf(twoPipelines, endpoint, dir))
	n := waitForSymbols(c, k, overGRPC(endpoint), dir+"/relative.json")

	in := frame{Address: k.function.start + 1}
	require.NoError(t, overGRPC(endpoint)(t, rewritetest.NewMessage().Profile(nil, "").Sample(in).Profiles))
	relative := k.named(in.Address, k.function)
	absolute := relative
	absolute.Address = in.Address
	absolute.Mapping = k.absolute()
	for file, want := range map[string]frame{"relative.json": relative, "keep.json": absolute} {
		assert.Equal(t, want, leafOf(t, nthMessage(c, filepath.Join(dir, file), n)), file)
	}
	c.stop()
	assert.Equal(t, 1, strings.Count(c.Log(), `"source": "kallsyms", "state": "up"`), "one cache reads the symbols once")
}

// nthMessage waits for message n, counted from 0.
func nthMessage(c *collector, file string, n int) (pd pprofile.Profiles) {
	c.t.Helper()
	c.eventually("the message comes out", func() error {
		all := c.exported(file)
		if len(all) <= n {
			return errors.New("it has not yet")
		}
		pd = all[n]
		return nil
	})
	return pd
}

func leafOf(t *testing.T, pd pprofile.Profiles) frame {
	t.Helper()
	samples := rewritetest.Samples(pd)
	require.NotEmpty(t, samples)
	return samples[0].Stack[0]
}

// TestReload verifies that the running collector applies another configuration: other addresses,
// and another path of /proc, which needs another cache.
func TestReload(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.Built(t, kerneltest.Collector)
	k := readKernel(t)
	endpoint, dir := freeAddress(t), t.TempDir()
	config := func(processor, file string) string {
		return fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}}}}
processors: {kernelsym: %s}
exporters: {file: {path: %s, flush_interval: 50ms}}
service: {pipelines: {profiles: {receivers: [otlp], processors: [kernelsym], exporters: [file]}}}
`, endpoint, processor, file)
	}
	first, second := filepath.Join(dir, "first.json"), filepath.Join(dir, "second.json")
	c := startCollector(t, config("{addresses: keep}", first))
	waitForSymbols(c, k, overGRPC(endpoint), first)
	all := exported(t, first)
	assert.Equal(t, k.function.start, leafOf(t, all[len(all)-1]).Address)

	c.writeConfig(config("{addresses: relative, procfs: /proc/../proc}", second))
	require.NoError(t, c.Reload())
	c.eventually("the new configuration is in use", func() error {
		_, err := os.Stat(second)
		return err
	})
	c.waitUntilReady()
	waitForSymbols(c, k, overGRPC(endpoint), second)
	all = exported(t, second)
	assert.Equal(t, k.function.start-k.base, leafOf(t, all[len(all)-1]).Address)
}
