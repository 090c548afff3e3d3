// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package profilertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"
	"go.opentelemetry.io/ebpf-profiler/collector"
	"go.opentelemetry.io/ebpf-profiler/collector/config"
	"go.uber.org/zap/zaptest"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestLockdown verifies that the OTel eBPF profiler starts and delivers profiles, unless the
// kernel's lockdown keeps BPF programs from reading the kernel's memory. In that case, it must not
// start.
func TestLockdown(t *testing.T) {
	kerneltest.NeedVM(t)
	mode := kerneltest.Lockdown(t)
	kerneltest.Busy(t)
	factory := collector.NewFactory()
	cfg := factory.CreateDefaultConfig().(*config.Config)
	cfg.ReporterInterval = time.Second
	settings := receivertest.NewNopSettings(factory.Type())
	settings.Logger = zaptest.NewLogger(t)
	sink := new(consumertest.ProfilesSink)
	r, err := factory.(xreceiver.Factory).CreateProfiles(t.Context(), settings, cfg, sink)
	require.NoError(t, err)
	err = r.Start(t.Context(), componenttest.NewNopHost())
	defer func() { _ = r.Shutdown(context.WithoutCancel(t.Context())) }()
	t.Logf("lockdown=%s: %v", mode, err)
	if mode == "confidentiality" {
		require.ErrorContains(t, err, "invalid argument") // the kernel's explanation depends on its version
		require.ErrorContains(t, err, "bpf_probe_read#4")
		return
	}
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return len(sink.AllProfiles()) > 0 }, 5*time.Minute, 100*time.Millisecond)
}
