package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long to wait for what takes a moment: much longer than a busy
// machine needs.
const patience = time.Minute

// profilesGate lets the collector have pipelines of profiles.
const profilesGate = "--feature-gates=service.profilesSupport"

// A collector is one that runs.
type collector struct {
	t       *testing.T
	process *exec.Cmd
	config  string // file
	health  string // URL
	log     logBuffer
	ended   chan error
	stopped bool
}

// logBuffer is a buffer that is safe for concurrent use.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startCollector starts the built collector with a configuration, to which it
// adds the health check, and waits until it is ready. It is stopped when the test
// ends, if not before.
func startCollector(t *testing.T, config string) *collector {
	t.Helper()
	binary := kerneltest.Built(t, kerneltest.Collector)
	c := &collector{t: t, ended: make(chan error, 1), config: filepath.Join(t.TempDir(), "config.yaml")}
	health := freeAddress(t)
	c.health = "http://" + health
	c.writeConfig(config)
	c.process = exec.CommandContext(context.WithoutCancel(t.Context()), binary, profilesGate, "--config", c.config,
		"--config", "yaml:extensions::health_check::endpoint: "+health,
		"--config", "yaml:service::extensions: [health_check]",
		"--config", "yaml:service::telemetry::metrics::level: none",
	)
	c.process.Stdout, c.process.Stderr = &c.log, &c.log
	require.NoError(t, c.process.Start())
	go func() { c.ended <- c.process.Wait() }()
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("log of the collector:\n%s", c.log.String())
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
		request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.health, nil)
		if err != nil {
			return err
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("health: %s", response.Status)
		}
		return nil
	})
}

// waitUntilFollowed waits until all sources of symbols have said that they are up.
func (c *collector) waitUntilFollowed() {
	c.t.Helper()
	c.eventually("all sources are up", func() error {
		for _, source := range []string{"kallsyms", "bpf", "modules"} {
			if !strings.Contains(c.log.String(), `"source": "`+source+`", "state": "up"`) {
				return fmt.Errorf("%s is not", source)
			}
		}
		return nil
	})
}

// eventually tries until there is no error. It fails the test if there always is
// one, or if the collector ends.
func (c *collector) eventually(what string, try func() error) {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case ended := <-c.ended:
			c.stopped = true
			c.t.Fatalf("%s: the collector ended: %v", what, ended)
		case <-deadline:
			c.t.Fatalf("%s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the collector, which has to end well.
func (c *collector) stop() {
	c.t.Helper()
	if c.stopped {
		return
	}
	c.stopped = true
	require.NoError(c.t, c.process.Process.Signal(os.Interrupt))
	select {
	case err := <-c.ended:
		require.NoError(c.t, err, "the collector's exit")
	case <-time.After(patience):
		_ = c.process.Process.Signal(syscall.SIGQUIT) // so that the log says what it does
		c.t.Fatal("the collector did not stop: ", <-c.ended)
	}
}

// freeAddress returns a local address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// exported returns the messages that a file exporter wrote as JSON. It fails for
// a message that is not valid.
func exported(t *testing.T, file string) (messages []pprofile.Profiles) {
	t.Helper()
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is just being written
		}
		pd, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(line)
		require.NoError(t, err)
		require.NoError(t, rewritetest.CheckValid(pd))
		messages = append(messages, pd)
	}
	return messages
}
