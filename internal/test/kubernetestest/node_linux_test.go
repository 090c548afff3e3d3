// SPDX-License-Identifier: Apache-2.0

package kubernetestest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A node is a set of namespaces with a file system in which nothing but its own directory lasts.
type node struct {
	name    string
	address string // of the node
	pods    string // network of its pods
	dir     string // its files
	cgroup  string // path below which all of its cgroups are
	first   int    // process ID of its first process: when that ends, all of its processes do
}

// beginNode is the script of a node's first process: it hides the directories that containerd and kubelet
// write to, waits until it is killed, and reaps orphans.
const beginNode = `set -e
mount --make-rshared /
for dir in /run /var/lib /var/log; do mount -t tmpfs tmpfs $dir; done
mkdir -p /var/log/pods /var/log/containers
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1
touch "$0/begun"
while :; do sleep 1000 & wait; done`

// newNode begins a node. When the test ends, nothing of it is left, which the test verifies.
func newNode(t *testing.T, number int) *node {
	t.Helper()
	n := &node{
		name: fmt.Sprintf("node%d", number), address: fmt.Sprintf("10.10.0.%d", number), pods: fmt.Sprintf("10.244.%d.0/24", number),
		cgroup: fmt.Sprintf("/kernelsym-test-%d-%d", os.Getpid(), number),
	}
	n.dir = filepath.Join(t.TempDir(), n.name)
	require.NoError(t, os.Mkdir(n.dir, 0o755))                                                                 //nolint:gosec // the files of its containers are in it
	holder := exec.Command("unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child", //nolint:noctx // it is killed
		"--mount-proc", "bash", "-c", beginNode, n.dir)
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output strings.Builder
	holder.Stdout, holder.Stderr = &output, &output
	require.NoError(t, holder.Start())
	t.Cleanup(func() {
		assert.NoError(t, holder.Process.Kill())
		_ = holder.Wait()
		n.checkGone(t)
	})
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(n.dir, "begun"))
		return err == nil
	}, 10*time.Second, 10*time.Millisecond, "%s", &output)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", holder.Process.Pid))
	require.NoError(t, err)
	_, err = fmt.Sscan(string(children), &n.first)
	require.NoError(t, err)
	for _, hierarchy := range hierarchies(t) {
		require.NoError(t, os.Mkdir(hierarchy+n.cgroup, 0o755)) //nolint:gosec // as others are
	}
	return n
}

// hierarchies returns where the hierarchies of cgroups are mounted that kubelet uses.
func hierarchies(t *testing.T) (mounts []string) {
	t.Helper()
	list, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		mount, device, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(mount); strings.HasPrefix(device, "cgroup") && strings.HasPrefix(fields[4], "/sys/fs/cgroup") {
			mounts = append(mounts, fields[4])
		}
	}
	require.NotEmpty(t, mounts)
	return mounts
}

// enter returns a command that runs in the node.
func (n *node) enter(program string, args ...string) *exec.Cmd {
	args = append([]string{fmt.Sprintf("--target=%d", n.first), "--mount", "--net", "--pid", "--ipc", "--uts", "--wd=/", program}, args...)
	return exec.Command("nsenter", args...) //nolint:noctx // it ends with the node
}

// ip configures the network of the node.
func (n *node) ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := n.enter("ip", args...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", args, out)
}

// start begins a program that runs as long as the node. Its output is in a file, whose end is shown if the test fails.
func (n *node) start(t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	name := filepath.Base(program)
	log, err := os.Create(filepath.Join(n.dir, name+".log"))
	require.NoError(t, err)
	cmd := n.enter(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s of %s:\n%s", name, n.name, text[max(0, len(text)-1500):])
		}
	})
}

// write writes a file of the node and returns its path.
func (n *node) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(n.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))  //nolint:gosec // the node's
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // likewise
	return path
}

