// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const kubernetes = repository + "/deploy/kubernetes/"

// everything stands for the base with all components.
const everything = "components/*"

// locates is a component that comes with another, kernelstack, and not with host-mounts.
const locates = "components/locate"

// samplesKernel reports whether the agent of a manifest has the receiver kernelstack.
func samplesKernel(name string) bool {
	return name == "components/kernelstack" || name == locates || samplesWaits(name)
}

// samplesWaits reports whether it samples off-CPU time, too.
func samplesWaits(name string) bool { return name == "components/off-cpu" || name == everything }

// kustomizations returns the base, the overlays, and the combinations of the base with components:
// with each component that is in no overlay, and with all together.
func kustomizations(t *testing.T) (list []string) {
	t.Helper()
	for _, pattern := range []string{"base", "overlays/*", "components/*"} {
		files, err := filepath.Glob(kubernetes + pattern + "/kustomization.yaml")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			name, err := filepath.Rel(kubernetes, filepath.Dir(file))
			require.NoError(t, err)
			if !slices.Contains(list, strings.Replace(name, "components/", "overlays/", 1)) {
				list = append(list, name)
			}
		}
	}
	return append(list, everything)
}

// componentsOf returns the names of the components in a manifest, without those that another one contains.
func componentsOf(t *testing.T, name string) (list []string) {
	t.Helper()
	switch name {
	case "base":
		return nil
	case locates:
		return []string{"locate", "kernelstack"}
	case everything:
		all, err := filepath.Glob(kubernetes + everything)
		require.NoError(t, err)
		for _, component := range all {
			if c := filepath.Base(component); c != "kernelstack" && c != "locate" { // off-cpu contains kernelstack
				list = append(list, c)
			}
		}
		return list
	default:
		return []string{filepath.Base(name)}
	}
}

// directory returns the directory to render. For components, this is one that also has the base.
func directory(t *testing.T, name string) string {
	t.Helper()
	if !strings.HasPrefix(name, "components/") {
		return kubernetes + name
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	k := types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources: []string{relative(t, dir, kubernetes+"base")},
	}
	for _, component := range componentsOf(t, name) {
		k.Components = append(k.Components, relative(t, dir, kubernetes+"components/"+component))
	}
	text, err := yaml.Marshal(k)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o600))
	return dir
}

// relative returns the path of a file or directory relative to another directory.
func relative(t *testing.T, from, target string) string {
	t.Helper()
	absolute, err := filepath.Abs(target)
	require.NoError(t, err)
	path, err := filepath.Rel(from, absolute)
	require.NoError(t, err)
	return path
}

// A manifest is what kustomize makes from a directory.
type manifest struct {
	namespaces  []corev1.Namespace
	accounts    []corev1.ServiceAccount
	services    []corev1.Service
	configs     map[string]corev1.ConfigMap
	daemonSets  []appsv1.DaemonSet
	deployments []appsv1.Deployment
	scalers     []autoscalingv2.HorizontalPodAutoscaler
	budgets     []policyv1.PodDisruptionBudget
	policies    []networkingv1.NetworkPolicy
	podMonitors []podMonitor
	rules       []prometheusRule
}

// render makes a manifest. It fails the test for a key that the type does not have.
func render(t *testing.T, name string) *manifest {
	t.Helper()
	return renderDirectory(t, directory(t, name))
}

func renderDirectory(t *testing.T, dir string) *manifest {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	require.NoError(t, err)
	m := &manifest{configs: make(map[string]corev1.ConfigMap)}
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		require.NoError(t, err)
		id := resource.CurId().String()
		switch resource.GetKind() {
		case "Namespace":
			m.namespaces = append(m.namespaces, decode[corev1.Namespace](t, id, text))
		case "ServiceAccount":
			m.accounts = append(m.accounts, decode[corev1.ServiceAccount](t, id, text))
		case "Service":
			m.services = append(m.services, decode[corev1.Service](t, id, text))
		case "ConfigMap":
			config := decode[corev1.ConfigMap](t, id, text)
			m.configs[config.Name] = config
		case "DaemonSet":
			m.daemonSets = append(m.daemonSets, decode[appsv1.DaemonSet](t, id, text))
		case "Deployment":
			m.deployments = append(m.deployments, decode[appsv1.Deployment](t, id, text))
		case "HorizontalPodAutoscaler":
			m.scalers = append(m.scalers, decode[autoscalingv2.HorizontalPodAutoscaler](t, id, text))
		case "PodDisruptionBudget":
			m.budgets = append(m.budgets, decode[policyv1.PodDisruptionBudget](t, id, text))
		case "NetworkPolicy":
			m.policies = append(m.policies, decode[networkingv1.NetworkPolicy](t, id, text))
		case "PodMonitor":
			m.podMonitors = append(m.podMonitors, decode[podMonitor](t, id, text))
		case "PrometheusRule":
			m.rules = append(m.rules, decode[prometheusRule](t, id, text))
		default:
			t.Fatalf("%s: the tests do not support this kind", id)
		}
	}
	return m
}

