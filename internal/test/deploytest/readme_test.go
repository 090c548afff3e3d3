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

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// kustomizationsOf returns the kustomizations on a page: whole ones, and parts to add to one.
func kustomizationsOf(t *testing.T, page string) (list []types.Kustomization) {
	t.Helper()
	text, err := os.ReadFile(repository + page)
	require.NoError(t, err)
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		if regexp.MustCompile(`^(apiVersion: kustomize|configMapGenerator:|components:|patches:)`).MatchString(block[1]) {
			list = append(list, decode[types.Kustomization](t, page, []byte(block[1])))
		}
	}
	return list
}

// remote matches the address at which a page has the manifests of a release.
var remote = regexp.MustCompile(`^https://github\.com/kernelsym/kernelsym//deploy/kubernetes/(.*)\?ref=VERSION$`)

// apply renders parts of a kustomization. The manifests in this repository stand in for a
// release's, and the user's own configuration is beside them.
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
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("mine"), 0o600))
	return renderDirectory(t, dir)
}

// TestKustomizationsOfTheReadme verifies that each kustomization in deploy/README.md does what the
// page says.
func TestKustomizationsOfTheReadme(t *testing.T) {
	all := kustomizationsOf(t, "/deploy/README.md")
	require.Len(t, all, 8)
	whole, own, pyroscope, older, noModules, gateway, byURL, byVolume := all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7]

	t.Run("agents", func(t *testing.T) {
		m := apply(t, whole)
		c := collectorOf(t, m.pods()["kernelsym"].Spec)
		assert.Equal(t, "REGISTRY/otelcol-kernelsym:"+version(t), c.Image)
		assert.Contains(t, m.environment(t, c.Env), "OTLP_ENDPOINT=BACKEND:4317")
		assert.Equal(t, rights["overlays/no-sys-admin"], c.SecurityContext.Capabilities.Add)
	})
	t.Run("a configuration of one's own", func(t *testing.T) {
		m := apply(t, whole, own)
		pod := m.pods()["kernelsym"].Spec
		config, _ := m.config(t, pod, collectorOf(t, pod))
		assert.Equal(t, "mine", config)
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
		c := collectorOf(t, apply(t, whole, older).pods()["kernelsym"].Spec)
		assert.Nil(t, c.Lifecycle)
		assert.NotNil(t, c.LivenessProbe)
	})
	t.Run("host-mounts on a kernel without modules", func(t *testing.T) {
		const component = "https://github.com/kernelsym/kernelsym//deploy/kubernetes/components/host-mounts?ref=VERSION"
		mounts := func(patches types.Kustomization) (list []string) {
			pod := apply(t, whole, types.Kustomization{Components: []string{component}}, patches).pods()["kernelsym"].Spec
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
		text, err := os.ReadFile(repository + page)
		require.NoError(t, err)
		for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(block[1], key+":") {
				list = append(list, []byte(block[1]))
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
	text, err := os.ReadFile(repository + "/deploy/README.md")
	require.NoError(t, err)
	all := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	i := slices.IndexFunc(all, func(block []string) bool { return strings.Contains(block[1], containing) })
	require.GreaterOrEqual(t, i, 0, containing)
	return all[i][1]
}
