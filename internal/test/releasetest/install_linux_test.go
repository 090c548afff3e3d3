// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// insideEnv is the environment variable with the directory of the packages, for the test that
// runs in namespaces of its own.
const insideEnv = "KERNELSYM_TEST_PACKAGES"

// TestInstall installs the deb packages over a copy of this machine's files, starts the collector,
// upgrades, removes and purges them. It has TestInstallInside do so in new namespaces.
func TestInstall(t *testing.T) {
	for _, c := range []capability.Cap{capability.CAP_SYS_ADMIN, capability.CAP_NET_ADMIN, capability.CAP_SYS_CHROOT} {
		if !kerneltest.Has(t, c) {
			t.Skipf("no CAP_%s (not root?): nothing is installed", strings.ToUpper(c.String()))
		}
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("no dpkg: no package is installed")
	}
	dir := t.TempDir()
	for _, name := range []string{"kernelsym", "otelcol-kernelsym"} {
		content, err := os.ReadFile(packageFile(t, name, "deb"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".deb"), content, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestInstallInside$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	if strings.Contains(string(out), "\n--- SKIP: TestInstallInside") {
		t.Skip("see above")
	}
	assert.Contains(t, string(out), "\n--- PASS: TestInstallInside", "the test did not run")
}

// TestInstallInside runs as part of TestInstall.
func TestInstallInside(t *testing.T) {
	packages := os.Getenv(insideEnv)
	if packages == "" {
		t.Skip("part of TestInstall")
	}
	m := newMachine(t)
	for _, name := range []string{"kernelsym", "otelcol-kernelsym"} {
		content, err := os.ReadFile(filepath.Join(packages, name+".deb"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(m.path("/"+name+".deb"), content, 0o600))
	}
	install := func() {
		m.run("dpkg", "--no-triggers", "-i", "/kernelsym.deb", "/otelcol-kernelsym.deb")
	}
	install()
	assert.Empty(t, m.run("dpkg", "--verify", "kernelsym", "otelcol-kernelsym"))
	assert.Equal(t, "kernelsym version "+version(t)+"\n", m.run("/usr/bin/kernelsym", "--version"))
	m.checkUnit()
	m.startCollector()

	if m.systemd {
		assert.NoFileExists(t, m.path(wanted), "the package enables nothing")
		m.run("systemctl", "enable", "otelcol-kernelsym")
	}
	const environment = "/etc/otelcol-kernelsym/environment"
	require.NoError(t, os.WriteFile(m.path(environment), []byte("OTLP_ENDPOINT=localhost:1\n"), 0o600))
	install() // an upgrade
	text, err := os.ReadFile(m.path(environment))
	require.NoError(t, err)
	assert.Equal(t, "OTLP_ENDPOINT=localhost:1\n", string(text))
	if m.systemd {
		_, err = os.Lstat(m.path(wanted))
		require.NoError(t, err, "an upgrade keeps it enabled")
	}
	m.run("dpkg", "--no-triggers", "-r", "kernelsym", "otelcol-kernelsym")
	for name := range collectorFiles {
		_, err := os.Lstat(m.path(name))
		assert.Equal(t, strings.HasPrefix(name, "/etc/"), err == nil, "%s: %v", name, err)
	}
	_, err = os.Lstat(m.path(wanted))
	require.ErrorIs(t, err, os.ErrNotExist, "removal disables it")
	m.run("dpkg", "--no-triggers", "-P", "kernelsym", "otelcol-kernelsym")
	assert.NoDirExists(t, m.path("/etc/otelcol-kernelsym"))
}

// wanted is the link that enables the service.
const wanted = "/etc/systemd/system/multi-user.target.wants/otelcol-kernelsym.service"

// checkUnit has systemd verify the installed unit.
func (m *machine) checkUnit() {
	m.t.Helper()
	if !m.systemd {
		m.t.Log("systemd is not installed: the unit is not verified")
		return
	}
	out := m.run("systemd-analyze", "verify", "/usr/lib/systemd/system/otelcol-kernelsym.service")
	assert.NotContains(m.t, out, "otelcol-kernelsym.service", "a warning")
}

// startCollector runs the command of the unit until the collector is ready.
func (m *machine) startCollector() {
	m.t.Helper()
	text, err := os.ReadFile(m.path("/usr/lib/systemd/system/otelcol-kernelsym.service"))
	require.NoError(m.t, err)
	_, line, found := strings.Cut(string(text), "\nExecStart=")
	require.True(m.t, found)
	line, _, _ = strings.Cut(line, "\n")
	p, err := otelcol.Start(m.command(strings.Fields(line)...))
	require.NoError(m.t, err)
	defer func() { assert.NoError(m.t, p.Stop(), p.Log()) }()
	require.NoError(m.t, p.Eventually(m.t.Context(), "it is ready", func() error {
		if !strings.Contains(p.Log(), "Everything is ready") {
			return os.ErrNotExist
		}
		return nil
	}))
}
