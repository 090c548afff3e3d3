// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// A container is a running container.
type container struct {
	*otelcol.Process
	t *testing.T
}

// needSandbox skips the test unless this process may do what a container runtime does.
func needSandbox(t *testing.T) {
	t.Helper()
	kerneltest.NeedBPF(t)
	for _, c := range []capability.Cap{capability.CAP_SYS_ADMIN, capability.CAP_SETPCAP, capability.CAP_NET_ADMIN, capability.CAP_MKNOD} {
		if !kerneltest.Has(t, c) {
			t.Skipf("no CAP_%s (not root?): the container is not tested", strings.ToUpper(c.String()))
		}
	}
}

// startContainer does what a kubelet and a container runtime do with the agent's container of a
// manifest. The container has the files of the image, the mounts, variables and rights of the
// manifest, and its own namespaces.
func startContainer(t *testing.T, m *manifest, without ...string) *container {
	t.Helper()
	pod := m.pods()["kernelsym"].Spec
	spec := collectorOf(t, pod)
	image := buildImage(t)
	box := &sandbox{
		Root: filepath.Join(t.TempDir(), "root"),
		Args: append(slices.Clone(image.Entrypoint), spec.Args...),
		Env:  m.environment(t, append(spec.Env, corev1.EnvVar{Name: "OTLP_ENDPOINT", Value: backendAddress})),
		UID:  int(*spec.SecurityContext.RunAsUser), GID: int(*spec.SecurityContext.RunAsGroup),
		Mounts: m.mounts(t, pod, spec),
	}
	for _, mount := range box.Mounts { // it must find what is mounted for it, not its own files
		if own, ok := strings.CutPrefix(mount.Target, "/host"); ok {
			box.Hidden = append(box.Hidden, own)
		}
	}
	require.NoError(t, os.CopyFS(box.Root, os.DirFS(image.Root)))
	for _, c := range spec.SecurityContext.Capabilities.Add {
		if len(without) == 0 || string(c) != without[0] {
			box.Capabilities = append(box.Capabilities, string(c))
		}
	}
	text, err := json.Marshal(box)
	require.NoError(t, err)
	cmd := exec.Command("/proc/self/exe") //nolint:noctx // it is ended in its own way
	cmd.Env = []string{sandboxEnv + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces(t, pod), Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // otherwise, Pdeathsig comes with the end of some thread
	process, err := otelcol.Start(cmd)
	require.NoError(t, err)
	c := &container{process, t}
	t.Cleanup(c.stop)
	return c
}

// namespaces returns the namespaces that a pod has of its own, as flags of clone(2).
func namespaces(t *testing.T, pod corev1.PodSpec) uintptr {
	t.Helper()
	require.False(t, pod.HostNetwork, "it would use this machine's ports")
	require.Nil(t, pod.HostUsers, "this test does not make user namespaces")
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET)
	if !pod.HostPID {
		flags |= unix.CLONE_NEWPID
	}
	return flags
}

// mounts returns the mounts of a container. It writes the files of its configurations, and makes its empty directories.
func (m *manifest) mounts(t *testing.T, pod corev1.PodSpec, c corev1.Container) (list []mount) {
	t.Helper()
	for _, v := range c.VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name != v.Name {
				continue
			}
			if volume.HostPath != nil {
				if _, err := os.Stat(volume.HostPath.Path); volume.HostPath.Path == "/proc/modules" && errors.Is(err, fs.ErrNotExist) {
					t.Log("this kernel has no modules: their list is not mounted")
					continue
				}
				require.True(t, v.ReadOnly)
				list = append(list, mount{Source: volume.HostPath.Path, Target: v.MountPath, ReadOnlyBelow: v.RecursiveReadOnly != nil})
				continue
			}
			dir := t.TempDir()
			if volume.EmptyDir != nil {
				require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // as a kubelet does
				list = append(list, mount{Source: dir, Target: v.MountPath, Writable: true})
				continue
			}
			require.True(t, v.ReadOnly)
			for name, text := range m.configs[volume.ConfigMap.Name].Data {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) //nolint:gosec // as a kubelet does
			}
			list = append(list, mount{Source: dir, Target: v.MountPath})
		}
	}
	return list
}

// stop ends the container, and shows its log if the test has failed.
func (c *container) stop() {
	if err := c.Stop(); err != nil {
		c.t.Errorf("the container has ended: %v", err)
	}
	if c.t.Failed() {
		c.t.Logf("log of the container:\n%s", c.Log())
	}
}

// eventually tries until there is no error. It fails the test if there always is one, or if the
// container ends.
func (c *container) eventually(what string, try func() error) {
	c.t.Helper()
	require.NoError(c.t, c.Eventually(c.t.Context(), what, try))
}

// inside calls f in the network namespace of the container: sockets that f makes belong to it.
func (c *container) inside(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", c.PID()))
		if err == nil {
			defer ns.Close()
			if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
				err = f()
			}
		}
		done <- err
	}()
	return <-done
}

// dial connects to a port of the container.
func (c *container) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	err = c.inside(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}
