// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// rights are the capabilities of the agent. A manifest that is not listed has the capabilities of
// the base.
var rights = map[string][]corev1.Capability{
	"base":                  {"SYSLOG", "PERFMON", "SYS_ADMIN"},
	"overlays/no-sys-admin": {"SYSLOG", "PERFMON"},
	everything:              {"SYSLOG", "PERFMON"},
}

func rightsOf(name string) []corev1.Capability {
	if list, ok := rights[name]; ok {
		return list
	}
	return rights["base"]
}

// TestRights verifies that our containers have the rights they need and no others.
func TestRights(t *testing.T) {
	for _, name := range kustomizations(t) {
		t.Run(name, func(t *testing.T) {
			m := render(t, name)
			for owner, pod := range m.pods() {
				require.NotNil(t, pod.Spec.AutomountServiceAccountToken)
				assert.False(t, *pod.Spec.AutomountServiceAccountToken)
				assert.False(t, pod.Spec.HostNetwork)
				assert.False(t, pod.Spec.HostIPC)
				assert.Equal(t, owner == "kernelsym" && samplesWaits(name), pod.Spec.HostPID)
				var want []string
				if owner == "kernelsym" && (name == "components/host-mounts" || name == everything) {
					want = append(want, read...)
				}
				if owner == "kernelsym" && samplesKernel(name) {
					want = append(want, "/sys/fs/cgroup")
				}
				checkHostPaths(t, pod.Spec, want...)
				container := collectorOf(t, pod.Spec)
				require.Equal(t, "otelcol-kernelsym:"+version(t), container.Image)
				checkRights(t, container.SecurityContext)
				if owner == "kernelsym" {
					assert.Equal(t, rightsOf(name), container.SecurityContext.Capabilities.Add)
					continue
				}
				assert.Empty(t, container.SecurityContext.Capabilities.Add)
				assert.True(t, *container.SecurityContext.RunAsNonRoot)
			}
		})
	}
}

// read are the files and directories of the node that the agent reads.
var read = []string{"/proc/kallsyms", "/proc/modules", "/sys/module", "/sys/kernel/notes", "/sys/devices/system/cpu"}

// checkHostPaths verifies which of the node's files our container sees. Only components may mount
// any.
func checkHostPaths(t *testing.T, pod corev1.PodSpec, want ...string) {
	t.Helper()
	paths := make(map[string]string) // by volume
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			paths[v.Name] = v.HostPath.Path
		}
	}
	var got []string
	for _, mount := range collectorOf(t, pod).VolumeMounts {
		if path, ok := paths[mount.Name]; ok {
			assert.Equal(t, "/host"+path, mount.MountPath)
			got = append(got, path)
		}
	}
	assert.ElementsMatch(t, want, got)
	assert.Len(t, paths, len(want))
}

func checkRights(t *testing.T, c *corev1.SecurityContext) {
	t.Helper()
	assert.True(t, c.Privileged == nil || !*c.Privileged)
	require.NotNil(t, c.AllowPrivilegeEscalation)
	assert.False(t, *c.AllowPrivilegeEscalation)
	require.NotNil(t, c.ReadOnlyRootFilesystem)
	assert.True(t, *c.ReadOnlyRootFilesystem)
	assert.Equal(t, []corev1.Capability{"ALL"}, c.Capabilities.Drop)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, c.SeccompProfile.Type)
}
