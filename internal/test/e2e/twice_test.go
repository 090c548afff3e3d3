// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestContract_4_5_SecondKernelsym verifies that a second kernelsym changes nothing that the first
// has rewritten, over OTLP and in one collector.
func TestContract_4_5_SecondKernelsym(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.Built(t, kerneltest.Collector)
	k := readKernel(t)
	endpoint, dir := freeAddress(t), t.TempDir()
	once, twice := filepath.Join(dir, "once.json"), filepath.Join(dir, "twice.json")
	c := startCollector(t, `
receivers: {otlp: {protocols: {grpc: {endpoint: "`+endpoint+`"}}}}
processors: {kernelsym: , kernelsym/behind: }
exporters: {file/once: {path: `+once+`, flush_interval: 50ms}, file/twice: {path: `+twice+`, flush_interval: 50ms}}
service:
  pipelines:
    profiles/once: {receivers: [otlp], processors: [kernelsym], exporters: [file/once]}
    profiles/twice: {receivers: [otlp], processors: [kernelsym, kernelsym/behind], exporters: [file/twice]}
`)
	send := overGRPC(endpoint)
	n := waitForSymbols(c, k, send, once)
	in, _ := message(producers(k))
	sent := pprofile.NewProfiles()
	in.CopyTo(sent)
	require.NoError(t, send(t, sent))
	var messages, behind []pprofile.Profiles
	c.eventually("both messages", func() error {
		messages, behind = c.exported(once), c.exported(twice)
		if len(messages) <= n || len(behind) <= n {
			return errors.New("not yet")
		}
		return nil
	})
	assert.Equal(t, toJSON(t, messages[n]), toJSON(t, behind[n]))
	assert.NotEqual(t, toJSON(t, in), toJSON(t, behind[n]), "it was rewritten at all")
}
