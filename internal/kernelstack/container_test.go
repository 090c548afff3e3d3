// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

var (
	idA = strings.Repeat("0a", 32)
	idB = strings.Repeat("1b", 32)
)

func in(id string) owner { return owner{known: true, container: id} }

// ownersByPath has paths of cgroups as the runtimes make them, and others.
var ownersByPath = map[string]owner{
	"/":                                   host,
	"/init.scope":                         host,
	"/system.slice/kubelet.service":       host,
	"/system.slice/docker.service":        host,
	"/system.slice/docker-events.service": host,
	"/kubepods.slice":                     host,
	"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice": host,
	"/kubepods/burstable/pod12-34":   host,
	"/docker/buildkit/sh1wa4n4v8vqz": host,

	// The systemd driver.
	"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice/cri-containerd-" + idA + ".scope": in(idA),
	"/kubepods.slice/kubepods-pod12_34.slice/crio-" + idA + ".scope":                                              in(idA),
	"/system.slice/docker-" + idA + ".scope":                                                                      in(idA),
	"/system.slice/nerdctl-" + idA + ".scope":                                                                     in(idA),
	"/machine.slice/libpod-" + idA + ".scope":                                                                     in(idA),
	"/machine.slice/libpod-" + idA + ".scope/container":                                                           in(idA),
	"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + idA + ".scope/container":                 in(idA),
	"/system.slice/web.service/libpod-payload-" + idA:                                                             in(idA),
	"/system.slice/web.service/runtime":                                                                           host,

	// The driver cgroupfs.
	"/kubepods/burstable/pod12-34/" + idA:          in(idA),
	"/kubepods/pod12-34/" + idA + "/init.scope":    in(idA),
	"/kubepods/pod12-34/" + idA + "/podcasts/app":  in(idA),
	"/kubepods/pod12-34/crio-" + idA:               in(idA),
	"/docker/" + idA:                               in(idA),
	"/libpod_parent/libpod-" + idA:                 in(idA),
	"/libpod_parent/conmon":                        host,
	"/kubelet/kubepods/besteffort/pod12-34/" + idA: in(idA),

	// A process that watches a container is not in it.
	"/kubepods.slice/kubepods-pod12_34.slice/crio-conmon-" + idA + ".scope": host,
	"/machine.slice/libpod-conmon-" + idA + ".scope":                        host,

	// Containers in containers.
	"/docker/" + idA + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod12_34.slice/cri-containerd-" + idB + ".scope": in(idB),
	"/docker/" + idA + "/docker/" + idB:                                                     in(idB),
	"/docker/" + idA + "/system.slice/containerd.service":                                   in(idA),
	"/docker/" + idA + "/system.slice/libpod-conmon-" + idB + ".scope":                      in(idA),
	"/system.slice/docker-" + idA + ".scope/kubepods/burstable/pod12-34/" + idB + "/worker": in(idB),

	// The kubelet has the systemd driver, the runtime has not.
	"/system.slice/containerd.service/kubepods-burstable-pod12_34.slice:cri-containerd:" + idA: in(idA),
	"/kubepods.slice/kubepods-pod12_34.slice:cri-containerd:" + idA:                            in(idA),

	// What may be a container.
	"/system.slice/" + idA:                                       {}, // of an unknown runtime
	"/default/" + idA:                                            {},
	"/parent/" + idA + "/worker":                                 {},
	"/machine.slice/other-" + idA + ".scope":                     {},
	"/a:b:" + idA:                                                {},
	"/system.slice/docker-compose.scope":                         {},
	"/system.slice/docker-" + strings.ToUpper(idA) + ".scope":    {},
	"/system.slice/docker-" + idA[1:] + ".scope":                 {},
	"/system.slice/docker-" + idA[1:] + "g.scope/app":            {},
	"/docker/" + idA + "/docker-other.scope":                     {},
	"/kubepods/burstable/pod12-34/sandbox":                       {},
	"/kubepods.slice/kubepods-pod12_34.slice/new-runtime-" + idA: {},
	"//enomem": {}, // the kernel could not allocate the path
	"/" + strings.Repeat("p", perfring.MaxCgroupPath-2):                        {}, // may be cut
	"/docker-" + idA + ".scope/" + strings.Repeat("p", perfring.MaxCgroupPath): {},
	"/docker-" + idA + ".scope/" + strings.Repeat("p", 255):                    in(idA),
}

func TestOwnerOf(t *testing.T) {
	for path, want := range ownersByPath {
		assert.Equal(t, want, ownerOf(path), path)
	}
}

// FuzzOwnerOf verifies that a container's id is part of the path, and that the cgroups in a container are its own unless
// their names say otherwise.
func FuzzOwnerOf(f *testing.F) {
	for path := range ownersByPath {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		o := ownerOf(path)
		if o.container != "" && (!o.known || !isContainerID(o.container) || !strings.Contains(path, o.container)) {
			t.Fatalf("%+v of %q", o, path)
		}
		if len(path) < 1000 && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") {
			path := strings.TrimRight(path, "/")
			inside := ownerOf(path + "/worker")
			// A name can be a container's and a pod's: pod:cri-containerd:ID below kubepods. What is in it is the pod's.
			if o.container != "" && inside != o && !isPod(strings.Split(path, "/")) {
				t.Fatalf("%+v of %q, %+v inside", o, path, inside)
			}
		}
	})
}
