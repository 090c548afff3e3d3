// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestContract_2_6_LocalSenders verifies over which connections the built collector names absolute addresses, with
// absolute_from: local. Relative addresses get names over all of them.
func TestContract_2_6_LocalSenders(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	k := readKernel(t)
	dir := t.TempDir()
	grpc, http, file := freeAddress(t), freeAddress(t), filepath.Join(dir, "profiles.json")
	c := startCollector(t, fmt.Sprintf(`
receivers:
  otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}
  otlp/unix:
    protocols:
      grpc: {transport: unix, endpoint: %[3]s/grpc.sock}
      http: {transport: unix, endpoint: %[3]s/http.sock}
processors: {kernelsym: {absolute_from: local}}
exporters: {file: {path: %[4]s, flush_interval: 50ms}}
service: {pipelines: {profiles: {receivers: [otlp, otlp/unix], processors: [kernelsym], exporters: [file]}}}
`, grpc, http, dir, file))
	unixSocket := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", dir+"/http.sock")
	}
	overUnix := overGRPC("unix://" + dir + "/grpc.sock")
	n := waitForSymbols(c, k, overUnix, file)
	for _, tt := range []struct {
		name  string
		send  send
		named bool
	}{
		{"gRPC over TCP", overGRPC(grpc), false},
		{"HTTP over TCP", overHTTP(http), false},
		{"gRPC over a unix socket", overUnix, true},
		{"HTTP over a unix socket", overHTTPBy(unixSocket, "collector"), true},
	} {
		absolute := rewritetest.NewMessage().Profile(nil, "").Sample(frame{Address: k.function.start, Type: "kernel"})
		require.NoError(t, tt.send(t, absolute.Profiles), tt.name)
		got := leafOf(t, nthMessage(c, file, n))
		assert.Equal(t, tt.named, hasName(got), "%s: %+v", tt.name, got)
		relative := rewritetest.NewMessage().Profile(nil, "").Sample(
			frame{Address: k.function.start - k.base, Type: "kernel", Mapping: &mapping{File: "vmlinux", BuildID: k.buildID}})
		require.NoError(t, tt.send(t, relative.Profiles), tt.name)
		assert.True(t, hasName(leafOf(t, nthMessage(c, file, n+1))), tt.name)
		n += 2
	}
}
