// SPDX-License-Identifier: Apache-2.0

package sender_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"

	"github.com/kernelsym/kernelsym/internal/sender"
)

// TestContract_2_6_IsLocal verifies which contexts prove that a message comes from this machine.
func TestContract_2_6_IsLocal(t *testing.T) {
	from := func(addr net.Addr) context.Context { return client.NewContext(t.Context(), client.Info{Addr: addr}) }
	served := func(ctx context.Context, local net.Addr) context.Context {
		return context.WithValue(ctx, http.LocalAddrContextKey, local)
	}
	loopback, unix := net.IPv4(127, 0, 0, 1), &net.UnixAddr{Name: "@", Net: "unix"}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		want bool
	}{
		{"made within the process", sender.WithinProcess(t.Context()), true},
		{"gRPC over a unix socket", from(unix), true},
		{"gRPC over TCP", from(&net.TCPAddr{IP: loopback, Port: 1}), false},
		{"HTTP over a unix socket", served(from(nil), unix), true},
		{"HTTP over TCP", served(from(&net.IPAddr{IP: loopback}), &net.TCPAddr{IP: loopback, Port: 4318}), false},
		{"no client, as from a receiver that fetches profiles", t.Context(), false},
		{"a client without an address, as after the processor batch", from(nil), false},
	} {
		assert.Equal(t, tt.want, sender.IsLocal(tt.ctx), tt.name)
	}
}

// TestContract_2_6_HTTP verifies what the collector's HTTP server passes on: over a unix socket, and from an address with a
// zone, it sets no client.
func TestContract_2_6_HTTP(t *testing.T) {
	var isLocal bool
	config := confighttp.NewDefaultServerConfig()
	config.NetAddr = confignet.AddrConfig{Transport: confignet.TransportTypeUnix, Endpoint: filepath.Join(t.TempDir(), "http.sock")}
	server, err := config.ToServer(t.Context(), nil, componenttest.NewNopTelemetrySettings(),
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { isLocal = sender.IsLocal(r.Context()) }))
	require.NoError(t, err)

	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://collector/", nil)
	request.RemoteAddr = "[fe80::1%eth0]:1234"
	request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, &net.TCPAddr{Port: 4318}))
	isLocal = true
	server.Handler.ServeHTTP(httptest.NewRecorder(), request)
	assert.False(t, isLocal, "an address with a zone")

	listener, err := config.ToListener(t.Context())
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", config.NetAddr.Endpoint)
	}
	request, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://collector/", nil)
	require.NoError(t, err)
	response, err := (&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}).Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.True(t, isLocal, "a unix socket")
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-done, http.ErrServerClosed)
}

// TestHost verifies which host is read from the addresses that receivers give.
func TestHost(t *testing.T) {
	from := func(addr net.Addr) string {
		return sender.Host(client.NewContext(t.Context(), client.Info{Addr: addr}))
	}
	assert.Empty(t, sender.Host(t.Context()))
	assert.Empty(t, from(nil))
	assert.Equal(t, "10.0.0.1", from(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80}))
	assert.Equal(t, "fe80::1%eth0", from(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 80, Zone: "eth0"}))
	assert.Equal(t, "10.0.0.1", from(&net.IPAddr{IP: net.IPv4(10, 0, 0, 1)}), "confighttp's")
	assert.Equal(t, "fe80::1", from(&net.IPAddr{IP: net.ParseIP("fe80::1")}), "confighttp's")
	assert.Equal(t, "@agent", from(&net.UnixAddr{Name: "@agent", Net: "unix"}))
}
