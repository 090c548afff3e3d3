// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"os"
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
