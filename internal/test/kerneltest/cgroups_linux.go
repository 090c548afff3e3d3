// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// controllers is the file of a cgroup that names the controllers that are enabled below it.
const controllers = "cgroup.subtree_control"

// MountCgroup2 mounts the hierarchy of cgroup v2, as machines have it at /sys/fs/cgroup, until the test ends. It skips the
// test where that is not possible.
func MountCgroup2(t testing.TB) (mount string) {
	t.Helper()
	mount = t.TempDir()
	if err := unix.Mount("cgroup2", mount, "cgroup2", 0, ""); err != nil {
		if InVM() {
			t.Fatalf("mounting cgroup v2: %v", err)
		}
		t.Skipf("cgroup v2 cannot be mounted, so containers are not tested: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	})
	return mount
}

// HasController reports whether a controller is enabled for the cgroups below the root.
func HasController(t testing.TB, mount string) bool {
	t.Helper()
	return readCgroup(t, mount, controllers) != ""
}

// EnableController enables a controller for the cgroups below the root, as systemd does, until the test ends. There must
// be none.
func EnableController(t testing.TB, mount string) {
	t.Helper()
	available := strings.Fields(readCgroup(t, mount, "cgroup.controllers"))
	if len(available) == 0 {
		t.Fatal("cgroup v2 has no controllers")
	}
	write := func(sign string) {
		if err := os.WriteFile(filepath.Join(mount, controllers), []byte(sign+available[0]), 0o600); err != nil {
			t.Error(err)
		}
	}
	write("+")
	t.Cleanup(func() { write("-") })
}

func readCgroup(t testing.TB, dir, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// RemoveCgroup removes a cgroup, once its threads are gone.
func RemoveCgroup(t testing.TB, dir string) {
	t.Helper()
	var err error
	for range 10_000 {
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error(err)
}

// BusyContainer has a process keep the kernel busy until the test ends, in a cgroup as Docker makes them for containers, and
// returns the container's id.
func BusyContainer(t testing.TB, mount string) (id string) {
	t.Helper()
	id = fmt.Sprintf("%064x", os.Getpid())
	dir := filepath.Join(mount, "docker-"+id+".scope")
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as others are
		t.Fatal(err)
	}
	t.Cleanup(func() { RemoveCgroup(t, dir) })
	cgroup, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cgroup.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "dd", "if=/dev/urandom", "of=/dev/null", "bs=64k")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return id
}
