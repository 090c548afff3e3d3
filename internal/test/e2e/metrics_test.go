// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// scrape returns the metrics of processors that a collector exposes to Prometheus.
func scrape(t *testing.T, address string) (lines []string) {
	t.Helper()
	lines, err := tryScrape(t, address)
	require.NoError(t, err)
	return lines
}

// tryScrape is scrape for a collector that may be too slow to read a request. The collector then
// closes the connection.
func tryScrape(t *testing.T, address string) (lines []string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	require.NoError(t, err)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "otelcol_processor_kernelsym_") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines, nil
}

// TestContract_9_PrometheusSeesEachProcessor verifies that each processor has its own metrics: one
// in two pipelines, and another with a different kernel.
func TestContract_9_PrometheusSeesEachProcessor(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	procfs := map[string]string{"first": t.TempDir(), "second": t.TempDir()}
	for name, symbols := range map[string]string{
		"first":  "ffffffff81000000 T a\n",
		"second": "ffffffff81000000 T b\nffffffff81000010 T c\n",
	} {
		list := "ffffffff81000000 T _text\n" + symbols + "ffffffff81000100 T _etext\n"
		require.NoError(t, os.WriteFile(procfs[name]+"/kallsyms", []byte(list), 0o600))
	}
	endpoint, metrics := freeAddress(t), freeAddress(t)
	_, port, err := net.SplitHostPort(metrics)
	require.NoError(t, err)
	const settings = "bpf: {enabled: false}, modules: {enabled: false}, host_check: false"
	c := startCollectorBy(t, (*exec.Cmd).Start, fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}}}}
processors:
  kernelsym: {procfs: %s, %[4]s}
  kernelsym/second: {procfs: %[3]s, %[4]s}
exporters: {debug: }
service:
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %[5]s}}}}]}}
  pipelines:
    profiles/a: {receivers: [otlp], processors: [kernelsym], exporters: [debug]}
    profiles/b: {receivers: [otlp], processors: [kernelsym], exporters: [debug]}
    profiles/c: {receivers: [otlp], processors: [kernelsym/second], exporters: [debug]}
`, endpoint, procfs["first"], procfs["second"], settings, port))
	pd := rewritetest.NewMessage().Profile(nil, "").Sample(frame{Address: 0xffffffff81000018}).Profiles
	require.NoError(t, overGRPC(endpoint)(t, pd))

	c.eventually("the metrics are each processor's own", func() error {
		lines := scrape(t, metrics)
		for _, want := range []struct{ metric, label, first, second string }{
			{"symbols", `origin="kernel"`, "1", "2"},
			{"source_up", `source="kallsyms"`, "1", "1"},
			{"rewrite_duration_count", "", "2", "1"}, // each pipeline has the message
		} {
			first := valueOf(lines, want.metric, want.label, `processor="kernelsym"`)
			second := valueOf(lines, want.metric, want.label, `processor="kernelsym/second"`)
			if first != want.first || second != want.second {
				return fmt.Errorf("%s is %q and %q", want.metric, first, second)
			}
		}
		return nil
	})
	for _, line := range scrape(t, metrics) {
		assert.Regexp(t, `[{,]processor="kernelsym(/second)?"[,}]`, line)
	}
}

// valueOf returns the value of the metric that has these labels, or "" if there is none.
func valueOf(lines []string, metric string, labels ...string) string {
	for _, line := range lines {
		has := strings.HasPrefix(line, "otelcol_processor_kernelsym_"+metric+"{")
		for _, label := range labels {
			has = has && strings.Contains(line, label)
		}
		if has {
			return line[strings.LastIndex(line, " ")+1:]
		}
	}
	return ""
}
