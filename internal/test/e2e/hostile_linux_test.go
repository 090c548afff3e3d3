// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

const hostileConfig = `
receivers: {otlp: {protocols: {grpc: {endpoint: "%s", max_recv_msg_size_mib: 64}}}}
processors: {kernelsym: }
exporters: {file: {path: %s, flush_interval: 50ms}}
service: {pipelines: {profiles: {receivers: [otlp], processors: [%s], exporters: [file]}}}
`

// TestHostileLoad verifies the memory that hostile messages cost. It sends messages meant to cost
// more than their size through two collectors, one with the processor and one without, and compares
// their peak memory. The collector with the processor must still name frames afterwards.
func TestHostileLoad(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.Built(t, kerneltest.Collector)
	k := readKernel(t)
	addresses := [3]uint64{k.function.start + 1, k.next.start + 1, k.next.start}
	const n = 50_000
	peak := func(processor string) (bytes int) {
		endpoint, file := freeAddress(t), filepath.Join(t.TempDir(), "profiles.json")
		c := startCollector(t, fmt.Sprintf(hostileConfig, endpoint, file, processor))
		send := overGRPC(endpoint)
		if processor != "" {
			waitForSymbols(c, k, send, file)
		}
		for _, shape := range rewritetest.HostileShapes {
			require.NoError(t, send(t, shape.New(n, addresses)), shape.Name)
		}
		if processor != "" {
			require.NoError(t, send(t, rewritetest.NewMessage().Profile(nil, "").Sample(frame{Address: k.function.start}).Profiles))
			// The messages before it are not valid, so only the last line is read.
			c.eventually("a frame is named", func() error {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
				if last := lines[len(lines)-1]; !strings.Contains(last, `"`+k.function.name+`"`) || len(last) > 10_000 {
					return fmt.Errorf("it is not, in %.1000s", last)
				}
				return nil
			})
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		kib, err := strconv.Atoi(strings.Fields(rest)[0])
		require.NoError(t, err)
		c.stop()
		return kib << 10
	}
	without, with := peak(""), peak("kernelsym")
	t.Logf("at most %d MiB of memory with the processor, %d MiB without", with>>20, without>>20)
	assert.Less(t, with, 2*without+100<<20)
}
