// SPDX-License-Identifier: Apache-2.0

// Package thishost reads the identity of the machine that this process runs on.
package thishost

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Resource attributes that identify a host, by the semantic conventions.
const (
	ID   = "host.id"
	Name = "host.name"
	Node = "k8s.node.name"
)

// An Identity holds the known values of the attributes that identify this machine.
type Identity map[string][]string

// Read reads the identity of this machine, as far as that is possible from inside a container: there, the host name and
// the machine ID are often the container's own, and do not count.
//
// The environment variable OTEL_RESOURCE_ATTRIBUTES counts, with which a DaemonSet sets the node of a collector, and so do
// K8S_NODE_NAME, KUBE_NODE_NAME and NODE_NAME. procfs is where the host's /proc is mounted.
func Read(procfs string, getenv func(string) string) Identity {
	id := make(Identity)
	for pair := range strings.SplitSeq(getenv("OTEL_RESOURCE_ATTRIBUTES"), ",") {
		key, value, _ := strings.Cut(pair, "=")
		switch key = strings.TrimSpace(key); key {
		case ID, Name, Node:
			if decoded, err := url.PathUnescape(strings.TrimSpace(value)); err == nil {
				id.add(key, decoded)
			}
		}
	}
	for _, name := range []string{"K8S_NODE_NAME", "KUBE_NODE_NAME", "NODE_NAME"} {
		id.add(Node, getenv(name))
	}
	if name, err := os.Hostname(); err == nil && isHosts("/proc/self") {
		id.add(Name, name)
	}
	for process, file := range map[string]string{
		filepath.Join(procfs, "1"): filepath.Join(procfs, "1", "root", "etc", "machine-id"),
		"/proc/self":               "/etc/machine-id",
	} {
		if !isHosts(process) {
			continue
		}
		if machine, err := os.ReadFile(file); err == nil {
			id.add(ID, strings.TrimSpace(string(machine)))
		}
	}
	return id
}

func (id Identity) add(key, value string) {
	if value != "" && !slices.Contains(id[key], value) {
		id[key] = append(id[key], value)
	}
}

// isHosts reports whether a process, a directory of /proc, is in the first UTS namespace: then its host name is the
// host's, and it is in no container. The namespace's inode number is PROC_UTS_INIT_INO of include/linux/proc_ns.h. The
// machine ID is trusted under the same condition; see machine-id(5).
func isHosts(process string) bool {
	link, err := os.Readlink(filepath.Join(process, "ns", "uts"))
	return err == nil && link == "uts:[4026531838]"
}
