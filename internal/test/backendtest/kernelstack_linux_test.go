// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// Elastic's exporter accepts only samples, no cycles.
const kernelstackConfig = `
receivers: {kernelstack: {event: cpu-clock, frequency: 997, interval: 500ms, idle: true}}
processors: {kernelsym: {addresses: %s}}
exporters: {otlp_grpc: {endpoint: %q, compression: none, tls: {insecure: true}}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [otlp_grpc]}}
`

// TestKernelstackShape verifies that every event that the built collector samples and names arrives
// at the backends, with all names.
func TestKernelstackShape(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	for _, addresses := range []string{"relative", "keep"} {
		t.Run(addresses, func(t *testing.T) {
			kerneltest.Busy(t)
			received := make(chan pprofile.Profiles, 1000)
			c := startCollector(t, addresses, received)
			var run rewritetest.Run
			events, named := 0, 0
			require.NoError(t, c.Eventually(t.Context(), "named samples arrive", func() error {
				for range len(received) { // only those received so far, because they may never end
					pd := <-received
					require.NoError(t, run.Check(pd))
					requireDelivered(t, pd)
					requireTranslated(t, pd)
					events += len(stacksOf(pd))
					named += namesIn(pd)
				}
				const enough = 1000
				if named < enough {
					return fmt.Errorf("%d frames have names, not %d", named, enough)
				}
				return nil
			}))
			t.Logf("all %d events arrived, with %d named frames", events, named)
		})
	}
}

func namesIn(pd pprofile.Profiles) (n int) {
	for _, s := range rewritetest.Samples(pd) {
		for _, f := range s.Stack {
			if len(f.Lines) > 0 {
				n++
			}
		}
	}
	return n
}

// startCollector starts the built collector, which sends its messages to received. The end of the
// test stops it.
func startCollector(t *testing.T, addresses string, received chan<- pprofile.Profiles) *otelcol.Process {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(otelcol.Serve(listener, func(pd pprofile.Profiles) { received <- pd }).Stop)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, kernelstackConfig, addresses, listener.Addr()), 0o600))
	c, err := otelcol.Start(exec.CommandContext(context.WithoutCancel(t.Context()),
		kerneltest.Built(t, kerneltest.Collector), otelcol.FeatureGates, "--config", config))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.Stop())
		if t.Failed() {
			t.Logf("log of the collector:\n%s", c.Log())
		}
	})
	return c
}
