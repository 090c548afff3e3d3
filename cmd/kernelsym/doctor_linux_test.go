// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/doctor"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// runTool runs the built tool with the given capabilities.
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

// runDoctor runs the built tool with the given capabilities. It repeats this until the machine does
// not stall while symbols are read, because otherwise some can be missing, which doctor reports.
func runDoctor(t *testing.T, caps []capability.Cap, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		stdout, stderr, code = runTool(t, caps, append([]string{"doctor"}, args...)...)
		if !strings.Contains(stdout, "blind time") && !strings.Contains(stdout, "read budget") || time.Now().After(end) {
			return stdout, stderr, code
		}
		t.Logf("checking again: %s", stdout)
	}
}

// TestDoctorExitStatus runs the built tool with all rights that it can use, without the rights for
// BPF, without any, and with a wrong command line.
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
			out, errs, code := runDoctor(t, tt.caps, append([]string{"--output", "json"}, tt.args...)...)
			var report struct {
				Result   string
				Findings []struct{ Check, Level, Found string }
			}
			require.NoError(t, json.Unmarshal([]byte(out), &report))
			assert.Equal(t, tt.code, code, out)
			assert.Equal(t, tt.result, report.Result)
			assert.NotEmpty(t, report.Findings)
			assert.Empty(t, errs)

			out, errs, code = runDoctor(t, tt.caps, tt.args...)
			assert.Equal(t, tt.code, code)
			assert.Contains(t, out, "symbols: kallsyms")
			assert.NotContains(t, out, "\x1b", "this is no terminal")
			assert.NotContains(t, out, "run it as root", "it is root")
			assert.Empty(t, errs)
		})
	}
}

func TestDoctorUsage(t *testing.T) {
	kerneltest.Built(t, kerneltest.Tool)
	for _, args := range [][]string{{"--output", "yaml"}, {"--color"}, {"now"}, {"--locate"}} {
		out, errs, code := runTool(t, nil, append([]string{"doctor"}, args...)...)
		assert.Equal(t, 64, code, args)
		assert.Empty(t, out, args)
		assert.Contains(t, errs, strings.TrimLeft(args[len(args)-1], "-"))
	}
}

// TestDoctorForABugReport verifies what the JSON of this machine has for a bug report, and that it has neither an address at
// which the kernel's code begins nor the host's name.
func TestDoctorForABugReport(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	out, _, _ := execute(t, "", "doctor", "--output", "json") // its findings are for other tests
	var report struct{ Details doctor.Details }
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, version, report.Details.Environment["versions"]["kernelsym"])
	assert.NotEmpty(t, report.Details.Environment["proc"]["sys/kernel/osrelease"])
	assert.NotEmpty(t, report.Details.Environment["process"]["CapEff"])
	assert.Len(t, report.Details.Sources, 3)

	assert.NotRegexp(t, `(?i)(^|[^0-9a-f])[89a-f][0-9a-f]{15}($|[^0-9a-f])`, out)
	list, err := os.ReadFile("/proc/kallsyms")
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		if address, found := strings.CutSuffix(line, " T _stext\n"); found && strings.Trim(address, "0") != "" {
			assert.NotContains(t, out, address)
		}
	}
	if host != "localhost" {
		assert.NotRegexp(t, `(?i)\b`+regexp.QuoteMeta(host)+`\b`, out)
	}
}

// TestDoctorPage runs the commands of doctor in docs/tool.md.
func TestDoctorPage(t *testing.T) {
	tool := kerneltest.Built(t, kerneltest.Tool)
	if kerneltest.InVM() {
		t.Skip("docs is not in the virtual machine")
	}
	page, err := os.ReadFile("../../docs/tool.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## doctor\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := 0
	dir := t.TempDir()
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "kernelsym ") {
			continue
		}
		commands++
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, "kernelsym", tool, 1))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			assert.Contains(t, []int{1, 2}, exit.ExitCode(), "what doctor found: %s", out) // the page's packs do not exist
			err = nil
		}
		require.NoError(t, err)
		assert.NotContains(t, string(out), "Error:", line)
	}
	assert.Equal(t, 5, commands)
}
