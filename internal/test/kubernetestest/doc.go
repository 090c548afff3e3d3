// SPDX-License-Identifier: Apache-2.0

// Package kubernetestest applies the manifests in deploy/ to a real Kubernetes of two nodes, as deploy/README.md says, and
// tests what only a cluster shows: that everything becomes ready, that roll-outs lose nothing, and that each node is
// named by its own agent.
//
// Each node is a set of namespaces on this machine, in which a containerd and a kubelet run. When its first process
// ends, everything in it ends. Kubernetes is built from its modules (internal/tools/kubernetes); containerd and etcd are
// Debian's. The tests need root. `make test-kubernetes` runs them.
package kubernetestest
