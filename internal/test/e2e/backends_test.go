// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestBackendsPage verifies that the complete configuration at the beginning of docs/backends.md is
// valid, and remains so with the exporters and settings for each backend. An exporter that the
// built collector does not have is replaced, so that the rest is still checked.
func TestBackendsPage(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the page is not in the virtual machine")
	}
	collector := kerneltest.Built(t, kerneltest.Collector)
	available := exporters(t, collector)
	var pipeline string
	backends := 0
	for _, block := range yamlBlocks(t, "../../../docs/backends.md") {
		config := parseYAML(t, block)
		switch {
		case config.IsSet("receivers"):
			require.Empty(t, pipeline, "a second complete configuration")
			pipeline = block
		case config.IsSet("exporters"):
			backends++
			config = withBackend(t, parseYAML(t, pipeline), config)
		default:
			continue // it belongs to a backend itself
		}
		requireValid(t, config, available)
	}
	assert.NotEmpty(t, pipeline)
	assert.Positive(t, backends)
}

// withBackend returns a configuration with the exporters and settings for a backend.
func withBackend(t *testing.T, config, backend *confmap.Conf) *confmap.Conf {
	t.Helper()
	exporters, ok := backend.Get("exporters").(map[string]any)
	require.True(t, ok)
	all := config.ToStringMap()
	delete(all, "exporters")
	config = confmap.NewFromStringMap(all)
	require.NoError(t, config.Merge(backend))
	require.NoError(t, config.Merge(confmap.NewFromStringMap(map[string]any{
		"service::pipelines::profiles::exporters": slices.Sorted(maps.Keys(exporters)),
	})))
	return config
}

// requireValid has the built collector check a configuration. The debug exporter replaces exporters
// that are not available.
func requireValid(t *testing.T, config *confmap.Conf, available []string) {
	t.Helper()
	all := config.ToStringMap()
	exporters, ok := all["exporters"].(map[string]any)
	require.True(t, ok)
	for id := range exporters {
		if typ, _, _ := strings.Cut(id, "/"); !slices.Contains(available, typ) {
			delete(exporters, id)
			exporters["debug/"+strings.ReplaceAll(id, "/", "_")] = nil
		}
	}
	config = withBackend(t, confmap.NewFromStringMap(all), confmap.NewFromStringMap(map[string]any{"exporters": exporters}))
	text, err := json.Marshal(config.ToStringMap()) // JSON is YAML, too
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := validate(t, file)
	require.NoError(t, err, "%s\n%s", text, out)
}

// exporters returns the types of exporters that a collector has.
func exporters(t *testing.T, collector string) (types []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), collector, "components").Output()
	require.NoError(t, err)
	var components struct {
		Exporters []struct {
			Name string `mapstructure:"name"`
		} `mapstructure:"exporters"`
	}
	require.NoError(t, parseYAML(t, string(out)).Unmarshal(&components, confmap.WithIgnoreUnused()))
	for _, exporter := range components.Exporters {
		types = append(types, exporter.Name)
	}
	require.NotEmpty(t, types)
	return types
}

func parseYAML(t *testing.T, text string) *confmap.Conf {
	t.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(text))
	require.NoError(t, err, text)
	config, err := retrieved.AsConf()
	require.NoError(t, err, text)
	return config
}

// TestResourcesForBackends verifies what the configuration for a backend leaves of the attributes of a resource. Pyroscope
// refuses each message of the OTel eBPF profiler if one is a number, and Parca refuses each message that has any, as the
// collector's exporters write them.
func TestResourcesForBackends(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the page is not in the virtual machine")
	}
	for _, c := range []struct {
		endpoint string
		want     map[string]any
	}{
		{"pyroscope:4040", map[string]any{"process.pid": "4711", "process.executable.name": "app", "host.name": "node"}},
		{"parca:7070", map[string]any{}},
	} {
		t.Run(c.endpoint, func(t *testing.T) {
			assert.Equal(t, c.want, processed(t, resourceProcessor(t, c.endpoint), map[string]any{
				"process.pid": 4711, "process.executable.name": "app", "host.name": "node",
			}))
		})
	}
}

// resourceProcessor returns the settings of the processor resource for the backend with an endpoint.
func resourceProcessor(t *testing.T, endpoint string) any {
	t.Helper()
	var settings any
	for _, block := range yamlBlocks(t, "../../../docs/backends.md") {
		if config := parseYAML(t, block); strings.Contains(block, endpoint) {
			require.Equal(t, []any{"kernelsym", "resource"}, config.Get("service::pipelines::profiles::processors"))
			settings = config.Get("processors::resource")
		}
	}
	require.NotNil(t, settings)
	return settings
}

// processed sends a resource through the processor resource, and returns its attributes.
func processed(t *testing.T, settings any, attributes map[string]any) map[string]any {
	t.Helper()
	resource, err := json.Marshal(settings)
	require.NoError(t, err)
	endpoint, file := freeAddress(t), filepath.Join(t.TempDir(), "profiles.json")
	c := startCollector(t, fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: %q}}}}
processors: {resource: %s}
exporters: {file: {path: %s, flush_interval: 50ms}}
service: {pipelines: {profiles: {receivers: [otlp], processors: [resource], exporters: [file]}}}
`, endpoint, resource, file))
	pd := pprofile.NewProfiles()
	r := pd.ResourceProfiles().AppendEmpty()
	require.NoError(t, r.Resource().Attributes().FromRaw(attributes))
	r.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty().Samples().AppendEmpty().TimestampsUnixNano().Append(1)
	require.NoError(t, overGRPC(endpoint)(t, pd))
	return nthMessage(c, file, 0).ResourceProfiles().At(0).Resource().Attributes().AsRaw()
}
