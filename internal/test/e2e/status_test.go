// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// status returns the status from the health check extension. It returns an error if the collector
// is not healthy.
func (c *collector) status() (*otelcol.Status, error) {
	return otelcol.ReadStatus(c.t.Context(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, c.health)
}

// TestContract_8_Recovery runs a collector with a /proc in which the kernel first hides its
// addresses and then shows them. It verifies that frames, log and status follow. The collector is
// healthy all the time, because a restart would not help.
func TestContract_8_Recovery(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	procfs, endpoint, file := t.TempDir(), freeAddress(t), filepath.Join(t.TempDir(), "profiles.json")
	const (
		hidden = "0000000000000000 T _text\n0000000000000000 T work\n0000000000000000 T _etext\n"
		shown  = "ffffffff81000000 T _text\nffffffff81000010 T work\nffffffff81000100 T _etext\n"
	)
	write := func(list string) { // atomically
		next := filepath.Join(procfs, "next")
		require.NoError(t, os.WriteFile(next, []byte(list), 0o600))
		require.NoError(t, os.Rename(next, filepath.Join(procfs, "kallsyms")))
	}
	write(hidden)
	c := startCollector(t, fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}}}}
processors: {kernelsym: {procfs: %s, bpf: {enabled: false}, modules: {enabled: false}, host_check: false}}
exporters: {file: {path: %s, flush_interval: 50ms}}
service: {pipelines: {profiles: {receivers: [otlp], processors: [kernelsym], exporters: [file]}}}
`, endpoint, procfs, file))
	told := func(n int, state, what string) {
		t.Helper()
		c.eventually("the log reports "+state, func() error {
			if lines := linesOf(c, "kallsyms"); len(lines) != n || !strings.Contains(lines[n-1], `"state": "`+state+`"`) {
				return fmt.Errorf("lines: %q", lines)
			}
			return nil
		})
		assert.Contains(t, linesOf(c, "kallsyms")[n-1], what)
	}
	is := func(status, why string) {
		t.Helper()
		c.eventually("the status is "+status, func() error {
			all, err := c.status()
			if err != nil {
				return err
			}
			if s := all.Of("pipeline:profiles", "processor:kernelsym"); s.Status != status || s.Error != why {
				return fmt.Errorf("it is %s: %s", s.Status, s.Error)
			}
			return nil
		})
	}
	leaf := func(n int) frame {
		pd := rewritetest.NewMessage().Profile(nil, "").Sample(frame{Address: 0xffffffff81000018}).Profiles
		require.NoError(t, overGRPC(endpoint)(t, pd))
		return leafOf(t, nthMessage(c, file, n))
	}
	told(1, "down", "grant CAP_SYSLOG")
	is("StatusRecoverableError", "kallsyms is down: "+filepath.Join(procfs, "kallsyms")+
		": the kernel hides its addresses (every address in kallsyms is zero): "+
		"grant CAP_SYSLOG and set the sysctl kernel.kptr_restrict to 0 or 1")
	assert.Empty(t, leaf(0).Lines)
	write(shown)
	told(2, "up", "up to date")
	is("StatusOK", "")
	require.Len(t, leaf(1).Lines, 1)
}

// linesOf returns the lines of the log about a source.
func linesOf(c *collector, source string) (lines []string) {
	for line := range strings.Lines(c.Log()) {
		if strings.Contains(line, `"source": "`+source+`"`) {
			lines = append(lines, line)
		}
	}
	return lines
}
