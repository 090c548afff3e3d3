// SPDX-License-Identifier: Apache-2.0

package kubernetestest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

const (
	controlPlane = "10.10.0.1"  // the first node
	apiService   = "10.96.0.1"  // the first address of services
	dnsService   = "10.96.0.10" // as most clusters have it
)

// A cluster is a Kubernetes of two nodes. The first also has the control plane.
type cluster struct {
	t        *testing.T
	nodes    []*node
	admin    string // kubeconfig of an administrator
	services string // file of the DNS server
}

// newCluster begins a cluster that has the images of this test. It ends with the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	images := buildImages(t)
	a := newAuthority(t, t.TempDir())
	c := &cluster{t: t, nodes: []*node{newNode(t, 1), newNode(t, 2)}, admin: a.kubeconfig(t, "admin", "admin", "system:masters")}
	connect(t, c.nodes[0], c.nodes[1])
	c.startControlPlane(a)
	for _, n := range c.nodes {
		n.configure(t, a, images)
	}
	c.startDNS()
	c.eventually("two nodes are ready", time.Minute, func() error {
		for _, n := range c.nodes {
			if out, err := c.try("wait", "--for=condition=Ready", "node/"+n.name, "--timeout=1s"); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	})
	return c
}

// startControlPlane starts etcd, the API server, the controllers and the scheduler.
func (c *cluster) startControlPlane(a *authority) {
	t, n := c.t, c.nodes[0]
	t.Helper()
	in := func(name string) string { return filepath.Join(a.dir, name) }
	a.issue(t, "apiserver", "kube-apiserver", "", net.ParseIP(controlPlane), net.ParseIP(apiService))
	a.issue(t, "accounts", "accounts", "")
	n.start(t, nil, debianFile("usr/bin/etcd"), "--data-dir="+filepath.Join(n.dir, "etcd"), "--unsafe-no-fsync")
	n.start(t, nil, kubernetesProgram("kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", "--advertise-address="+controlPlane,
		"--authorization-mode=Node,RBAC", "--allow-privileged", "--service-cluster-ip-range=10.96.0.0/16", "--client-ca-file="+in("ca.crt"),
		"--tls-cert-file="+in("apiserver.crt"), "--tls-private-key-file="+in("apiserver.key"),
		"--service-account-issuer=https://cluster.local", "--service-account-key-file="+in("accounts.crt"),
		"--service-account-signing-key-file="+in("accounts.key"),
		"--kubelet-client-certificate="+in("admin.crt"), "--kubelet-client-key="+in("admin.key"), "--kubelet-preferred-address-types=InternalIP")
	c.eventually("the API server is ready", time.Minute, func() error {
		_, err := c.try("get", "--raw", "/readyz")
		return err
	})
	n.start(t, nil, kubernetesProgram("kube-controller-manager"), "--leader-elect=false", "--root-ca-file="+in("ca.crt"),
		"--service-account-private-key-file="+in("accounts.key"), "--use-service-account-credentials",
		"--kubeconfig="+a.kubeconfig(t, "controllers", "system:kube-controller-manager", ""))
	n.start(t, nil, kubernetesProgram("kube-scheduler"), "--leader-elect=false",
		"--kubeconfig="+a.kubeconfig(t, "scheduler", "system:kube-scheduler", ""))
}

// startDNS starts a DNS server. It knows the services that updateDNS found last.
func (c *cluster) startDNS() {
	t, n := c.t, c.nodes[0]
	t.Helper()
	c.services = n.write(t, "services", "")
	self, err := os.Executable()
	require.NoError(t, err)
	n.start(t, []string{dnsEnv + "=" + controlPlane + ":53 " + c.services}, self)
	c.applyText(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: dns, namespace: kube-system}
spec: {clusterIP: %s, ports: [{name: dns, port: 53, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dns, namespace: kube-system, labels: {kubernetes.io/service-name: dns}}
addressType: IPv4
endpoints: [{addresses: [%s]}]
ports: [{name: dns, port: 53, protocol: UDP}]
`, dnsService, controlPlane))
}

// updateDNS writes the current services for the DNS server.
func (c *cluster) updateDNS() {
	c.t.Helper()
	var text strings.Builder
	for _, s := range get[corev1.ServiceList](c, "services", "--all-namespaces").Items {
		fmt.Fprintf(&text, "%s.%s.svc.cluster.local. %s\n", s.Name, s.Namespace, s.Spec.ClusterIP)
	}
	next := c.services + ".new"
	require.NoError(c.t, os.WriteFile(next, []byte(text.String()), 0o600))
	require.NoError(c.t, os.Rename(next, c.services))
}

// command returns a command that runs kubectl as an administrator, in this directory.
func (c *cluster) command(args ...string) *exec.Cmd {
	n := c.nodes[0]
	args = append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", n.first), kubernetesProgram("kubectl"), "--kubeconfig=" + c.admin}, args...)
	return exec.CommandContext(c.t.Context(), "nsenter", args...)
}

// try runs kubectl and returns its output.
func (c *cluster) try(args ...string) (string, error) {
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// kubectl runs kubectl, which must succeed.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	require.NoError(c.t, err)
	return out
}

// applyText applies objects.
func (c *cluster) applyText(text string) {
	c.t.Helper()
	cmd := c.command("apply", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	c.updateDNS()
}

// get returns an object, or a list of objects.
func get[T any](c *cluster, args ...string) *T {
	c.t.Helper()
	object := new(T)
	require.NoError(c.t, json.Unmarshal([]byte(c.kubectl(append([]string{"get", "-o", "json"}, args...)...)), object))
	return object
}

// eventually tries until there is no error.
func (c *cluster) eventually(what string, patience time.Duration, try func() error) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			require.NoError(c.t, err, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
