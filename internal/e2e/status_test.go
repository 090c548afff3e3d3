package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// statusGate has the health check extension show the status of components.
const statusGate = "extension.healthcheck.useComponentStatus"

// A componentStatus is what the health check extension says of a component, or of
// several: then these stand below it.
type componentStatus struct {
	Healthy    bool                        `json:"healthy"`
	Status     string                      `json:"status"`
	Error      string                      `json:"error"`
	Components map[string]*componentStatus `json:"components"`
}

// status returns what the health check extension says, or an error if that is not
// that the collector is healthy.
func (c *collector) status() (s componentStatus, err error) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+c.health+"/status?verbose", nil)
	require.NoError(c.t, err)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return s, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return s, fmt.Errorf("health: %s", response.Status)
	}
	return s, json.NewDecoder(response.Body).Decode(&s)
}

// processorStatus returns the status of the processor in the pipeline of profiles.
func (c *collector) processorStatus() (*componentStatus, error) {
	c.t.Helper()
	all, err := c.status()
	if err != nil {
		return nil, err
	}
	if pipeline := all.Components["pipeline:profiles"]; pipeline != nil {
		if processor := pipeline.Components["processor:kernelsym"]; processor != nil {
			return processor, nil
		}
	}
	return nil, fmt.Errorf("nothing of the processor in %+v", all)
}

// TestContract_8_Recovery has a collector with a /proc in which the kernel hides its
// addresses, until it does not any more: frames, log and status say so. It is healthy
// all the time, as a restart would not help.
func TestContract_8_Recovery(t *testing.T) {
	procfs, endpoint, file := t.TempDir(), freeAddress(t), filepath.Join(t.TempDir(), "profiles.json")
	const (
		hidden = "0000000000000000 T _text\n0000000000000000 T work\n0000000000000000 T _etext\n"
		shown  = "ffffffff81000000 T _text\nffffffff81000010 T work\nffffffff81000100 T _etext\n"
	)
	write := func(list string) { // all at once
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
		c.eventually("the log tells of "+state, func() error {
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
			s, err := c.processorStatus()
			if err == nil && s.Status != status {
				err = fmt.Errorf("it is %s: %s", s.Status, s.Error)
			}
			return err
		})
		s, err := c.processorStatus()
		require.NoError(t, err)
		assert.True(t, s.Healthy)
		assert.Equal(t, why, s.Error)
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