// decode decodes YAML, strictly.
func decode[T any](t *testing.T, what string, text []byte) (value T) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict(text, &value), what)
	return value
}

// profiler is the DaemonSet of the component ebpf-profiler.
const profiler = "kernelsym-ebpf-profiler"

// agents returns the DaemonSets that run our collector.
func (m *manifest) agents() []appsv1.DaemonSet {
	return slices.DeleteFunc(slices.Clone(m.daemonSets), func(d appsv1.DaemonSet) bool { return d.Name == profiler })
}

// daemonSet returns a DaemonSet by its name.
func (m *manifest) daemonSet(name string) appsv1.DaemonSet {
	return m.daemonSets[slices.IndexFunc(m.daemonSets, func(d appsv1.DaemonSet) bool { return d.Name == name })]
}

// pods returns the pods that run our collector, by the name of their owner.
func (m *manifest) pods() map[string]corev1.PodTemplateSpec {
	pods := make(map[string]corev1.PodTemplateSpec)
	for _, d := range m.agents() {
		pods[d.Name] = d.Spec.Template
	}
	for _, d := range m.deployments {
		pods[d.Name] = d.Spec.Template
	}
	return pods
}

// TestManifests verifies that all manifests can be rendered and decoded, and that their names refer
// to existing objects, which the types do not guarantee.
func TestManifests(t *testing.T) {
	for _, name := range kustomizations(t) {
		t.Run(name, func(t *testing.T) {
			m := render(t, name)
			require.Len(t, m.namespaces, 1)
			var selectors []map[string]string
			require.Len(t, m.agents(), 1)
			for _, d := range m.agents() {
				selectors = append(selectors, d.Spec.Selector.MatchLabels)
				collectorOf(t, d.Spec.Template.Spec)
				assert.Equal(t, "otelcol", d.Spec.Template.Annotations["kubectl.kubernetes.io/default-container"],
					"the container that kubectl exec and logs use")
				assert.Subset(t, d.Spec.Template.Labels, d.Spec.Selector.MatchLabels)
			}
			for _, d := range m.deployments {
				selectors = append(selectors, d.Spec.Selector.MatchLabels)
				assert.Subset(t, d.Spec.Template.Labels, d.Spec.Selector.MatchLabels)
			}
			require.Len(t, m.scalers, len(m.deployments))
			for i, d := range m.deployments {
				checkScaler(t, m.scalers[i], d)
			}
			for _, s := range m.services {
				selectors = append(selectors, s.Spec.Selector)
				assert.Equal(t, m.namespaces[0].Name, s.Namespace)
				m.checkService(t, s)
			}
			for _, selector := range selectors {
				assert.Equal(t, "kernelsym", selector["app.kubernetes.io/name"], "others have agents and gateways, too")
			}
			for owner, pod := range m.pods() {
				m.checkPod(t, owner, pod.Spec)
			}
			for _, d := range m.daemonSets {
				m.checkPod(t, d.Name, d.Spec.Template.Spec)
			}
		})
	}
}