// checkGone verifies that no process, mount, cgroup or device of the node is left on this machine. It removes the cgroups.
func (n *node) checkGone(t *testing.T) {
	t.Helper()
	for _, hierarchy := range hierarchies(t) {
		assert.Eventually(t, func() bool { return removeCgroups(hierarchy+n.cgroup) == nil }, 30*time.Second, 50*time.Millisecond, hierarchy)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	assert.NotContains(t, string(mounts), n.dir)
	processes, err := filepath.Glob("/proc/[0-9]*/root")
	require.NoError(t, err)
	for _, root := range processes {
		if cmdline, err := os.ReadFile(filepath.Join(filepath.Dir(root), "cmdline")); err == nil {
			assert.NotContains(t, string(cmdline), n.dir, "%s is left", root)
		}
	}
	links, err := exec.CommandContext(t.Context(), "ip", "-o", "link").CombinedOutput()
	if err == nil { // its context may be done
		assert.NotContains(t, string(links), n.name)
	}
}

// removeCgroups removes a cgroup and all below it. It fails as long as one has a process.
func removeCgroups(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = syscall.Rmdir(dirs[i])
	}
	return err
}

// configure gives the node a network, starts containerd and kubelet, and imports images.
func (n *node) configure(t *testing.T, a *authority, images []string) {
	t.Helper()
	n.write(t, "cni/10-pods.conflist", fmt.Sprintf(`{
  "cniVersion": "0.4.0", "name": "pods",
  "plugins": [
    {"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}`, n.pods))
	config := n.write(t, "containerd.toml", fmt.Sprintf(`
version = 2
root = %q
state = "/run/containerd"
[grpc]
address = %q
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/%s"
restrict_oom_score_adj = true # otherwise it needs CAP_SYS_RESOURCE
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %q
conf_dir = %q
`, filepath.Join(n.dir, "containerd"), runtimeSocket, busybox, debianFile("usr/lib/cni"), filepath.Join(n.dir, "cni")))
	n.start(t, []string{"PATH=" + debianFile("usr/bin") + ":" + debianFile("usr/sbin") + ":" + os.Getenv("PATH")},
		debianFile("usr/bin/containerd"), "--config="+config)
	ctr := func(args ...string) ([]byte, error) {
		return n.enter(debianFile("usr/bin/ctr"), append([]string{"--address=" + runtimeSocket, "--namespace=k8s.io"}, args...)...).CombinedOutput()
	}
	require.Eventually(t, func() bool {
		_, err := ctr("version")
		return err == nil
	}, time.Minute, 50*time.Millisecond, "containerd does not answer")
	for _, image := range images {
		out, err := ctr("images", "import", image)
		require.NoError(t, err, "%s", out)
	}
	n.startKubelet(t, a)
}

const runtimeSocket = "/run/containerd/containerd.sock"

func (n *node) startKubelet(t *testing.T, a *authority) {
	t.Helper()
	config := n.write(t, "kubelet.yaml", fmt.Sprintf(`
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
authentication: {x509: {clientCAFile: %s}, anonymous: {enabled: false}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: %s
failSwapOn: false
failCgroupV1: false
clusterDomain: cluster.local
clusterDNS: [%s]
resolvConf: %s
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%"}
imageGCHighThresholdPercent: 100
`, n.address, filepath.Join(a.dir, "ca.crt"), runtimeSocket, n.cgroup, dnsService, n.write(t, "resolv.conf", "nameserver "+dnsService+"\n")))
	n.start(t, nil, kubernetesProgram("kubelet"), "--config="+config, "--root-dir="+filepath.Join(n.dir, "kubelet"),
		"--hostname-override="+n.name, "--node-ip="+n.address, "--v=1",
		"--kubeconfig="+a.kubeconfig(t, "kubelet-"+n.name, "system:node:"+n.name, "system:nodes"))
	proxy := n.write(t, "proxy.yaml", fmt.Sprintf(`
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: 10.244.0.0/16
conntrack: {maxPerCore: 0, min: 0}
hostnameOverride: %s
clientConnection: {kubeconfig: %s}
`, n.name, a.kubeconfig(t, "proxy-"+n.name, "system:kube-proxy", "")))
	n.start(t, nil, kubernetesProgram("kube-proxy"), "--config="+proxy)
}

// connect connects two nodes, and the networks of their pods.
func connect(t *testing.T, one, two *node) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", "link", "add", "eth0", "netns", strconv.Itoa(one.first), "type", "veth",
		"peer", "name", "eth0", "netns", strconv.Itoa(two.first)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, pair := range [][2]*node{{one, two}, {two, one}} {
		n, peer := pair[0], pair[1]
		n.ip(t, "address", "add", n.address+"/24", "dev", "eth0")
		n.ip(t, "link", "set", "eth0", "up")
		n.ip(t, "route", "add", "default", "via", peer.address)
		n.ip(t, "route", "add", peer.pods, "via", peer.address)
	}
}
