// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestContract_6_3_WithoutPrivileges verifies that profiles come out as they arrived from the
// collector of a user who may not read anything of the kernel, and that the log says once for each
// source what to grant.
func TestContract_6_3_WithoutPrivileges(t *testing.T) {
	kerneltest.NeedRestrictedPerf(t)
	t.Setenv(kerneltest.Collector, kerneltest.Shared(t, kerneltest.Built(t, kerneltest.Collector)))
	kerneltest.Unprivileged(t, func(t *testing.T) {
		endpoint, file := freeAddress(t), filepath.Join(t.TempDir(), "profiles.json")
		c := startCollector(t, fmt.Sprintf(otlpConfig, endpoint, freeAddress(t), file))
		c.eventually("the sources say how they are", func() error {
			for _, source := range []string{"kallsyms", "bpf"} {
				if !strings.Contains(c.Log(), `"source": "`+source+`"`) {
					return errors.New(source + " has not yet")
				}
			}
			return nil
		})
		vmlinux := &mapping{File: "vmlinux", BuildID: strings.Repeat("5a", 20), FileID: fileID(strings.Repeat("5a", 20))}
		pd := rewritetest.NewMessage().Profile(map[string]any{"service.name": "app"}, "perf").Sample(
			frame{Address: 0xffffffff81000010},
			frame{Address: 0xffffffff81000020, Type: "kernel"},
			frame{Address: 0x30, Type: "kernel", Mapping: vmlinux},
			frame{Address: 0x1234, Type: "native"},
		).Profiles
		want := pprofile.NewProfiles()
		pd.CopyTo(want)
		locations := want.Dictionary().LocationTable() // contract 4.1: every frame of this kernel has its type, and no address leaves
		locations.At(2).AttributeIndices().CopyTo(locations.At(1).AttributeIndices())
		for _, loc := range locations.All() {
			if loc.Address()>>63 != 0 {
				loc.SetAddress(0)
			}
		}
		for n := range 3 {
			sent := pprofile.NewProfiles()
			pd.CopyTo(sent)
			require.NoError(t, overGRPC(endpoint)(t, sent))
			assert.Equal(t, toJSON(t, want), toJSON(t, nthMessage(c, file, n)), "except for the frame type and absolute addresses")
		}
		c.stop()
		for source, remedies := range map[string][]string{
			"kallsyms": {"is zero", "CAP_SYSLOG", "kernel.kptr_restrict"},
			"bpf":      {"CAP_PERFMON", "kernel.perf_event_paranoid", "CAP_SYS_ADMIN"},
		} {
			lines := linesOf(c, source)
			require.Len(t, lines, 1, "one line, however often the source retries")
			for _, remedy := range remedies {
				assert.Contains(t, lines[0], remedy)
			}
		}
	})
}
