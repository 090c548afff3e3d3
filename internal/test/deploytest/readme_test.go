// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// A snippet is a block of a page in a language.
type snippet struct{ language, text string }

var fenced = regexp.MustCompile("(?ms)^( *)```(\\w+)\n(.*?)^ *```$")

// snippetsOf returns the snippets of a page, without the indentation that they have in a list.
func snippetsOf(t *testing.T, page string) (list []snippet) {
	t.Helper()
	text, err := os.ReadFile(repository + page)
	require.NoError(t, err)
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		dedented := strings.TrimPrefix(strings.ReplaceAll("\n"+block[3], "\n"+block[1], "\n"), "\n")
		list = append(list, snippet{block[2], dedented})
	}
	require.NotEmpty(t, list, page)
	return list
}

// isKustomization reports whether a snippet is a kustomization or a part of one.
func (s snippet) isKustomization() bool {
	return s.language == "yaml" && regexp.MustCompile(`^(apiVersion: kustomize|configMapGenerator:|components:|patches:)`).MatchString(s.text)
}

// kustomizationsOf returns the kustomizations on a page: whole ones, and parts to add to one.
func kustomizationsOf(t *testing.T, page string) (list []types.Kustomization) {
	t.Helper()
	for _, s := range snippetsOf(t, page) {
		if s.isKustomization() {
			list = append(list, decode[types.Kustomization](t, page, []byte(s.text)))
		}
	}
	return list
}

// remote matches the address at which a page has the manifests of a release.
var remote = regexp.MustCompile(`^https://github\.com/kernelsym/kernelsym//deploy/kubernetes/(.*)\?ref=VERSION$`)

// apply renders parts of a kustomization. The manifests in this repository stand in for a release's.
func apply(t *testing.T, parts ...types.Kustomization) *manifest {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	local := func(urls []string) (paths []string) {
		for _, url := range urls {
			match := remote.FindStringSubmatch(url)
			require.NotNil(t, match, url)
			paths = append(paths, relative(t, dir, kubernetes+match[1]))
		}
		return paths
	}
	var all types.Kustomization
	for _, k := range parts {
		all.Resources = append(all.Resources, local(k.Resources)...)
		all.Components = append(all.Components, local(k.Components)...)
		all.Images = append(all.Images, k.Images...)
		all.ConfigMapGenerator = append(all.ConfigMapGenerator, k.ConfigMapGenerator...)
		all.Patches = append(all.Patches, k.Patches...)
	}
	text, err := yaml.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o600))
	return renderDirectory(t, dir)
}

// withComponents returns a part of a kustomization that adds components.
func withComponents(names ...string) (k types.Kustomization) {
	for _, name := range names {
		k.Components = append(k.Components, "https://github.com/kernelsym/kernelsym//deploy/kubernetes/components/"+name+"?ref=VERSION")
	}
	return k
}

