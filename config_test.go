// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/kernelsym/kernelsym/internal/metadata"
	"github.com/kernelsym/kernelsym/internal/packs"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func load(raw map[string]any) (*Config, error) {
	c := NewFactory().CreateDefaultConfig().(*Config)
	if err := confmap.NewFromStringMap(raw).Unmarshal(c); err != nil {
		return nil, err
	}
	return c, confmap.Validate(c)
}

// loadFile reads the configuration with this name from testdata/config.yaml; an empty name
// stands for the one without a name.
func loadFile(t *testing.T, name string) (*Config, error) {
	t.Helper()
	file, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	conf, err := file.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	return load(conf.ToStringMap())
}

func TestContract_7_Defaults(t *testing.T) {
	got, err := loadFile(t, "")
	require.NoError(t, err)
	client := got.DebugInfo.HTTP
	assert.Equal(t, time.Minute, client.Timeout)
	got.DebugInfo.HTTP = confighttp.ClientConfig{} // its other defaults are the collector's
	assert.Equal(t, &Config{
		Procfs:       "/proc",
		Sysfs:        "/sys",
		Rewrite:      "unsymbolized",
		Addresses:    "auto",
		AbsoluteFrom: "any",
		Unresolved:   "keep",
		HostCheck:    true,
		Modules:      Modules{Enabled: true, Settle: 50 * time.Millisecond},
		Bpf:          Bpf{Enabled: true, SourceLines: true, Trampolines: true},
		History:      History{TTL: 10 * time.Minute, MaxEntries: 65536},
		Local:        true,
		DebugInfo:    DebugInfo{Inline: true, MaxBytes: "64MiB", MaxDisk: "1GiB"},
	}, got)
	assert.Equal(t, rewrite.Options{History: 10 * time.Minute, Inline: true}, got.rewriteOptions())
	assert.Equal(t, cacheKey{sources: got.sourceOptions()}, got.cacheKey(), "no packs")
}

// TestExampleShowsDefaults verifies the values in the example that is said to have the defaults.
func TestExampleShowsDefaults(t *testing.T) {
	file, err := confmaptest.LoadConf("deploy/examples/http.yaml")
	require.NoError(t, err)
	keys, err := file.Sub("processors::" + metadata.Type.String())
	require.NoError(t, err)
	require.NotEmpty(t, keys.AllKeys())
	got, err := load(keys.ToStringMap())
	require.NoError(t, err)
	assert.Equal(t, NewFactory().CreateDefaultConfig(), got)
}

func TestContract_7_EveryKey(t *testing.T) {
	got, err := loadFile(t, "every_key")
	require.NoError(t, err)
	client := confighttp.NewDefaultClientConfig()
	client.Timeout, client.ProxyURL = 10*time.Second, "http://proxy:3128"
	assert.Equal(t, &Config{
		Procfs: "/host/proc", Sysfs: "/host/sys", Rewrite: "all", Addresses: "keep", AbsoluteFrom: "local", Unresolved: "label",
		Modules: Modules{Settle: time.Second},
		DebugInfo: DebugInfo{
			Directory: "/packs", URL: "https://packs.example/{build_id}.{format}",
			MaxBytes: "512MiB", MaxDisk: "1.5 GB", HTTP: got.DebugInfo.HTTP,
		},
	}, got)
	assert.Equal(t, client.Timeout, got.DebugInfo.HTTP.Timeout)
	assert.Equal(t, client.ProxyURL, got.DebugInfo.HTTP.ProxyURL)
	assert.Equal(t, rewrite.Options{
		All: true, Addresses: rewrite.KeepAddresses, AbsoluteFromLocal: true, Label: true, DebugInfo: true, Gateway: true,
	}, got.rewriteOptions())
	from := got.cacheKey()
	assert.Equal(t, packs.Options{
		Directory: "/packs", URL: "https://packs.example/{build_id}.{format}", MaxBytes: 512 << 20, MaxDisk: 1_500_000_000, Gateway: true,
	}, from.packs)
	assert.Zero(t, from.sources, "a gateway reads nothing of the kernel")
	assert.Contains(t, from.http, "http://proxy:3128")
}

