// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/processor/xprocessor"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
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
	assert.Equal(t, "url", keys[inline.cacheKey()], "what is made of packs can differ")
}
