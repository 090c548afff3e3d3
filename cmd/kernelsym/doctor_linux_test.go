package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// runTool runs the built tool with those capabilities.
func runTool(t *testing.T, caps []capability.Cap, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), kerneltest.Built(t, kerneltest.Tool), args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, kerneltest.StartWith(cmd, caps...))
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestDoctorExitStatus runs the built tool with all rights that it can use, without
// those for BPF, with none, and wrongly.
func TestDoctorExitStatus(t *testing.T) {
	kerneltest.Built(t, kerneltest.Tool)
	kerneltest.NeedBPF(t)
	kerneltest.NeedRestrictedPerf(t)
	empty := t.TempDir()
	for name, tt := range map[string]struct {
		caps   []capability.Cap
		args   []string
		code   int
		result string
	}{
		"all": {
			[]capability.Cap{capability.CAP_SYSLOG, capability.CAP_PERFMON, capability.CAP_SYS_ADMIN}, nil, 0, "ok",
		},
		"for core names": {[]capability.Cap{capability.CAP_SYSLOG}, nil, 1, "warn"},
		"none":           {nil, nil, 2, "fail"},
		"no sysfs": {
			[]capability.Cap{capability.CAP_SYSLOG, capability.CAP_PERFMON, capability.CAP_SYS_ADMIN},
			[]string{"--sysfs", empty}, 1, "warn",
		},
		"no procfs": {
			[]capability.Cap{capability.CAP_SYSLOG, capability.CAP_PERFMON, capability.CAP_SYS_ADMIN},
			[]string{"--procfs", empty}, 2, "fail",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := runTool(t, tt.caps, append([]string{"doctor", "--output", "json"}, tt.args...)...)
			var report struct {
				Result   string
				Findings []struct{ Check, Level, Found string }
			}
			require.NoError(t, json.Unmarshal([]byte(out), &report))
			assert.Equal(t, tt.code, code, out)
			assert.Equal(t, tt.result, report.Result)
			assert.NotEmpty(t, report.Findings)
			assert.Empty(t, errs)

			out, errs, code = runTool(t, tt.caps, append([]string{"doctor"}, tt.args...)...)
			assert.Equal(t, tt.code, code)
			assert.Contains(t, out, "symbols: kallsyms")
			assert.NotContains(t, out, "\x1b", "this is no terminal")
			assert.Empty(t, errs)
		})
	}
}

func TestDoctorUsage(t *testing.T) {
	kerneltest.Built(t, kerneltest.Tool)
	for _, args := range [][]string{{"--output", "yaml"}, {"--color"}, {"now"}} {
		out, errs, code := runTool(t, nil, append([]string{"doctor"}, args...)...)
		assert.Equal(t, 64, code, args)
		assert.Empty(t, out, args)
		assert.Contains(t, errs, strings.TrimLeft(args[len(args)-1], "-"))
	}
}