// TestRollingUpdates verifies that a sender always reaches a pod of its node, and that no node is sampled by two.
func TestRollingUpdates(t *testing.T) {
	for _, name := range kustomizations(t) {
		t.Run(name, func(t *testing.T) {
			m := render(t, name)
			strategy := m.agents()[0].Spec.UpdateStrategy.RollingUpdate
			if samplesKernel(name) {
				assert.Equal(t, []string{"0", "10%"}, []string{strategy.MaxSurge.String(), strategy.MaxUnavailable.String()})
			} else {
				assert.Equal(t, []string{"10%", "0"}, []string{strategy.MaxSurge.String(), strategy.MaxUnavailable.String()})
			}
			for owner, pod := range m.pods() {
				assert.Equal(t, int64(5), collectorOf(t, pod.Spec).Lifecycle.PreStop.Sleep.Seconds, owner)
			}
			for _, d := range m.deployments {
				require.Len(t, m.budgets, 1)
				assert.Equal(t, d.Spec.Selector, m.budgets[0].Spec.Selector)
				assert.Equal(t, d.Spec.Selector, d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector)
			}
		})
	}
}

// TestNothingIsPatchedTwice verifies that no field has the value that it has without the manifest and that the API server
// leaves out: a second `kubectl apply` would patch it each time. What says no to a right stays.
func TestNothingIsPatchedTwice(t *testing.T) {
	for _, name := range kustomizations(t) {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory(t, name))
		require.NoError(t, err)
		for _, resource := range resources.Resources() {
			if resource.GetKind() == "ConfigMap" {
				for file, text := range resource.GetDataMap() { // in a resource of the operator, the API server prunes null
					if strings.HasSuffix(file, ".yaml") {
						checkNoNull(t, file, decode[any](t, file, []byte(text)))
					}
				}
				continue
			}
			text, err := resource.AsYAML()
			require.NoError(t, err)
			assert.NotRegexp(t, `(?m)^ *(- )?(hostNetwork|hostPID|hostIPC): false$`, string(text), name)
			assert.NotRegexp(t, `(?m): (""|null|~)$`, string(text), name)
		}
	}
}

// checkNoNull verifies that no key has an empty value.
func checkNoNull(t *testing.T, path string, value any) {
	t.Helper()
	switch v := value.(type) {
	case nil:
		t.Errorf("%s is null: write {}", path)
	case map[string]any:
		for key, value := range v {
			checkNoNull(t, path+"::"+key, value)
		}
	case []any:
		for _, value := range v {
			checkNoNull(t, path, value)
		}
	}
}

// checkScaler verifies that s scales a deployment by the resources that its pods request, and that
// nothing else scales it.
func checkScaler(t *testing.T, s autoscalingv2.HorizontalPodAutoscaler, d appsv1.Deployment) {
	t.Helper()
	target := s.Spec.ScaleTargetRef
	assert.Equal(t, autoscalingv2.CrossVersionObjectReference{APIVersion: d.APIVersion, Kind: d.Kind, Name: d.Name}, target)
	assert.Equal(t, d.Namespace, s.Namespace)
	assert.Nil(t, d.Spec.Replicas)
	for _, metric := range s.Spec.Metrics {
		for _, c := range d.Spec.Template.Spec.Containers {
			assert.Contains(t, c.Resources.Requests, metric.Resource.Name, "the share is relative to this request")
		}
	}
}

// checkService verifies that one kind of pod serves s, with the ports that s names.
func (m *manifest) checkService(t *testing.T, s corev1.Service) {
	t.Helper()
	served := 0
	for _, pod := range m.pods() {
		if !containsAll(pod.Labels, s.Spec.Selector) {
			continue
		}
		served++
		names := make(map[string]bool)
		for _, port := range collectorOf(t, pod.Spec).Ports {
			names[port.Name] = true
		}
		for _, port := range s.Spec.Ports {
			assert.True(t, names[port.TargetPort.String()], "%s: no port %s", s.Name, port.TargetPort.String())
		}
	}
	assert.Equal(t, 1, served, s.Name)
}

// collectorOf returns the container that runs our collector.
func collectorOf(t *testing.T, pod corev1.PodSpec) corev1.Container {
	t.Helper()
	for _, c := range pod.Containers {
		if c.Name == "otelcol" {
			return c
		}
	}
	t.Fatal("no container otelcol")
	return corev1.Container{}
}