func TestContract_7_WrongValuesNameTheKey(t *testing.T) {
	for _, tt := range []struct {
		raw  map[string]any
		want []string
	}{
		{map[string]any{"procfs": "proc"}, []string{`procfs is "proc": it must be an absolute path, such as /proc`}},
		{map[string]any{"sysfs": ""}, []string{`sysfs is "": it must be an absolute path, such as /sys`}},
		{map[string]any{"rewrite": "none"}, []string{`rewrite is "none": it must be one of unsymbolized, all`}},
		{map[string]any{"addresses": "absolute"}, []string{`addresses is "absolute": it must be one of auto, relative, keep, hide`}},
		{map[string]any{"absolute_from": "unix"}, []string{`absolute_from is "unix": it must be one of any, local`}},
		{map[string]any{"unresolved": ""}, []string{`unresolved is "": it must be one of keep, label`}},
		{map[string]any{"host_check": "perhaps"}, []string{"host_check", "bool"}},
		{map[string]any{"modules": map[string]any{"settle": "-1s"}}, []string{"modules::settle is -1s: it must be a duration from 0s to 10s"}},
		{map[string]any{"modules": map[string]any{"settle": "10001ms"}}, []string{"modules::settle is 10.001s: it must be a duration from 0s to 10s"}},
		{map[string]any{"modules": map[string]any{"settle": "soon"}}, []string{"modules.settle", "duration"}},
		{map[string]any{"history": map[string]any{"ttl": 10}}, []string{"history::ttl is 10: it needs a unit, such as 10m"}},
		{map[string]any{"modules": map[string]any{"settle": "0.5"}}, []string{"modules::settle is 0.5: it needs a unit, such as 0.5ms"}},
		{map[string]any{"history": map[string]any{"ttl": "-1m"}}, []string{"history::ttl is -1m0s: it must be a duration of at least 0s"}},
		{map[string]any{"history": map[string]any{"max_entries": -1}}, []string{"history::max_entries is -1: it must be an integer of at least 0"}},
		{map[string]any{"local": false}, []string{"local", "debug_info::directory", "debug_info::url"}},
		{map[string]any{"locate": true}, []string{"locate is true", "debug_info::directory", "debug_info::url"}},
		{locateWith("addresses", "keep"), []string{"locate is true", "addresses must not be keep"}},
		{locateWith("local", false), []string{"locate is true", "local is false"}},
		{packsWith("directory", "packs"), []string{`debug_info::directory is "packs": it must be an absolute path, such as /`}},
		{packsWith("url", "https://packs.example/"), []string{"debug_info::url", `"https://packs.example/"`, "{build_id}"}},
		{packsWith("url", "https://packs.example/{buildid}/{build_id}"), []string{"debug_info::url", "{build_id} and {format}"}},
		{packsWith("url", "ftp://packs.example/{build_id}"), []string{"debug_info::url", "http or https"}},
		{packsWith("url", "/packs/{build_id}"), []string{"debug_info::url", "http or https"}},
		{packsWith("max_bytes", "64"), []string{"debug_info::max_bytes", `"64"`, "with a unit, such as 64MiB"}},
		{packsWith("max_bytes", 64), []string{"debug_info::max_bytes is 64: it needs a unit, such as 64MiB"}},
		{packsWith("max_bytes", "0MiB"), []string{"debug_info::max_bytes", `"0MiB"`, "more than 0"}},
		{packsWith("max_disk", "a lot"), []string{"debug_info::max_disk", `"a lot"`, "1GB"}},
		{packsWith("max_disk", "99999999TB"), []string{"debug_info::max_disk", "99999999TB"}},
		{packsWith("inline", "perhaps"), []string{"debug_info", "inline", "bool"}},
		{packsWith("dir", "/packs"), []string{"dir", "debug_info::directory (string)", "debug_info::http (section)"}},
		{packsWith("http", map[string]any{"tmeout": "1s"}), []string{"debug_info::http", "tmeout", "timeout (duration)", "tls (section)"}},
		{packsWith("http", map[string]any{"endpoint": "packs.example"}), []string{"debug_info::http::endpoint", "debug_info::url"}},
		{packsWith("http", map[string]any{"timeout": 10}), []string{"debug_info::http::timeout is 10: it needs a unit, such as 10m"}},
		{packsWith("http", map[string]any{"keepalive": map[string]any{"idle_conn_timeout": "90"}}), []string{"debug_info::http::keepalive::idle_conn_timeout is 90: it needs a unit"}},
		{packsWith("http", map[string]any{"tls": map[string]any{"reload_interval": 5}}), []string{"debug_info::http::tls::reload_interval is 5: it needs a unit, such as 5s"}},
		{packsWith("http", map[string]any{"timeout": "0s"}), []string{"debug_info::http::timeout", "more than 0"}},
		{map[string]any{"modules": false}, []string{"modules is false: it must be a section with the keys enabled (bool), settle (duration)"}},
		{packsWith("http", "packs.example"), []string{"debug_info::http is packs.example: it must be a section with the keys", "timeout (duration)"}},
		{map[string]any{"host_check": nil}, []string{"host_check is empty", "leave the key out for its default, true"}},
		{map[string]any{"rewrite": nil}, []string{"rewrite is empty", "default, unsymbolized"}},
		{map[string]any{"history": map[string]any{"ttl": nil}}, []string{"history::ttl is empty", "default, 10m0s"}},
		{map[string]any{"bpf": map[string]any{"enabled": nil}}, []string{"bpf::enabled is empty"}},
		{map[string]any{"history": map[string]any{"max_entries": 1.5}}, []string{"history::max_entries is 1.5: it must be an integer"}},
		{map[string]any{"prcfs": "/proc"}, []string{"prcfs", "accepted keys", "procfs (string)"}},
		{map[string]any{"modules": map[string]any{"poll": "1s"}}, []string{"modules", "poll", "modules::settle (duration)"}},
		{map[string]any{"procfs": "proc", "rewrite": "none"}, []string{"procfs is", "rewrite is"}},
	} {
		_, err := load(tt.raw)
		require.Error(t, err, "%v", tt.raw)
		for _, want := range tt.want {
			assert.ErrorContains(t, err, want, "%v", tt.raw)
		}
	}
}

