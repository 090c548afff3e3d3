// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

const systemd = repository + "/deploy/systemd/"

// readUnit returns the settings of unit files. Later files change the settings of earlier ones.
func readUnit(t *testing.T, files ...string) map[string]string {
	t.Helper()
	settings := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(systemd + file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if !ok || strings.HasPrefix(key, "#") {
				continue
			}
			if key == "CapabilityBoundingSet" && value != "" && settings[key] != "" {
				value = settings[key] + " " + value
			}
			settings[key] = value
		}
	}
	return settings
}

// TestUnitHasTheRightsOfTheManifests verifies that the unit has the same capabilities, and that no
// setting takes away what they are for.
func TestUnitHasTheRightsOfTheManifests(t *testing.T) {
	for overlay, files := range map[string][]string{
		"base":                  {"otelcol-kernelsym.service"},
		"overlays/no-sys-admin": {"otelcol-kernelsym.service", "no-sys-admin.conf"},
	} {
		unit := readUnit(t, files...)
		var got []corev1.Capability
		for name := range strings.FieldsSeq(unit["CapabilityBoundingSet"]) {
			got = append(got, corev1.Capability(strings.TrimPrefix(name, "CAP_")))
		}
		assert.Equal(t, rights[overlay], got)
		for _, hides := range []string{"ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset", "PrivateUsers", "PrivateNetwork", "ProtectHostname"} {
			assert.NotContains(t, unit, hides)
		}
		assert.Contains(t, unit["RestrictAddressFamilies"], "AF_NETLINK")
		for _, call := range []string{"bpf", "perf_event_open"} {
			assert.True(t, slices.Contains(strings.Fields(unit["SystemCallFilter"]), call), call)
		}
	}
}

// TestHeaderOfTheUnit verifies that the commands in the header install what the unit runs, and run
// doctor with the unit's capabilities.
func TestHeaderOfTheUnit(t *testing.T) {
	text, err := os.ReadFile(systemd + "otelcol-kernelsym.service")
	require.NoError(t, err)
	header, _, _ := strings.Cut(string(text), "[Unit]")
	assert.Contains(t, header, "install -m755 build/otelcol-kernelsym build/kernelsym /usr/local/bin/\n")
	for _, setting := range []string{"CapabilityBoundingSet", "NoNewPrivileges"} {
		value := readUnit(t, "otelcol-kernelsym.service")[setting]
		assert.Contains(t, strings.ReplaceAll(header, `"`, ""), "-p "+setting+"="+value+" ")
	}
}

// TestConfigurationOfTheUnit verifies that the collector begins to refuse data before the unit is
// killed for its memory, and that its configuration does not mention a Kubernetes node.
func TestConfigurationOfTheUnit(t *testing.T) {
	text, err := os.ReadFile(repository + "/deploy/examples/agent.yaml")
	require.NoError(t, err)
	var config struct {
		Processors struct {
			MemoryLimiter struct {
				Limit int `json:"limit_mib"`
				Spike int `json:"spike_limit_mib"`
			} `json:"memory_limiter"`
		} `json:"processors"`
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	allowed, err := strconv.Atoi(strings.TrimSuffix(readUnit(t, "otelcol-kernelsym.service")["MemoryMax"], "M"))
	require.NoError(t, err)
	limiter := config.Processors.MemoryLimiter
	assert.Positive(t, limiter.Limit, "a percentage only works for cgroups of containers")
	assert.Less(t, limiter.Limit, allowed)
	assert.Less(t, limiter.Spike, limiter.Limit)
	assert.NotContains(t, string(text), "k8s.node.name")
}

const installedCollector = "/usr/local/bin/otelcol-kernelsym"

// TestUnitValidatesBeforeItReloads verifies that a reload stops at a configuration that is not valid: systemd runs the commands
// in their order, up to the first that fails, and the service runs on.
func TestUnitValidatesBeforeItReloads(t *testing.T) {
	text, err := os.ReadFile(systemd + "otelcol-kernelsym.service")
	require.NoError(t, err)
	var reload []string
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "ExecReload="); ok {
			reload = append(reload, strings.TrimSpace(command))
		}
	}
	_, arguments, _ := strings.Cut(readUnit(t, "otelcol-kernelsym.service")["ExecStart"], " ")
	require.Equal(t, []string{installedCollector + " validate " + arguments, "/bin/kill -HUP $MAINPID"}, reload)

	config, err := os.ReadFile(repository + "/deploy/examples/agent.yaml")
	require.NoError(t, err)
	for name, content := range map[string]string{
		"valid": string(config), "typo": strings.Replace(string(config), "kernelsym:", "kernelsym:\n    modules_settle: 1s", 1),
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		command := strings.Fields(strings.ReplaceAll(reload[0], "/etc/otelcol-kernelsym/config.yaml", file))
		validate := exec.CommandContext(t.Context(), kerneltest.Built(t, kerneltest.Collector), command[1:]...)
		validate.Env = []string{"OTLP_ENDPOINT=backend:4317"}
		out, err := validate.CombinedOutput()
		if name == "valid" {
			assert.NoError(t, err, "%s", out)
		} else {
			require.ErrorContains(t, err, "exit status 1")
			assert.Contains(t, string(out), "modules_settle")
		}
	}
}

// TestUnitServesNoMetrics verifies that users of the host cannot read metrics from the unit, unless its environment says so;
// the environment of the packages then limits absolute addresses, too.
func TestUnitServesNoMetrics(t *testing.T) {
	text, err := os.ReadFile(repository + "/deploy/examples/agent.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(text), "level: ${env:METRICS_LEVEL:-none}\n")
	assert.NotContains(t, string(text), "readers:")
	validate(t, string(text), []string{"METRICS_LEVEL=normal", "ABSOLUTE_FROM=local", "OTLP_ENDPOINT=backend:4317", "HOST_PROC=/proc", "HOST_SYS=/sys"})
	environment, err := os.ReadFile(repository + "/deploy/packages/environment")
	require.NoError(t, err)
	assert.Contains(t, string(environment), "#METRICS_LEVEL=normal\n#ABSOLUTE_FROM=local\n")
}

// TestUnitVerifies verifies that systemd reads the unit without a warning about unknown settings.
func TestUnitVerifies(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not installed, so it cannot read the unit")
	}
	binary := kerneltest.Built(t, kerneltest.Collector)
	text, err := os.ReadFile(systemd + "otelcol-kernelsym.service")
	require.NoError(t, err)
	unit := filepath.Join(t.TempDir(), "otelcol-kernelsym.service")
	installed := strings.ReplaceAll(string(text), installedCollector, binary)
	require.NoError(t, os.WriteFile(unit, []byte(installed), 0o600))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", unit).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), unit, "a warning")
}
