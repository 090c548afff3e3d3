package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/types"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestKustomizationOfTheReadme makes what deploy/README.md says that users make: with
// their image, their backend and their configuration.
func TestKustomizationOfTheReadme(t *testing.T) {
	text, err := os.ReadFile(repository + "/deploy/README.md")
	require.NoError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	all := ""
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(block[1], "apiVersion: kustomize") || strings.HasPrefix(block[1], "configMapGenerator:") {
			all += block[1]
		}
	}
	all = strings.ReplaceAll(all, "github.com/kernelsym/kernelsym/deploy/kubernetes", relative(t, dir, kubernetes))
	assert.NotEmpty(t, decode[types.Kustomization](t, "README.md", []byte(all)).ConfigMapGenerator)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(all), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("mine"), 0o600))

	m := renderDirectory(t, dir)
	pod := m.pods()["kernelsym"].Spec
	c := collectorOf(t, pod)
	assert.Equal(t, "REGISTRY/otelcol-kernelsym:"+version(t), c.Image)
	assert.Contains(t, environment(t, c.Env), "OTLP_ENDPOINT=BACKEND:4317")
	assert.Equal(t, rights["overlays/no-sys-admin"], c.SecurityContext.Capabilities.Add)
	config, _ := m.config(t, pod, c)
	assert.Equal(t, "mine", config)
}

// TestPacksOfTheReadme makes what deploy/README.md says of a gateway's packs: from a URL, and
// from a volume.
func TestPacksOfTheReadme(t *testing.T) {
	text, err := os.ReadFile(repository + "/deploy/README.md")
	require.NoError(t, err)
	var gateways []corev1.PodSpec
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		if !strings.HasPrefix(block[1], "patches:") {
			continue
		}
		dir, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		all := "resources: [" + relative(t, dir, kubernetes+"overlays/gateway") + "]\n" + block[1]
		require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(all), 0o600))
		gateways = append(gateways, renderDirectory(t, dir).pods()["kernelsym-gateway"].Spec)
	}
	require.Len(t, gateways, 2)
	set := environment(t, collectorOf(t, gateways[0]).Env)
	assert.Contains(t, set, "OTLP_ENDPOINT=BACKEND:4317")
	assert.Contains(t, set, "PACKS_URL=https://packs.example.org/{build_id}.{format}")
	for _, v := range gateways[1].Volumes {
		if v.Name == "packs" {
			assert.Nil(t, v.EmptyDir)
			assert.Equal(t, "packs", v.PersistentVolumeClaim.ClaimName)
		}
	}
	assert.Len(t, gateways[1].Volumes, len(gateways[0].Volumes))
}
