// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// values are the values of the Helm chart that we use. The parts that the chart copies to a pod
// have the types of Kubernetes.
type values struct {
	Mode      string `json:"mode"`
	Name      string `json:"fullnameOverride"`
	LabelName string `json:"nameOverride"`
	Image     struct {
		Repository string `json:"repository"`
		Tag        string `json:"tag"`
	} `json:"image"`
	Command struct {
		Name      string   `json:"name"`
		ExtraArgs []string `json:"extraArgs"`
	} `json:"command"`
	ServiceAccount struct {
		Create                       bool `json:"create"`
		AutomountServiceAccountToken bool `json:"automountServiceAccountToken"`
	} `json:"serviceAccount"`
	PodLabels          map[string]string           `json:"podLabels"`
	PodAnnotations     map[string]string           `json:"podAnnotations"`
	NodeSelector       map[string]string           `json:"nodeSelector"`
	Tolerations        []corev1.Toleration         `json:"tolerations"`
	PodSecurityContext corev1.PodSecurityContext   `json:"podSecurityContext"`
	SecurityContext    corev1.SecurityContext      `json:"securityContext"`
	Resources          corev1.ResourceRequirements `json:"resources"`
	Rollout            struct {
		Strategy      appsv1.DaemonSetUpdateStrategyType `json:"strategy"`
		RollingUpdate *appsv1.RollingUpdateDaemonSet     `json:"rollingUpdate"`
	} `json:"rollout"`
	LifecycleHooks *corev1.Lifecycle `json:"lifecycleHooks"`
	LivenessProbe  corev1.Probe      `json:"livenessProbe"`
	ReadinessProbe corev1.Probe      `json:"readinessProbe"`
	UseGOMEMLIMIT  bool              `json:"useGOMEMLIMIT"`
	ExtraEnvs      []corev1.EnvVar   `json:"extraEnvs"`
	Service        struct {
		Enabled               bool                                `json:"enabled"`
		InternalTrafficPolicy corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy"`
	} `json:"service"`
	Ports map[string]struct {
		Enabled  *bool  `json:"enabled"`
		HostPort *int32 `json:"hostPort"`
	} `json:"ports"`
	AlternateConfig map[string]any `json:"alternateConfig"`
}

// TestHelmValues verifies that the values make the same agent as the base.
func TestHelmValues(t *testing.T) {
	text, err := os.ReadFile(repository + "/deploy/helm/values.yaml")
	require.NoError(t, err)
	v := decode[values](t, "values.yaml", text)
	m := render(t, "base")
	template := m.pods()["kernelsym"]
	pod := template.Spec
	c := collectorOf(t, pod)
	assert.Equal(t, *c.SecurityContext, v.SecurityContext)
	assert.Equal(t, c.Resources, v.Resources)
	assert.Equal(t, []string{otelcol.FeatureGates}, v.Command.ExtraArgs)
	assert.Equal(t, m.daemonSets[0].Spec.UpdateStrategy.RollingUpdate, v.Rollout.RollingUpdate)
	assert.Equal(t, c.Lifecycle, v.LifecycleHooks)
	assert.Equal(t, c.LivenessProbe.HTTPGet.Path, v.LivenessProbe.HTTPGet.Path)
	assert.Equal(t, c.ReadinessProbe.HTTPGet.Path, v.ReadinessProbe.HTTPGet.Path)
	assert.Equal(t, pod.Tolerations, v.Tolerations)
	assert.Equal(t, pod.NodeSelector, v.NodeSelector)
	assert.Equal(t, m.services[0].Name, v.Name, "the name that profilers send to")
	for _, name := range []string{"prometheus.io/scrape", "prometheus.io/port"} {
		require.NotEmpty(t, template.Annotations[name])
		assert.Equal(t, template.Annotations[name], v.PodAnnotations[name])
	}
	for _, port := range []string{"otlp", "otlp-http"} { // the chart uses ports of the node for these
		if assert.NotNil(t, v.Ports[port].HostPort, port) {
			assert.Zero(t, *v.Ports[port].HostPort, port)
		}
	}
	assert.Len(t, c.VolumeMounts, 1, "only the mount of the configuration, which the chart makes")
	assert.Subset(t, m.environment(t, c.Env), m.environment(t, v.ExtraEnvs))
	assert.Equal(t, c.Image, v.Image.Repository+":"+v.Image.Tag)
	assert.Equal(t, *m.services[0].Spec.InternalTrafficPolicy, v.Service.InternalTrafficPolicy)

	file, _ := m.config(t, pod, c)
	base := decode[map[string]any](t, "config.yaml", []byte(file))
	assert.Equal(t, base, v.AlternateConfig)
	config, err := yaml.Marshal(v.AlternateConfig)
	require.NoError(t, err)
	validate(t, string(config), m.environment(t, v.ExtraEnvs))
}

