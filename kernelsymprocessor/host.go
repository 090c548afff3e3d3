// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Resource attributes that identify a host.
const (
	hostID   = "host.id"
	hostName = "host.name"
	nodeName = "k8s.node.name"
)

// A Host identifies the machine that this process runs on.
type Host struct {
	known map[string][]string // values by attribute
}

// ThisHost finds out the identity of this machine, as far as that is possible
// from inside a container: there, the host name and the machine ID are often the
// container's own and say nothing.
//
// What the environment variable OTEL_RESOURCE_ATTRIBUTES says counts (it is how a
// DaemonSet tells a collector its node), and K8S_NODE_NAME, KUBE_NODE_NAME and
// NODE_NAME. procfs is where the host's /proc is mounted.
func ThisHost(procfs string, getenv func(string) string) *Host {
	h := &Host{known: make(map[string][]string)}
	for pair := range strings.SplitSeq(getenv("OTEL_RESOURCE_ATTRIBUTES"), ",") {
		key, value, _ := strings.Cut(pair, "=")
		switch key = strings.TrimSpace(key); key {
		case hostID, hostName, nodeName:
			if decoded, err := url.PathUnescape(strings.TrimSpace(value)); err == nil {
				h.add(key, decoded)
			}
		}
	}
	for _, name := range []string{"K8S_NODE_NAME", "KUBE_NODE_NAME", "NODE_NAME"} {
		h.add(nodeName, getenv(name))
	}
	if name, err := os.Hostname(); err == nil && isHosts("/proc/self") {
		h.add(hostName, name)
	}
	for process, file := range map[string]string{
		filepath.Join(procfs, "1"): filepath.Join(procfs, "1", "root", "etc", "machine-id"),
		"/proc/self":               "/etc/machine-id",
	} {
		if !isHosts(process) {
			continue
		}
		if id, err := os.ReadFile(file); err == nil {
			h.add(hostID, strings.TrimSpace(string(id)))
		}
	}
	return h
}

// IsKnown reports whether there is an identity that resources can be compared with.
func (h *Host) IsKnown() bool { return len(h.known) > 0 }

func (h *Host) add(key, value string) {
	if value != "" && !slices.Contains(h.known[key], value) {
		h.known[key] = append(h.known[key], value)
	}
}

// isHosts reports whether a process, a directory of /proc, is in the first UTS
// namespace: then its host name is the host's, and it is in no container. The
// namespace's inode number is PROC_UTS_INIT_INO of include/linux/proc_ns.h. See
// machine-id(5) for the file that it is believed for, too.
func isHosts(process string) bool {
	link, err := os.Readlink(filepath.Join(process, "ns", "uts"))
	return err == nil && link == "uts:[4026531838]"
}

// IsForeign reports whether a resource is another host's: one of the attributes
// that identify it is known of this host and has another value, and none has
// the same.
func (h *Host) IsForeign(r pcommon.Resource) bool {
	foreign := false
	for key, known := range h.known {
		value, ok := r.Attributes().Get(key)
		if !ok || value.Type() != pcommon.ValueTypeStr || value.Str() == "" {
			continue
		}
		for _, k := range known {
			switch {
			case sameHost(key, value.Str(), k):
				return false
			case canTell(key, value.Str(), k):
				foreign = true
			}
		}
	}
	return foreign
}

// sameHost compares two values of an attribute. Of names, one can be the first
// label of the other.
func sameHost(key, a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b {
		return true
	}
	if key != hostName {
		return false
	}
	return strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// canTell reports whether two values differ because the hosts do. A host has several kinds of IDs, such as a machine ID
// and the ID that a cloud gave it.
func canTell(key, a, b string) bool {
	return key != hostID || len(a) == len(b) && strings.Count(a, "-") == strings.Count(b, "-")
}
