// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A machine is a directory tree with this machine's files. Changes go to a layer above them, and
// the network is empty.
type machine struct {
	t       *testing.T
	root    string
	systemd bool // whether it is installed
}

// newMachine mounts the tree. The process must have mount and network namespaces of its own; the
// mounts end with it.
func newMachine(t *testing.T) *machine {
	t.Helper()
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "")) // overlayfs cannot use every file system as its upper layer
	m := &machine{t: t, root: filepath.Join(dir, "root")}
	for _, name := range []string{"upper", "work", "root"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755)) //nolint:gosec // it becomes /
	}
	err := unix.Mount("overlay", m.root, "overlay", 0, "lowerdir=/,upperdir="+dir+"/upper,workdir="+dir+"/work")
	if errors.Is(err, unix.ENODEV) {
		t.Skip("this kernel has no overlayfs: no package is installed")
	}
	require.NoError(t, err)
	for _, name := range []string{"/proc", "/sys", "/dev"} {
		require.NoError(t, unix.Mount(name, m.path(name), "", unix.MS_BIND|unix.MS_REC, ""))
	}
	require.NoError(t, unix.Mount("tmpfs", m.path("/run"), "tmpfs", 0, ""))
	require.NoError(t, os.MkdirAll(m.path("/run/systemd/system"), 0o755)) //nolint:gosec // as systemd makes it
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	loopback(t)
	_, err = exec.LookPath("systemd-analyze")
	m.systemd = err == nil
	return m
}

// loopback brings up the interface that the collector listens on.
func loopback(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	request, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	request.SetUint16(unix.IFF_UP)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request))
}

// path returns the real path of a file in the tree.
func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

// command returns a command that runs inside the tree.
func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.Command("chroot", append([]string{m.root}, args...)...) //nolint:noctx // callers end it
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "SYSTEMD_OFFLINE=1"} // no systemd is running in the tree
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run runs a command inside the tree and returns its output.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.command(args...).CombinedOutput()
	require.NoError(m.t, err, "%q: %s", args, out)
	m.t.Logf("%q\n%s", args, out)
	return string(out)
}
