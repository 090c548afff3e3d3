// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testOptions returns the options of `make run`.
func testOptions(t *testing.T) options {
	t.Helper()
	return options{
		collector: kerneltest.Built(t, kerneltest.Collector),
		config:    "../../../deploy/examples/local.yaml",
		tool:      kerneltest.Built(t, kerneltest.Tool),
		output:    filepath.Join(t.TempDir(), "run", "profiles.json"),
		duration:  5 * time.Minute, // unless something ends it
		stdout:    io.Discard,
	}
}

// TestRun verifies that `make run` has something to show.
func TestRun(t *testing.T) {
	o := testOptions(t)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	var stdout strings.Builder
	o.stdout = &stdout
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, o) }()
	require.Eventually(t, func() bool {
		info, err := os.Stat(o.output)
		return err == nil && info.Size() > 0 || len(ended) > 0
	}, o.duration, 10*time.Millisecond)
	cancel() // what was collected by then is shown
	require.NoError(t, <-ended)
	shown := stdout.String()
	assert.Contains(t, shown, " kernel frames have a name")
	assert.Contains(t, shown, "[vmlinux]")
	assert.Contains(t, shown, "make view")
	assert.Contains(t, shown, o.output)
}

// TestCollectorThatEnds verifies the error if the collector refuses its configuration.
func TestCollectorThatEnds(t *testing.T) {
	o := testOptions(t)
	o.config = filepath.Join(t.TempDir(), "none.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(o.output), 0o755))
	err := collect(context.Background(), o)
	require.ErrorIs(t, err, errEnded)
	require.ErrorContains(t, err, o.output+".log", "it says where to look")
	log, err := os.ReadFile(o.output + ".log")
	require.NoError(t, err)
	assert.Contains(t, string(log), "none.yaml")
}
