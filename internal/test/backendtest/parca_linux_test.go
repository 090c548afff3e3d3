// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// parcaConfig sends kernel stacks to Parca, as docs/backends.md does, and to the test.
const parcaConfig = `
receivers: {kernelstack: {event: cpu-clock, frequency: 997, interval: 500ms, idle: true, off_cpu: {enabled: true, threshold: 0s},
  containers: true, cgroupfs: %[1]q, container_id: %[2]s, sample_attributes: {process: %[3]t, thread: %[3]t, thread_name: %[3]t, cpu: %[3]t}}}
processors: {kernelsym: {addresses: %[4]s}, resource: {attributes: [{pattern: ".*", action: delete}]}}
exporters:
  otlp_grpc/parca: {endpoint: %[5]q, tls: {insecure: true}}
  otlp_grpc/test: {endpoint: "${env:TEST_ENDPOINT}", compression: none, tls: {insecure: true}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym, resource], exporters: [otlp_grpc/parca, otlp_grpc/test]}}
`

// switchLabel says of a wait whether the thread could have gone on.
const switchLabel = "process_context_switch_type"

// The types of the profiles of kernelstack, as Parca names them.
var (
	interruptedType = parcaType("github.com/kernelsym/kernelsym/kernelstackreceiver", "samples", "count", "cpu", "nanoseconds")
	waitsType       = parcaType("github.com/kernelsym/kernelsym/kernelstackreceiver", "off_cpu", "nanoseconds", "off_cpu", "nanoseconds")
)

// TestParcaKernelstack verifies that Parca stores all that the built collector samples and names: CPU samples and off-CPU
// time, with their totals, stacks and labels. A container is a label if its id stands on the samples.
func TestParcaKernelstack(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	needParca(t)
	mount := kerneltest.MountCgroup2(t)
	if !kerneltest.HasController(t, mount) {
		kerneltest.EnableController(t, mount)
	}
	container := fmt.Sprintf("container_id=%q", kerneltest.BusyContainer(t, mount))
	kerneltest.Busy(t)
	for _, tt := range []struct {
		name, addresses, containerID string
		attributes                   bool // those that sample_attributes can omit
		labels                       []string
	}{
		{"container on resource", "relative", kernelstack.OnResource, true, []string{switchLabel, "thread_name"}},
		{"container on samples", "keep", kernelstack.OnSamples, true, []string{"container_id", switchLabel, "thread_name"}},
		{"container on both", "hide", kernelstack.OnBoth, true, []string{"container_id", switchLabel, "thread_name"}},
		{"without other attributes", "relative", kernelstack.OnSamples, false, []string{"container_id", switchLabel}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := startParca(t)
			received := make(chan pprofile.Profiles, 1000)
			sent := make(parcaProfiles)
			resources := 0
			receive := func() {
				for range len(received) { // only those received so far, because they may never end
					pd := <-received
					resources = max(resources, pd.ResourceProfiles().Len())
					sent.add(pd)
				}
			}
			config := fmt.Sprintf(parcaConfig, mount, tt.containerID, tt.attributes, tt.addresses, p.address)
			c := startCollector(t, config, received)
			require.NoError(t, c.Eventually(t.Context(), "samples of each kind arrive", func() error {
				receive()
				const enough = 20 // few kinds of waits happen often
				running, waits := sent.of(interruptedType), sent.of(waitsType)
				isContainer := running.labels[container] > 0 || tt.containerID == kernelstack.OnResource && resources > 1
				if len(running.stacks) < enough || len(waits.stacks) < enough || !isContainer {
					return fmt.Errorf("%d stacks of what ran and %d of waits, not %d, or no container", len(running.stacks), len(waits.stacks), enough)
				}
				return nil
			}))
			require.NoError(t, c.Stop()) // it sends the rest
			receive()
			assert.Equal(t, tt.containerID != kernelstack.OnSamples, resources > 1)
			p.requireStored(t, sent)
			assert.Equal(t, tt.labels, p.labels(t))
			t.Logf("Parca has %d stacks of what ran, %d of waits, and %d values of labels",
				len(sent[interruptedType].stacks), len(sent[waitsType].stacks), len(sent[interruptedType].labels)+len(sent[waitsType].labels))
		})
	}
}
