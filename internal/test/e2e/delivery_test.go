// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestDelivery has a collector sample the kernel and send to a file, to a backend that does not exist, and to
// both. It verifies what `kernelsym doctor --metrics` says about each exporter.
func TestDelivery(t *testing.T) {
	tool := kerneltest.Built(t, kerneltest.Tool)
	kerneltest.NeedPerf(t)
	kerneltest.SameInEachKernel(t)
	for name, tt := range map[string]struct {
		exporters string
		want      map[string]string // the level of each finding, by how its text begins
	}{
		"a file":         {"file", map[string]string{"exporter file sent N samples": "ok"}},
		"no backend":     {"otlp_grpc", map[string]string{"exporter otlp_grpc sent nothing": "warn"}},
		"two exporters":  {"otlp_grpc, file", map[string]string{"exporter file sent N samples": "ok", "exporter otlp_grpc sent nothing": "warn"}},
		"without queues": {"otlp_grpc/direct", map[string]string{"exporter otlp_grpc/direct failed to send N samples": "warn"}},
	} {
		t.Run(name, func(t *testing.T) {
			metrics := freeAddress(t)
			_, port, err := net.SplitHostPort(metrics)
			require.NoError(t, err)
			startCollectorBy(t, (*exec.Cmd).Start, fmt.Sprintf(`
receivers: {kernelstack: {interval: 200ms}}
processors: {kernelsym: {}}
exporters:
  file: {path: %s}
  otlp_grpc: {endpoint: %q, tls: {insecure: true}}
  otlp_grpc/direct: {endpoint: %[2]q, tls: {insecure: true}, sending_queue: {enabled: false}, retry_on_failure: {enabled: false}}
service:
  pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [%s]}}
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s}}}}]}}
`, filepath.Join(t.TempDir(), "profiles.json"), freeAddress(t), tt.exporters, port))
			out, err := exec.CommandContext(t.Context(), tool, "doctor", "--metrics", "http://"+metrics+"/metrics", "--output", "json").Output()
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				require.NoError(t, err)
			}
			var report struct {
				Findings []struct{ Check, Level, Found string }
			}
			require.NoError(t, json.Unmarshal(out, &report))
			got := make(map[string]string)
			for _, f := range report.Findings {
				if f.Check == "delivery" {
					found, _, _ := strings.Cut(regexp.MustCompile(`\d+ samples`).ReplaceAllString(f.Found, "N samples"), " within")
					got[found] = f.Level
				}
			}
			assert.Equal(t, tt.want, got)
		})
	}
}
