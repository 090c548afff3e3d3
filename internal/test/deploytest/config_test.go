// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// environment returns the environment of a container, with made-up values where only a cluster has
// real ones. If a name occurs twice, the last one counts.
func (m *manifest) environment(t *testing.T, list []corev1.EnvVar) (pairs []string) {
	t.Helper()
	fields := map[string]string{"status.podIP": "127.0.0.1", "spec.nodeName": "some-node"}
	for _, v := range list {
		value := v.Value
		if from := v.ValueFrom; from != nil && from.SecretKeyRef != nil {
			value = "made-up"
		} else if from != nil && from.ConfigMapKeyRef != nil {
			value = m.configs[from.ConfigMapKeyRef.Name].Data[from.ConfigMapKeyRef.Key]
			require.NotEmpty(t, value, v.Name)
		} else if from != nil {
			value = fields[from.FieldRef.FieldPath]
			require.NotEmpty(t, value, v.Name)
		}
		pairs = slices.DeleteFunc(pairs, func(pair string) bool { return strings.HasPrefix(pair, v.Name+"=") })
		pairs = append(pairs, v.Name+"="+value)
	}
	return pairs
}

// variable matches a variable without a default in a configuration.
var variable = regexp.MustCompile(`\$\{env:(\w+)\}`)

// validate has the built collector check a configuration in the given environment and no other. The
// environment must have all variables, because the collector takes missing ones to be empty. More
// arguments can name what else the collector reads.
func validate(t *testing.T, config string, environment []string, more ...string) {
	t.Helper()
	for _, v := range variable.FindAllStringSubmatch(config, -1) {
		assert.True(t, slices.ContainsFunc(environment, func(pair string) bool {
			return strings.HasPrefix(pair, v[1]+"=")
		}), "%s is not set", v[1])
	}
	collector(t, "validate", config, environment, more...)
}

// collector runs a command of the built collector on a configuration, and returns its output.
func collector(t *testing.T, command, config string, environment []string, more ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.CommandContext(t.Context(), kerneltest.Built(t, kerneltest.Collector),
		append([]string{command, otelcol.FeatureGates, "--config=" + file}, more...)...)
	cmd.Env = environment
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return out
}

// inOurCollector replaces the parts of the profiler's configuration that our collector does not have.
var inOurCollector = strings.NewReplacer("profiling", "kernelstack", "samples_per_second", "frequency")

// effective returns the configuration of a pod's collector, with all changes and defaults.
func (m *manifest) effective(t *testing.T, pod corev1.PodSpec) map[string]any {
	t.Helper()
	c := pod.Containers[0]
	config, more := m.config(t, pod, c)
	for i := range more {
		more[i] = inOurCollector.Replace(more[i])
	}
	out := collector(t, "print-config", inOurCollector.Replace(config), m.environment(t, c.Env), append(more, "--mode=unredacted")...)
	return decode[map[string]any](t, "print-config", out)
}

// exporterOf returns the effective configuration of the exporter in the pods of an owner.
func (m *manifest) exporterOf(t *testing.T, owner string) map[string]any {
	t.Helper()
	exporters, ok := m.effective(t, m.pods()[owner].Spec)["exporters"].(map[string]any)
	require.True(t, ok)
	exporter, ok := exporters["otlp_grpc"].(map[string]any)
	require.True(t, ok)
	return exporter
}

// inline is the prefix of an argument that contains a configuration.
const inline = "--config=yaml:"

// config returns the configuration file that a container reads, and the arguments that name what
// else it reads.
func (m *manifest) config(t *testing.T, pod corev1.PodSpec, c corev1.Container) (text string, more []string) {
	t.Helper()
	file := ""
	for _, arg := range c.Args {
		if strings.HasPrefix(arg, inline) {
			more = append(more, arg)
		} else if name, ok := strings.CutPrefix(arg, "--config="); ok {
			file = name
		}
	}
	for _, mount := range c.VolumeMounts {
		for _, v := range pod.Volumes {
			if v.Name == mount.Name && v.ConfigMap != nil && filepath.Dir(file) == mount.MountPath {
				return m.configs[v.ConfigMap.Name].Data[filepath.Base(file)], more
			}
		}
	}
	t.Fatalf("%s reads %s, which is not mounted", c.Name, file)
	return "", nil
}

// TestConfigurations verifies that the built collector accepts the configuration of each container,
// with the variables of that container.
func TestConfigurations(t *testing.T) {
	for _, name := range kustomizations(t) {
		m := render(t, name)
		pods := m.pods()
		for _, d := range m.daemonSets {
			pods[d.Name] = d.Spec.Template
		}
		for owner, pod := range pods {
			for _, c := range pod.Spec.Containers {
				t.Run(name+"/"+owner+"/"+c.Name, func(t *testing.T) {
					config, more := m.config(t, pod.Spec, c)
					require.NotEmpty(t, config)
					if c.Name == "ebpf-profiler" { // its receiver is not in our collector
						config = inOurCollector.Replace(config)
					}
					validate(t, config, m.environment(t, c.Env), more...)
				})
			}
		}
	}
}
