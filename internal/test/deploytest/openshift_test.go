// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const openShift = "/docs/platforms/openshift.md"

// A constraints is OpenShift's SecurityContextConstraints, with the fields that the page sets.
type constraints struct {
	metav1.TypeMeta    `json:",inline"`
	Metadata           metav1.ObjectMeta   `json:"metadata"`
	Privileged         bool                `json:"allowPrivilegedContainer"`
	Escalation         bool                `json:"allowPrivilegeEscalation"`
	HostDir            bool                `json:"allowHostDirVolumePlugin"`
	HostIPC            bool                `json:"allowHostIPC"`
	HostNetwork        bool                `json:"allowHostNetwork"`
	HostPID            bool                `json:"allowHostPID"`
	HostPorts          bool                `json:"allowHostPorts"`
	Capabilities       []corev1.Capability `json:"allowedCapabilities"`
	ReadOnlyRoot       bool                `json:"readOnlyRootFilesystem"`
	RunAsUser          map[string]string   `json:"runAsUser"`
	SELinuxContext     map[string]string   `json:"seLinuxContext"`
	FSGroup            map[string]string   `json:"fsGroup"`
	SupplementalGroups map[string]string   `json:"supplementalGroups"`
	Seccomp            []string            `json:"seccompProfiles"`
	Volumes            []string            `json:"volumes"`
	Users              []string            `json:"users"`
}

// choice matches a key whose comment has other values for certain components.
var choice = regexp.MustCompile(`(?m)^(\w+): \S.*? # (.+ for .+)$`)

// constraintsFor returns the constraints of the page with the values for these components.
func constraintsFor(t *testing.T, components []string) constraints {
	t.Helper()
	all := snippetsOf(t, openShift)
	i := slices.IndexFunc(all, func(s snippet) bool { return strings.Contains(s.text, "kind: SecurityContextConstraints") })
	require.GreaterOrEqual(t, i, 0)
	text := choice.ReplaceAllStringFunc(all[i].text, func(line string) string {
		match := choice.FindStringSubmatch(line)
		for other := range strings.SplitSeq(match[2], "; ") {
			value, names, _ := strings.Cut(other, " for ")
			for _, name := range strings.Split(names, ", ") {
				require.DirExists(t, kubernetes+"components/"+name)
				if slices.Contains(components, name) {
					line = match[1] + ": " + value
				}
			}
		}
		return line
	})
	return decode[constraints](t, openShift, []byte(text))
}

// kindOf returns the name that constraints have for the kind of a volume.
func kindOf(t *testing.T, v corev1.Volume) string {
	t.Helper()
	switch {
	case v.ConfigMap != nil:
		return "configMap"
	case v.EmptyDir != nil:
		return "emptyDir"
	case v.HostPath != nil:
		return "hostPath"
	}
	require.Fail(t, "the test does not support this volume", v.Name)
	return ""
}

// check verifies that the constraints admit a pod, and allow it no access to the node that it does not have.
func (c *constraints) check(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	var volumes []string
	for _, v := range pod.Volumes {
		volumes = append(volumes, kindOf(t, v))
	}
	slices.Sort(volumes)
	assert.ElementsMatch(t, slices.Compact(volumes), c.Volumes)
	assert.Equal(t, slices.Contains(volumes, "hostPath"), c.HostDir)
	assert.Equal(t, pod.HostPID, c.HostPID)
	assert.Equal(t, pod.HostIPC, c.HostIPC)
	assert.Equal(t, pod.HostNetwork, c.HostNetwork)
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		checkRights(t, container.SecurityContext)
		assert.Subset(t, c.Capabilities, container.SecurityContext.Capabilities.Add)
	}
	assert.False(t, c.Privileged || c.Escalation || c.HostPorts)
	assert.True(t, c.ReadOnlyRoot)
	assert.Equal(t, []string{"runtime/default"}, c.Seccomp)
	for _, strategy := range []map[string]string{c.RunAsUser, c.SELinuxContext, c.FSGroup, c.SupplementalGroups} {
		assert.Equal(t, map[string]string{"type": "RunAsAny"}, strategy)
	}
}

// TestOpenShift verifies that the constraints on the page admit the agent of each manifest, with the values that the
// comments have for its components.
func TestOpenShift(t *testing.T) {
	for _, name := range kustomizations(t) {
		t.Run(name, func(t *testing.T) {
			m := render(t, name)
			c := constraintsFor(t, componentsOf(t, name))
			for _, d := range m.agents() {
				c.check(t, d.Spec.Template.Spec)
				assert.Equal(t, []string{"system:serviceaccount:" + d.Namespace + ":" + d.Spec.Template.Spec.ServiceAccountName}, c.Users)
			}
		})
	}
	t.Run("packs made from the boot image", func(t *testing.T) {
		readme := kustomizationsOf(t, "/deploy/README.md")
		whole, locate, made := readme[0], readme[10], readme[12]
		whole.Components = nil
		pod := apply(t, whole, locate, made).pods()["kernelsym"].Spec
		require.NotEmpty(t, pod.InitContainers)
		c := constraintsFor(t, []string{"kernelstack", "locate"})
		c.check(t, pod)
	})
	t.Run("ebpf-profiler", func(t *testing.T) {
		pod := render(t, "overlays/ebpf-profiler").daemonSet(profiler).Spec.Template.Spec
		assert.True(t, *pod.Containers[0].SecurityContext.Privileged, "the page says that it needs the SCC privileged")
	})
}
