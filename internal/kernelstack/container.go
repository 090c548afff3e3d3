// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"strings"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// owner says whose work the samples of a cgroup are: a container's or the host's. The zero value is an owner that is not
// known.
type owner struct {
	known     bool
	container string // its id; empty for the host
}

var host = owner{known: true}

// runtimes are the prefixes of the cgroups that container runtimes make. After the prefix comes the container's id, and
// with the systemd driver, the suffix .scope. If the kubelet uses the systemd driver and the runtime does not, prefix and
// id are the last parts of a name like slice:cri-containerd:id. A name can begin with several of the prefixes; the longest
// comes first.
var runtimes = []string{
	"cri-containerd-", // containerd, for Kubernetes
	"nerdctl-",        // containerd, by nerdctl
	"crio-",           // CRI-O
	"docker-",         // Docker
	"libpod-payload-", // podman, with --cgroups=split, as quadlets have it
	"libpod-",         // podman
}

// monitor stands between the prefix and the id in the cgroup of conmon, which watches a container of CRI-O or podman and
// is not part of it.
const monitor = "conmon-"

// ownerOf returns the owner of a cgroup, by its path from the root of the hierarchy: the innermost container.
func ownerOf(path string) owner {
	if strings.HasPrefix(path, "//") || len(path) >= perfring.MaxCgroupPath-1 {
		return owner{} // the kernel had no memory for the path, or may have cut it
	}
	names := strings.Split(strings.Trim(path, "/"), "/")
	for n := len(names); n > 0; n-- {
		if o, ok := ownerByName(names[:n]); ok {
			return o
		}
	}
	return host
}

// claim is an owner by the names of cgroups, which whoever makes them chooses.
type claim struct {
	owner owner
	dir   string // the container's cgroup, by its path from the root of the hierarchy; empty if the owner is no container
}

// The limits of the path of a container. Paths by runtimes have about 10 names and 350 bytes, even in a container of a
// container.
const (
	maxDepth = 32
	maxPath  = 1 << 10
)

// claimOf returns the claim of a cgroup, by its path. Of several cgroups in the path with the container's id, the outermost
// is the container.
func claimOf(path string) claim {
	o := ownerOf(path)
	if o.container == "" {
		return claim{owner: o}
	}
	names, n := strings.Split(strings.Trim(path, "/"), "/"), 1
	for outer, _ := ownerByName(names[:n]); outer != o; outer, _ = ownerByName(names[:n]) {
		n++
	}
	dir := "/" + strings.Join(names[:n], "/")
	if n > maxDepth || len(dir) > maxPath {
		return claim{} // no runtime made it
	}
	id := strings.LastIndex(dir, o.container)
	o.container = dir[id : id+idLength] // does not keep the whole path in memory
	return claim{o, dir}
}

// ownerByName returns the owner of a cgroup if its own name decides. Its ancestors' names precede its own.
func ownerByName(names []string) (o owner, ok bool) {
	ancestors, name := names[:len(names)-1], names[len(names)-1]
	bare, isScope := strings.CutSuffix(name, ".scope")
	if parts := strings.Split(name, ":"); len(parts) == 3 {
		bare = parts[1] + "-" + parts[2]
	}
	for _, prefix := range runtimes {
		id, ok := strings.CutPrefix(bare, prefix)
		switch {
		case ok && isContainerID(id):
			return owner{known: true, container: id}, true
		case ok && strings.HasPrefix(id, monitor):
			return owner{}, false
		case ok && isScope:
			return owner{}, true // a runtime that names its containers differently
		}
	}
	inPod := isPod(ancestors)
	inDocker := len(ancestors) > 0 && ancestors[len(ancestors)-1] == "docker"
	if (inPod || inDocker) && isContainerID(name) { // the driver cgroupfs
		return owner{known: true, container: name}, true
	}
	return owner{}, inPod || endsInID(name) // it may be a container of another runtime
}

// endsInID reports whether a name ends in what may be the id of a container.
func endsInID(name string) bool {
	name = strings.TrimSuffix(name, ".scope")
	start := max(0, len(name)-idLength)
	return isContainerID(name[start:]) && (start == 0 || !isContainerID(name[start-1:len(name)-1]))
}

// isDelegated reports whether others than the root of the host may make cgroups in a cgroup, by the names in its path: it
// is a user's, or it is, or may be, a container.
func isDelegated(path string) bool {
	names := strings.Split(strings.Trim(path, "/"), "/")
	name := names[len(names)-1]
	_, isContainer := ownerByName(names)
	return isContainer ||
		strings.HasPrefix(name, "user@") && name != "user@0.service" ||
		strings.HasPrefix(name, "lxc.payload.") || // LXC and Incus
		strings.HasPrefix(name, "systemd-nspawn@") || strings.HasPrefix(name, "machine-") && strings.HasSuffix(name, ".scope")
}

// idLength is the length of a container's id.
const idLength = 64

// isPod reports whether a cgroup is one that the kubelet makes for a pod. With the systemd driver it is called
// kubepods-burstable-pod<uid>.slice, with the driver cgroupfs kubepods/burstable/pod<uid>. A guaranteed pod has no
// QoS cgroup above it.
func isPod(names []string) bool {
	if len(names) == 0 {
		return false
	}
	ancestors, name := names[:len(names)-1], names[len(names)-1]
	if slice, ok := strings.CutSuffix(name, ".slice"); ok {
		return strings.Contains(slice, "kubepods") && strings.Contains(slice, "-pod")
	}
	if n := len(ancestors); n > 0 && (ancestors[n-1] == "burstable" || ancestors[n-1] == "besteffort") {
		ancestors = ancestors[:n-1]
	}
	return strings.HasPrefix(name, "pod") && len(ancestors) > 0 && ancestors[len(ancestors)-1] == "kubepods"
}

// isContainerID reports whether a text has the form of the ids that all of these runtimes make.
func isContainerID(s string) bool {
	return len(s) == idLength && strings.Trim(s, "0123456789abcdef") == ""
}