// TestKustomizationsOfTheReadme verifies that each kustomization in deploy/README.md does what the
// page says.
func TestKustomizationsOfTheReadme(t *testing.T) {
	all := kustomizationsOf(t, "/deploy/README.md")
	require.Len(t, all, 13)
	whole, token, rate, pyroscope, older, noModules, gateway, byURL, byVolume, tls :=
		all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7], all[8], all[9]
	locate, fetched, made := all[10], all[11], all[12]

	t.Run("agents", func(t *testing.T) {
		m := apply(t, whole)
		c := collectorOf(t, m.pods()["kernelsym"].Spec)
		assert.Equal(t, "REGISTRY/otelcol-kernelsym:"+version(t), c.Image)
		assert.Contains(t, m.environment(t, c.Env), "OTLP_ENDPOINT=BACKEND:4317")
		assert.Equal(t, rights["overlays/no-sys-admin"], c.SecurityContext.Capabilities.Add)
	})
	t.Run("TLS and a header of the agents", func(t *testing.T) {
		exporter := apply(t, whole, token).exporterOf(t, "kernelsym")
		assert.Empty(t, exporter["tls"], "it is not insecure")
		assert.Equal(t, []any{map[string]any{"name": "authorization", "value": "Bearer made-up"}}, exporter["headers"])
		assert.Equal(t, "BACKEND:4317", exporter["endpoint"])
	})
	t.Run("TLS of a gateway", func(t *testing.T) {
		m := apply(t, whole, gateway, byURL, tls)
		assert.Equal(t, map[string]any{"ca_file": "/etc/otelcol-kernelsym-tls/ca.crt"}, m.exporterOf(t, "kernelsym-gateway")["tls"])
		assert.Equal(t, map[string]any{"insecure": true}, m.exporterOf(t, "kernelsym")["tls"], "the gateway expects no TLS")
		m.checkPod(t, "kernelsym-gateway", m.pods()["kernelsym-gateway"].Spec)
	})
	t.Run("each patch of a sender fits the other", func(t *testing.T) {
		swap := func(k types.Kustomization, kind, name string) types.Kustomization {
			patch := k.Patches[0]
			target := *patch.Target
			target.Kind, target.Name = kind, name
			patch.Target = &target
			return types.Kustomization{Patches: []types.Patch{patch}}
		}
		onGateway := apply(t, whole, gateway, swap(token, "Deployment", "kernelsym-gateway")).exporterOf(t, "kernelsym-gateway")
		assert.Equal(t, apply(t, whole, token).exporterOf(t, "kernelsym")["headers"], onGateway["headers"])
		onAgent := apply(t, whole, swap(tls, "DaemonSet", "kernelsym")).exporterOf(t, "kernelsym")
		assert.Equal(t, map[string]any{"ca_file": "/etc/otelcol-kernelsym-tls/ca.crt"}, onAgent["tls"])
	})
	t.Run("the rate of the eBPF profiler", func(t *testing.T) {
		m := apply(t, whole, withComponents("ebpf-profiler"), rate)
		receivers := m.effective(t, m.daemonSet(profiler).Spec.Template.Spec)["receivers"]
		assert.InDelta(t, 97, receivers.(map[string]any)["kernelstack"].(map[string]any)["frequency"], 0)
	})
	t.Run("the eBPF profiler with Pyroscope", func(t *testing.T) {
		m := apply(t, whole, pyroscope)
		pod := m.pods()["kernelsym"].Spec
		c := collectorOf(t, pod)
		config, more := m.config(t, pod, c)
		require.Len(t, more, 2)
		validate(t, config, m.environment(t, c.Env), more...)
	})
	t.Run("before Kubernetes 1.30", func(t *testing.T) {
		for _, parts := range [][]types.Kustomization{{whole, older}, {whole, gateway, withComponents("ebpf-profiler"), older}} {
			for owner, pod := range apply(t, parts...).pods() {
				c := collectorOf(t, pod.Spec)
				assert.Nil(t, c.Lifecycle, owner)
				assert.NotNil(t, c.LivenessProbe, owner)
			}
		}
	})
	t.Run("host-mounts on a kernel without modules", func(t *testing.T) {
		mounts := func(patches types.Kustomization) (list []string) {
			pod := apply(t, whole, withComponents("host-mounts"), patches).pods()["kernelsym"].Spec
			for _, v := range pod.Volumes {
				if v.HostPath != nil {
					list = append(list, v.HostPath.Path)
				}
			}
			checkHostPaths(t, pod, list...)
			return list
		}
		assert.ElementsMatch(t, read, mounts(types.Kustomization{}))
		assert.ElementsMatch(t, slices.DeleteFunc(slices.Clone(read), func(p string) bool { return p == "/proc/modules" }), mounts(noModules))
	})
	t.Run("a gateway", func(t *testing.T) {
		m := apply(t, whole, gateway, byURL)
		agent, c := collectorOf(t, m.pods()["kernelsym"].Spec), collectorOf(t, m.pods()["kernelsym-gateway"].Spec)
		assert.Contains(t, m.environment(t, agent.Env), "OTLP_ENDPOINT=kernelsym-gateway:4317", "nothing bypasses the gateway")
		assert.Equal(t, "REGISTRY/otelcol-kernelsym:"+version(t), c.Image)
		set := m.environment(t, c.Env)
		assert.Contains(t, set, "OTLP_ENDPOINT=BACKEND:4317")
		assert.Contains(t, set, "PACKS_URL=https://packs.example.org/{build_id}.{format}")
	})
	t.Run("packs in a volume", func(t *testing.T) {
		volumes := apply(t, whole, gateway, byVolume).pods()["kernelsym-gateway"].Spec.Volumes
		assert.Len(t, volumes, len(apply(t, whole, gateway).pods()["kernelsym-gateway"].Spec.Volumes))
		for _, v := range volumes {
			if v.Name == "packs" {
				assert.Nil(t, v.EmptyDir)
				assert.Equal(t, "packs", v.PersistentVolumeClaim.ClaimName)
			}
		}
	})
	t.Run("packs of a hidden kernel from a URL", func(t *testing.T) {
		m := apply(t, whole, locate, fetched)
		processors := m.effective(t, m.pods()["kernelsym"].Spec)["processors"].(map[string]any)
		packs := processors["kernelsym/locate"].(map[string]any)["debug_info"].(map[string]any)
		assert.Equal(t, "https://packs.example.org/{build_id}.{format}", packs["url"])
		assert.Equal(t, "/var/lib/kernelsym/packs", packs["directory"])
	})
	t.Run("packs of a hidden kernel from its boot image", func(t *testing.T) {
		m := apply(t, whole, locate, made)
		pod := m.pods()["kernelsym"].Spec
		m.checkPod(t, "kernelsym", pod)
		require.Len(t, pod.InitContainers, 1)
		c := pod.InitContainers[0]
		assert.Equal(t, collectorOf(t, pod).Image, c.Image)
		checkRights(t, c.SecurityContext)
		assert.Empty(t, c.SecurityContext.Capabilities.Add)
		assert.Equal(t, []string{"/kernelsym", "pack", "--boot", "--root", "/host", "--dir", "/var/lib/kernelsym/packs"}, c.Command)
		assert.Contains(t, c.VolumeMounts, corev1.VolumeMount{Name: "boot", MountPath: "/host/boot", ReadOnly: true})
		for _, mount := range c.VolumeMounts {
			if mount.Name != "boot" {
				assert.Contains(t, collectorOf(t, pod).VolumeMounts, mount, "the collector finds them there")
			}
		}
	})
	t.Run("OpenShift", func(t *testing.T) {
		patches := kustomizationsOf(t, "/docs/platforms/openshift.md")
		require.Len(t, patches, 1)
		c := collectorOf(t, apply(t, whole, patches[0]).pods()["kernelsym"].Spec)
		assert.Equal(t, "spc_t", c.SecurityContext.SELinuxOptions.Type)
		assert.Equal(t, rights["overlays/no-sys-admin"], c.SecurityContext.Capabilities.Add, "everything else stays")
	})
}