// collectorSpec has the fields that we use of the spec of the operator's OpenTelemetryCollector (v1beta1). The chart
// kube-stack takes the same fields, an image of another form, and those at the end.
type collectorSpec struct {
	Image             any                            `json:"image"`
	Mode              string                         `json:"mode"`
	Args              map[string]string              `json:"args"`
	PodAnnotations    map[string]string              `json:"podAnnotations"`
	NodeSelector      map[string]string              `json:"nodeSelector"`
	Tolerations       []corev1.Toleration            `json:"tolerations"`
	SecurityContext   corev1.SecurityContext         `json:"securityContext"`
	DaemonSetStrategy appsv1.DaemonSetUpdateStrategy `json:"daemonSetUpdateStrategy"`
	Lifecycle         *corev1.Lifecycle              `json:"lifecycle"`
	Resources         corev1.ResourceRequirements    `json:"resources"`
	Env               []corev1.EnvVar                `json:"env"`
	Config            map[string]any                 `json:"config"`

	Enabled            bool            `json:"enabled"`
	Name               string          `json:"fullnameOverride"`
	ClusterRoleBinding map[string]bool `json:"clusterRoleBinding"`
}

// TestOperatorsCollectors verifies that the OpenTelemetry operator and the chart kube-stack make the same agent as the base.
func TestOperatorsCollectors(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(repository + "/deploy/" + name)
		require.NoError(t, err)
		return text
	}
	type resource struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Spec       collectorSpec     `json:"spec"`
	}
	r := decode[resource](t, "collector.yaml", read("operator/collector.yaml"))
	stack := decode[map[string]map[string]collectorSpec](t, "kube-stack-values.yaml", read("helm/kube-stack-values.yaml"))["collectors"]["kernelsym"]
	m := render(t, "base")
	pod := m.pods()["kernelsym"].Spec
	c := collectorOf(t, pod)
	assert.Equal(t, c.Image, r.Spec.Image)
	repo, tag, _ := strings.Cut(c.Image, ":")
	assert.Equal(t, map[string]any{"repository": repo, "tag": tag}, stack.Image)
	assert.Equal(t, m.daemonSets[0].Name, r.Metadata["name"])
	assert.Equal(t, r.Metadata["name"], stack.Name)
	assert.True(t, stack.Enabled)
	assert.Equal(t, map[string]bool{"enabled": false}, stack.ClusterRoleBinding)
	assert.Equal(t, "2", stack.Resources.Limits.Cpu().String(), "the chart has a lower default")
	delete(stack.Resources.Limits, corev1.ResourceCPU)
	for _, v := range c.Env {
		if v.Name == "K8S_NODE_NAME" { // the chart adds it
			stack.Env = append(stack.Env, v)
		}
	}
	for name, spec := range map[string]collectorSpec{"operator": r.Spec, "kube-stack": stack} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, "daemonset", spec.Mode)
			assert.Equal(t, map[string]string{"feature-gates": "service.profilesSupport"}, spec.Args)
			assert.Equal(t, *c.SecurityContext, spec.SecurityContext)
			assert.Equal(t, c.Resources, spec.Resources)
			assert.Equal(t, m.daemonSets[0].Spec.UpdateStrategy, spec.DaemonSetStrategy)
			assert.Equal(t, c.Lifecycle, spec.Lifecycle)
			assert.Equal(t, pod.Tolerations, spec.Tolerations)
			assert.Equal(t, pod.NodeSelector, spec.NodeSelector)
			assert.Subset(t, m.pods()["kernelsym"].Annotations, spec.PodAnnotations)
			environment := m.environment(t, spec.Env)
			assert.ElementsMatch(t, m.environment(t, c.Env), environment)

			file, _ := m.config(t, pod, c)
			base := decode[map[string]any](t, "config.yaml", []byte(file))
			extensions, ok := base["extensions"].(map[string]any)
			require.True(t, ok)
			// The operator asks for / unless the extension has the fields of its first version.
			extensions["health_check"] = map[string]any{"endpoint": "[${env:POD_IP}]:13133"}
			assert.Equal(t, base, spec.Config)
			config, err := yaml.Marshal(spec.Config)
			require.NoError(t, err)
			validate(t, string(config), environment)
		})
	}
}
