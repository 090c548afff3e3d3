// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/processor/xprocessor"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// build is the build id of the pack on the server.
var build = strings.Repeat("ab", 20)

// servePack serves the pack of a kernel with the function f over TLS, to clients with a token.
// It returns the configuration of a gateway, and a counter of the fetches.
func servePack(t *testing.T) (gateway map[string]any, fetches *atomic.Int32) {
	t.Helper()
	extent := pack.Range{End: 0x100}
	w := pack.NewWriter(pack.Info{BuildID: build, Name: pack.KernelName, Arch: "amd64", Extent: extent})
	w.Symbol(pack.Symbol{Range: extent, Name: "f"})
	content, err := w.Bytes()
	require.NoError(t, err)
	fetches = new(atomic.Int32)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer token" || req.URL.Path != "/"+build+".kspack" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fetches.Add(1)
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return map[string]any{"local": false, "debug_info": map[string]any{
		"url": server.URL + "/{build_id}.{format}",
		"http": map[string]any{
			"tls": map[string]any{"ca_pem": string(authority)}, "headers": map[string]any{"Authorization": "Bearer token"},
		},
	}}, fetches
}

// nameOf sends a frame of another machine through a gateway, and returns the name it gets.
func (p pipeline) nameOf(t *testing.T) string {
	t.Helper()
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(rewritetest.Frame{
		Address: 0x10, Type: "kernel", Mapping: &rewritetest.Mapping{File: "vmlinux", BuildID: build},
	})
	require.NoError(t, p.ConsumeProfiles(t.Context(), m.Profiles))
	all := p.sink.AllProfiles()
	if lines := rewritetest.Samples(all[len(all)-1])[0].Stack[0].Lines; len(lines) > 0 {
		return lines[0].System
	}
	return ""
}

// TestGatewayFetchesPacks with the settings of the HTTP client, and keeps them when the
// collector reloads its configuration.
func TestGatewayFetchesPacks(t *testing.T) {
	raw, fetches := servePack(t)
	for i := range 2 {
		config, err := load(raw)
		require.NoError(t, err)
		p := newPipeline(t, NewFactory().(xprocessor.Factory), config)
		p.start(t)
		if i == 0 {
			require.Eventually(t, func() bool { return p.nameOf(t) == "f" }, time.Minute, 10*time.Millisecond)
		}
		assert.Equal(t, "f", p.nameOf(t), "at once, if it was fetched before")
		p.shutdown(t)
	}
	assert.Equal(t, int32(1), fetches.Load())
}

// TestProfilesToMetrics verifies that the setting in docs/producers.md gives the connector profilingmetrics, which reads the
// first line of a frame, the functions that it knows areas and system calls by. Without the setting, it reads others.
func TestProfilesToMetrics(t *testing.T) {
	kerneltest.SameInEachKernel(t) // the page is not in virtual machines
	page, err := os.ReadFile("docs/producers.md")
	require.NoError(t, err)
	_, block, ok := strings.Cut(string(page), "  kernelsym/metrics:\n")
	require.True(t, ok)
	line, _, _ := strings.Cut(block, "\n")
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(line))
	require.NoError(t, err)
	documented, err := retrieved.AsConf()
	require.NoError(t, err)
	documented.Delete("debug_info::directory")
	dir := packOfRead(t)
	for _, c := range []struct {
		name     string
		settings map[string]any
		want     []string
	}{
		{"documented", documented.ToStringMap(), []string{"filemap_read", "__x64_sys_read"}},
		{"default", nil, []string{"filemap_get_pages", "__do_sys_read"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := confmap.NewFromStringMap(map[string]any{"local": false, "debug_info": map[string]any{"directory": dir}})
			require.NoError(t, conf.Merge(confmap.NewFromStringMap(c.settings)))
			config, err := load(conf.ToStringMap())
			require.NoError(t, err)
			p := newPipeline(t, NewFactory().(xprocessor.Factory), config)
			p.start(t)
			defer p.shutdown(t)
			require.Eventually(t, func() bool { return slices.Equal(c.want, p.firstNames(t)) }, time.Minute, 10*time.Millisecond)
		})
	}
}