// TestPodsOnPages verifies that the parts of pods on pages can be decoded.
func TestPodsOnPages(t *testing.T) {
	blocks := func(page, key string) (list [][]byte) { // the blocks that begin with a key
		for _, s := range snippetsOf(t, page) {
			if s.language == "yaml" && strings.HasPrefix(s.text, key+":") {
				list = append(list, []byte(s.text))
			}
		}
		require.NotEmpty(t, list, "%s has no block that begins with %s", page, key)
		return list
	}
	c := decode[corev1.PodSpec](t, "packs.md", blocks("/docs/packs.md", "initContainers")[0]).InitContainers[0]
	assert.Equal(t, []corev1.Capability{"SYSLOG"}, c.SecurityContext.Capabilities.Add)
	assert.NotNil(t, decode[corev1.PodSpec](t, "packs.md", blocks("/docs/packs.md", "volumes")[0]).Volumes[0].Image)
	for _, block := range blocks("/docs/troubleshooting.md", "securityContext") {
		assert.NotNil(t, decode[corev1.Container](t, "troubleshooting.md", block).SecurityContext)
	}
}

// TestLabelsOfTheReadme verifies that the manifests, and the Helm chart with our values, have the
// labels by which the pages select pods. The label name of the chart is nameOverride.
func TestLabelsOfTheReadme(t *testing.T) {
	text, err := os.ReadFile(repository + "/deploy/README.md")
	require.NoError(t, err)
	selectors := regexp.MustCompile(` -l ([\w./-]+)=(\w+)`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, selectors)
	m := render(t, "base")
	file, err := os.ReadFile(repository + "/deploy/helm/values.yaml")
	require.NoError(t, err)
	v := decode[values](t, "values.yaml", file)
	chart := map[string]string{"app.kubernetes.io/name": v.LabelName}
	for _, s := range selectors {
		assert.Equal(t, s[2], m.daemonSets[0].Labels[s[1]])
		assert.Equal(t, s[2], m.pods()["kernelsym"].Labels[s[1]])
		assert.Equal(t, s[2], chart[s[1]])
	}
	assert.Equal(t, m.pods()["kernelsym"].Labels["app.kubernetes.io/component"], v.PodLabels["app.kubernetes.io/component"])
	assert.NotContains(t, string(text), "-c otelcol", "the chart's container has another name, and kubectl chooses the right one")
}

// block returns the block of a language in deploy/README.md that contains a text.
func block(t *testing.T, language, containing string) string {
	t.Helper()
	all := snippetsOf(t, "/deploy/README.md")
	i := slices.IndexFunc(all, func(s snippet) bool { return s.language == language && strings.Contains(s.text, containing) })
	require.GreaterOrEqual(t, i, 0, containing)
	return all[i].text
}
