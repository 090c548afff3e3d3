// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A collector is a running collector.
type collector struct {
	*otelcol.Process
	t       *testing.T
	config  string             // file
	health  string             // address
	exports map[string]*export // by file
}

// hertz returns the sampling frequency for a collector's configuration.
func hertz() string { return strconv.Itoa(kerneltest.Hertz(499)) }

// startCollector starts the built collector with a configuration, to which it adds the health
// check, and waits until it is ready. The end of the test stops the collector, unless it was
// stopped before.
func startCollector(t *testing.T, config string) *collector {
	t.Helper()
	return startCollectorBy(t, (*exec.Cmd).Start, config, "yaml:service::telemetry::metrics::level: none")
}

// startCollectorBy is startCollector with a function that starts the command, and with further
// configurations.
func startCollectorBy(t *testing.T, start func(*exec.Cmd) error, config string, more ...string) *collector {
	t.Helper()
	binary := kerneltest.Built(t, kerneltest.Collector)
	c := &collector{t: t, config: filepath.Join(t.TempDir(), "config.yaml"), health: freeAddress(t), exports: make(map[string]*export)}
	c.writeConfig(config)
	args := []string{otelcol.FeatureGates, "--config", c.config}
	for _, more := range append(more,
		"yaml:extensions: {health_check: {http: {endpoint: "+c.health+", status: {enabled: true, path: /status}}}}",
		"yaml:service::extensions: [health_check]") {
		args = append(args, "--config", more)
	}
	process, err := otelcol.StartBy(start, exec.CommandContext(context.WithoutCancel(t.Context()), binary, args...))
	require.NoError(t, err)
	c.Process = process
	t.Cleanup(func() {
		assert.NoError(t, c.Stop())
		if t.Failed() {
			t.Logf("log of the collector:\n%s", c.Log())
		}
	})
	c.waitUntilReady()
	return c
}

func (c *collector) writeConfig(config string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(c.config, []byte(config), 0o600))
}

func (c *collector) waitUntilReady() {
	c.t.Helper()
	c.eventually("the collector is ready", func() error {
		_, err := c.status()
		return err
	})
}

// waitUntilFollowed waits until all sources of symbols have logged that they have a table.
func (c *collector) waitUntilFollowed() {
	c.t.Helper()
	for _, source := range []string{"kallsyms", "bpf", "modules"} {
		c.waitForSource(source)
	}
}

// waitForSource waits until a source has logged that it has a table. The source of BPF programs is
// degraded, not up, if other tests have loaded so many programs that it does not look for
// trampolines.
func (c *collector) waitForSource(source string) {
	c.t.Helper()
	c.eventually(source+" has a table", func() error {
		for _, state := range []string{"up", "degraded"} {
			if strings.Contains(c.Log(), `"source": "`+source+`", "state": "`+state+`"`) {
				return nil
			}
		}
		return errors.New("it has not logged that")
	})
}

// eventually tries until there is no error. It fails the test if there always is
// one, or if the collector ends.
func (c *collector) eventually(what string, try func() error) {
	c.t.Helper()
	require.NoError(c.t, c.Eventually(c.t.Context(), what, try))
}

// waitForSymbols waits until an address of the core kernel comes out with a name, because a
// collector that has just started passes profiles on before it has read the kernel's symbols. It
// returns the number of messages sent.
func waitForSymbols(c *collector, k *kernel, send send, file string) (n int) {
	c.t.Helper()
	return waitForFrame(c, "names", send, file, 0, k.function.start, hasName)
}

func hasName(f frame) bool { return len(f.Lines) > 0 }

// waitForFrame sends an address of the kernel, sampled now, until it comes out as wanted. It
// returns the number of messages sent, including the n that were sent before.
func waitForFrame(c *collector, what string, send send, file string, n int, addr uint64, wanted func(frame) bool) int {
	c.t.Helper()
	c.eventually(what, func() error {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(frame{Address: addr, Type: "kernel"})
		m.LastSample().TimestampsUnixNano().Append(uint64(time.Now().UnixNano()))
		if err := send(c.t, m.Profiles); err != nil {
			return err
		}
		n++
		if f := leafOf(c.t, nthMessage(c, file, n-1)); !wanted(f) {
			return fmt.Errorf("it came out as %+v", f)
		}
		return nil
	})
	return n
}

// stop ends the collector, and requires that it ends without an error.
func (c *collector) stop() {
	c.t.Helper()
	require.NoError(c.t, c.Stop())
}

// freeAddress returns a local address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := otelcol.FreeAddress(t.Context())
	require.NoError(t, err)
	return address
}

// exported returns the messages that a file exporter wrote as JSON. It fails the test if a backend
// would refuse a message, or if a frame has two names.
func exported(t *testing.T, file string) []pprofile.Profiles {
	t.Helper()
	return (&export{file: file}).read(t)
}

// exported is like the function exported, for a file that is read again and again.
func (c *collector) exported(file string) []pprofile.Profiles {
	c.t.Helper()
	if c.exports[file] == nil {
		c.exports[file] = &export{file: file}
	}
	return c.exports[file].read(c.t)
}

// An export is a file that grows. Each message is parsed once.
type export struct {
	file     string
	size     int // bytes that were parsed
	run      rewritetest.Run
	messages []pprofile.Profiles
}

// read returns all messages.
func (e *export) read(t *testing.T) []pprofile.Profiles {
	t.Helper()
	content, err := os.ReadFile(e.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	for line := range bytes.Lines(content[e.size:]) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is still being written
		}
		pd, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(line)
		require.NoError(t, err)
		require.NoError(t, e.run.Check(pd))
		e.messages = append(e.messages, pd)
		e.size += len(line)
	}
	return e.messages
}