// packOfRead returns a directory with the pack of a kernel that has functions for read, with one inlined into each.
func packOfRead(t *testing.T) (dir string) {
	t.Helper()
	w := pack.NewWriter(pack.Info{BuildID: build, Name: pack.KernelName, Arch: "amd64", Extent: pack.Range{End: 0x200}})
	file := w.File("fs/read_write.c")
	for i, f := range []struct{ name, inlined string }{{"filemap_read", "filemap_get_pages"}, {"__x64_sys_read", "__do_sys_read"}} {
		start := uint32(i) * 0x100
		w.Symbol(pack.Symbol{Range: pack.Range{Start: start, End: start + 0x100}, Name: f.name})
		outer := w.Node(0, w.Function(f.name, file, 1), 0, 0)
		w.Row(start, w.Node(outer, w.Function(f.inlined, file, 2), file, 3), file, 4)
	}
	w.Row(0x200, 0, 0, 0)
	content, err := w.Bytes()
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, build+".kspack"), content, 0o600))
	return dir
}

// firstNames sends a stack of that kernel, and returns the name in the first line of each frame.
func (p pipeline) firstNames(t *testing.T) (names []string) {
	t.Helper()
	kernel := &rewritetest.Mapping{File: "vmlinux", BuildID: build}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(
		rewritetest.Frame{Address: 0x10, Type: "kernel", Mapping: kernel}, rewritetest.Frame{Address: 0x110, Type: "kernel", Mapping: kernel},
	)
	require.NoError(t, p.ConsumeProfiles(t.Context(), m.Profiles))
	all := p.sink.AllProfiles()
	for _, f := range rewritetest.Samples(all[len(all)-1])[0].Stack {
		if len(f.Lines) > 0 {
			names = append(names, f.Lines[0].Name)
		}
	}
	return names
}

// TestUnknownAuthenticator has settings that name a missing extension.
func TestUnknownAuthenticator(t *testing.T) {
	config, err := load(packsWith("http", map[string]any{"auth": map[string]any{"authenticator": "nobody"}}))
	require.NoError(t, err)
	p := newPipeline(t, NewFactory().(xprocessor.Factory), config)
	err = p.Start(t.Context(), componenttest.NewNopHost())
	require.ErrorContains(t, err, "debug_info::http")
	require.ErrorContains(t, err, "nobody")
	p.shutdown(t)
}

// TestOrigins verifies that processors share a cache if, and only if, it has the same sources
// and packs.
func TestOrigins(t *testing.T) {
	keys := make(map[cacheKey]string)
	for name, raw := range map[string]map[string]any{
		"none":       nil,
		"directory":  {"debug_info": map[string]any{"directory": "/packs"}},
		"other":      {"debug_info": map[string]any{"directory": "/other"}},
		"memory":     {"debug_info": map[string]any{"directory": "/packs", "max_bytes": "1MiB"}},
		"url":        packsWith("inline", true),
		"timeout":    packsWith("http", map[string]any{"timeout": "1s"}),
		"gateway":    {"local": false, "debug_info": map[string]any{"directory": "/packs"}},
		"kernel too": {"sysfs": "/host/sys"},
	} {
		config, err := load(raw)
		require.NoError(t, err)
		again, err := load(raw)
		require.NoError(t, err)
		assert.Equal(t, config.cacheKey(), again.cacheKey())
		assert.Empty(t, keys[config.cacheKey()], name)
		keys[config.cacheKey()] = name
	}
	inline, err := load(packsWith("inline", false))
	require.NoError(t, err)
	assert.Equal(t, "url", keys[inline.cacheKey()], "other packs can give other results")
}
