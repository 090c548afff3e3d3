package kernelsym

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/kernelsym/kernelsym/internal/rewrite"
)

func load(raw map[string]any) (*Config, error) {
	c := NewFactory().CreateDefaultConfig().(*Config)
	if err := confmap.NewFromStringMap(raw).Unmarshal(c); err != nil {
		return nil, err
	}
	return c, confmap.Validate(c)
}

func TestContract_7_Defaults(t *testing.T) {
	got, err := load(nil)
	require.NoError(t, err)
	assert.Equal(t, &Config{
		Procfs:     "/proc",
		Sysfs:      "/sys",
		Rewrite:    "unsymbolized",
		Addresses:  "relative",
		Unresolved: "keep",
		HostCheck:  true,
		Modules:    Modules{Enabled: true, Settle: 50 * time.Millisecond},
		Bpf:        Bpf{Enabled: true, SourceLines: true, Trampolines: true},
		History:    History{TTL: 10 * time.Minute, MaxEntries: 65536},
	}, got)
	assert.Equal(t, rewrite.Options{History: 10 * time.Minute}, got.rewriteOptions())
}

func TestContract_7_EveryKey(t *testing.T) {
	got, err := load(map[string]any{
		"procfs": "/host/proc", "sysfs": "/host/sys", "rewrite": "all", "addresses": "keep", "unresolved": "label",
		"host_check": false,
		"modules":    map[string]any{"enabled": false, "settle": "1s"},
		"bpf":        map[string]any{"enabled": false, "source_lines": false, "trampolines": false},
		"history":    map[string]any{"ttl": "0s", "max_entries": 0},
	})
	require.NoError(t, err)
	assert.Equal(t, &Config{
		Procfs: "/host/proc", Sysfs: "/host/sys", Rewrite: "all", Addresses: "keep", Unresolved: "label",
		Modules: Modules{Settle: time.Second},
	}, got)
	assert.Equal(t, rewrite.Options{All: true, KeepAddresses: true, Label: true}, got.rewriteOptions())
}

func TestContract_7_WrongValuesNameTheKey(t *testing.T) {
	for _, tt := range []struct {
		raw  map[string]any
		want []string
	}{
		{map[string]any{"procfs": "proc"}, []string{"procfs", "^/"}},
		{map[string]any{"sysfs": ""}, []string{"sysfs", "^/"}},
		{map[string]any{"rewrite": "none"}, []string{"rewrite", "unsymbolized", "all"}},
		{map[string]any{"addresses": "absolute"}, []string{"addresses", "relative", "keep"}},
		{map[string]any{"unresolved": ""}, []string{"unresolved", "keep", "label"}},
		{map[string]any{"host_check": "perhaps"}, []string{"host_check", "bool"}},
		{map[string]any{"modules": map[string]any{"settle": "-1s"}}, []string{"modules", "settle", "greater than or equal to 0"}},
		{map[string]any{"modules": map[string]any{"settle": "soon"}}, []string{"modules.settle", "duration"}},
		{map[string]any{"history": map[string]any{"ttl": "-1m"}}, []string{"history", "ttl", "greater than or equal to 0"}},
		{map[string]any{"history": map[string]any{"max_entries": -1}}, []string{"history", "max_entries", "greater than or equal to 0"}},
		{map[string]any{"prcfs": "/proc"}, []string{"prcfs", "accepted keys", "procfs (string)"}},
		{map[string]any{"modules": map[string]any{"poll": "1s"}}, []string{"modules", "poll", "modules::settle (duration)"}},
	} {
		_, err := load(tt.raw)
		require.Error(t, err, "%v", tt.raw)
		for _, want := range tt.want {
			assert.ErrorContains(t, err, want, "%v", tt.raw)
		}
	}
}

// TestSchema: the schema that is generated has each key of the configuration.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile("config.schema.json")
	require.NoError(t, err)
	var schema struct {
		Properties map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &schema))
	for key := range confmap.NewFromStringMap(toMap(t, NewFactory().CreateDefaultConfig())).ToStringMap() {
		assert.Contains(t, schema.Properties, key)
	}
	assert.Len(t, schema.Properties, 9)
}

func toMap(t *testing.T, config any) map[string]any {
	t.Helper()
	conf := confmap.New()
	require.NoError(t, conf.Marshal(config))
	return conf.ToStringMap()
}