func containsAll(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// checkPod verifies that the volumes a pod mounts and the account it runs as exist.
func (m *manifest) checkPod(t *testing.T, owner string, pod corev1.PodSpec) {
	t.Helper()
	assert.Equal(t, m.accounts[0].Name, pod.ServiceAccountName, owner)
	volumes, own := make(map[string]bool), make(map[string]bool)
	for _, v := range pod.Volumes {
		volumes[v.Name], own[v.Name] = true, v.EmptyDir != nil
		if v.ConfigMap != nil {
			assert.Contains(t, m.configs, v.ConfigMap.Name, owner)
		}
	}
	for _, c := range pod.Containers {
		for _, mount := range c.VolumeMounts {
			assert.True(t, volumes[mount.Name], "%s: no volume %s", owner, mount.Name)
			assert.Equal(t, !own[mount.Name], mount.ReadOnly, "%s: %s can be written to", owner, mount.Name)
		}
	}
}

// TestDocumentsAreStrict verifies that an unknown key is refused.
func TestDocumentsAreStrict(t *testing.T) {
	text, err := os.ReadFile(kubernetes + "base/daemonset.yaml")
	require.NoError(t, err)
	var d appsv1.DaemonSet
	require.NoError(t, yaml.UnmarshalStrict(text, &d))
	require.Error(t, yaml.UnmarshalStrict(append(text, "surprise: 1\n"...), &d))
}

// TestComponentsCombine verifies that the changes of all components are present when they are
// combined.
func TestComponentsCombine(t *testing.T) {
	all := render(t, everything)
	assert.NotEmpty(t, all.deployments, "gateway")
	assert.Len(t, all.daemonSets, 2, "ebpf-profiler")
	agent := all.agents()[0].Spec.Template.Spec
	c := collectorOf(t, agent)
	assert.Contains(t, c.Env, corev1.EnvVar{Name: "OTLP_ENDPOINT", Value: "kernelsym-gateway:4317"}, "gateway")
	assert.Contains(t, c.VolumeMounts, corev1.VolumeMount{Name: "kallsyms", MountPath: "/host/proc/kallsyms", ReadOnly: true}, "host-mounts")
	assert.Equal(t, rights["overlays/no-sys-admin"], c.SecurityContext.Capabilities.Add, "no-sys-admin")
	assert.True(t, agent.HostPID, "off-cpu")
	for _, argument := range []string{
		"processors::kernelsym: {procfs", "receivers::kernelstack: {containers: true", "profiles/kernelstack: {receivers", "off_cpu::enabled: true",
	} {
		assert.Len(t, slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return !strings.Contains(a, argument) }), 1, argument)
	}
}

// TestOnlyOwnSamplesAreLocated verifies that with the component locate, only samples of kernelstack pass through the processor
// that locates the kernel, in whichever order components are listed.
func TestOnlyOwnSamplesAreLocated(t *testing.T) {
	whole := kustomizationsOf(t, "/deploy/README.md")[0]
	type pipeline struct{ receivers, processors []any }
	for _, c := range []struct {
		components []string
		processor  string // of the samples
	}{
		{[]string{"kernelstack"}, "kernelsym"},
		{[]string{"kernelstack", "locate"}, "kernelsym/locate"},
		{[]string{"locate", "kernelstack"}, "kernelsym/locate"},
		{[]string{"locate", "off-cpu"}, "kernelsym/locate"},
		{[]string{"off-cpu", "gateway", "locate"}, "kernelsym/locate"},
	} {
		t.Run(strings.Join(c.components, ","), func(t *testing.T) {
			m := apply(t, whole, withComponents(c.components...))
			config := m.effective(t, m.pods()["kernelsym"].Spec)
			pipelines := make(map[string]pipeline)
			for name, p := range config["service"].(map[string]any)["pipelines"].(map[string]any) {
				pipelines[name] = pipeline{p.(map[string]any)["receivers"].([]any), p.(map[string]any)["processors"].([]any)}
			}
			assert.Equal(t, map[string]pipeline{
				"profiles":             {[]any{"otlp"}, []any{"memory_limiter", "kernelsym", "resource"}},
				"profiles/kernelstack": {[]any{"kernelstack"}, []any{"memory_limiter", c.processor, "resource"}},
			}, pipelines)
			for id, p := range config["processors"].(map[string]any) {
				if strings.HasPrefix(id, "kernelsym") {
					assert.Equal(t, id == "kernelsym/locate", p.(map[string]any)["locate"], id)
				}
			}
		})
	}
}