// TestWrongType: the accepted keys are listed only for an unknown key.
func TestWrongType(t *testing.T) {
	_, err := load(map[string]any{"modules": map[string]any{"enabled": "maybe"}})
	require.ErrorContains(t, err, "modules.enabled")
	require.ErrorContains(t, err, "bool")
	assert.NotContains(t, err.Error(), "accepted keys")
}

// TestLocate verifies that locate is part of the key of the cache, and that the addresses may be shown on request.
func TestLocate(t *testing.T) {
	for _, addresses := range []string{"auto", "relative", "hide"} {
		c, err := load(locateWith("addresses", addresses))
		require.NoError(t, err)
		assert.True(t, c.cacheKey().sources.Locate)
	}
}

// locateWith returns a configuration with locate and packs, and with a value for a key.
func locateWith(key string, value any) map[string]any {
	c := packsWith("inline", true)
	c["locate"], c[key] = true, value
	return c
}

// packsWith returns a configuration with packs, and with a value for a key below debug_info.
func packsWith(key string, value any) map[string]any {
	info := map[string]any{"directory": "/packs", "url": "https://packs.example/{build_id}"}
	info[key] = value
	return map[string]any{"debug_info": info}
}

// TestContract_6_4_KeysOfACache verifies that both pages name the keys whose change has everything read again.
func TestContract_6_4_KeysOfACache(t *testing.T) {
	kerneltest.SameInEachKernel(t) // the pages are not in virtual machines
	configuration := func() *Config {
		c, err := load(packsWith("inline", true))
		require.NoError(t, err)
		return c
	}
	var decide []string
	for i := range reflect.TypeFor[Config]().NumField() {
		field := reflect.TypeFor[Config]().Field(i)
		for _, value := range valuesIn(field) {
			c := configuration()
			change(reflect.ValueOf(c).Elem().FieldByIndex(value))
			if key := field.Tag.Get("mapstructure"); c.cacheKey() != configuration().cacheKey() && !slices.Contains(decide, key) {
				decide = append(decide, key)
			}
		}
	}
	for page, sentence := range map[string]string{
		"docs/contract.md": `If one of\s+the keys ([^.]+) changes`, "docs/collector.md": `unless it changes ([^.]+)\.`,
	} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		list := regexp.MustCompile(sentence).FindStringSubmatch(string(text))
		require.NotNil(t, list, page)
		var named []string
		for _, key := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(list[1], -1) {
			named = append(named, key[1])
		}
		assert.ElementsMatch(t, decide, named, page)
	}
}

// valuesIn returns the indices of a field or, for a section of ours, of the fields in it that are values.
func valuesIn(field reflect.StructField) (indices [][]int) {
	switch {
	case field.Tag.Get("mapstructure") == "":
		return nil
	case field.Type.Kind() != reflect.Struct:
		return [][]int{field.Index}
	case field.Type.PkgPath() != reflect.TypeFor[Config]().PkgPath():
		return nil
	}
	for i := range field.Type.NumField() {
		for _, below := range valuesIn(field.Type.Field(i)) {
			indices = append(indices, slices.Concat(field.Index, below))
		}
	}
	return indices
}

// change gives a key another value.
func change(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	default:
		v.SetString(v.String() + "1")
	}
}

// TestSchema: the generated schema has every key of the configuration.
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
	assert.Len(t, schema.Properties, 13)
}

func toMap(t *testing.T, config any) map[string]any {
	t.Helper()
	conf := confmap.New()
	require.NoError(t, conf.Marshal(config))
	return conf.ToStringMap()
}
