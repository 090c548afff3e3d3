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

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/translator/pprof"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// kernelstackConfig sends kernel stacks to the test. Elastic's exporter accepts only samples: neither cycles nor off-CPU time.
const kernelstackConfig = `
receivers: {kernelstack: {event: cpu-clock, frequency: 997, interval: 500ms, idle: true, off_cpu: {enabled: %t, threshold: 0s}}}
processors: {kernelsym: {addresses: %s}}
exporters: {otlp_grpc: {endpoint: "${env:TEST_ENDPOINT}", compression: none, tls: {insecure: true}}}
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
			c := startCollector(t, fmt.Sprintf(kernelstackConfig, false, addresses), received)
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

// TestOffCPUShape verifies that profiles of off-CPU time, which the built collector takes and names, are as backends accept
// them. Elastic's exporter accepts none. They are messages of their own, so it still gets the others.
func TestOffCPUShape(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	kerneltest.Busy(t)
	received := make(chan pprofile.Profiles, 1000)
	c := startCollector(t, fmt.Sprintf(kernelstackConfig, true, "relative"), received)
	var run rewritetest.Run
	waits, interrupted, named := 0, 0, 0
	require.NoError(t, c.Eventually(t.Context(), "named waits arrive", func() error {
		for range len(received) {
			pd := <-received
			require.NoError(t, run.Check(pd))
			if sampleType(pd) == "samples" {
				interrupted += pd.SampleCount()
				requireDelivered(t, pd)
				continue
			}
			require.Equal(t, "off_cpu", sampleType(pd))
			waits += pd.SampleCount()
			named += namesIn(pd)
			p, err := pprof.ConvertPprofileToPprof(&pd)
			require.NoError(t, err)
			require.NoError(t, p.CheckValid())
			_, err = deliver(t, pd)
			require.ErrorContains(t, err, "off_cpu")
		}
		const enough = 1000
		if named < enough || interrupted == 0 {
			return fmt.Errorf("%d frames of waits have names, not %d, beside %d other samples", named, enough, interrupted)
		}
		return nil
	}))
	t.Logf("%d waits with %d named frames, %d other samples", waits, named, interrupted)
}

func sampleType(pd pprofile.Profiles) string {
	at := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).SampleType().TypeStrindex()
	return pd.Dictionary().StringTable().At(int(at))
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

// startCollector starts the built collector, which sends its messages to received, at ${env:TEST_ENDPOINT} of its
// configuration. The end of the test stops it.
func startCollector(t *testing.T, config string, received chan<- pprofile.Profiles) *otelcol.Process {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(otelcol.Serve(listener, func(pd pprofile.Profiles) { received <- pd }).Stop)
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()),
		kerneltest.Built(t, kerneltest.Collector), otelcol.FeatureGates, "--config", file)
	cmd.Env = append(os.Environ(), "TEST_ENDPOINT="+listener.Addr().String())
	c, err := otelcol.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.Stop())
		if t.Failed() {
			t.Logf("log of the collector:\n%s", c.Log())
		}
	})
	return c
}
