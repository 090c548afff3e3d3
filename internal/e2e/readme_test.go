package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\\n(.*?)```")
	component = regexp.MustCompile(`(?m)gomod: (\S+ v\S+)$`)
)

// TestReadme: what stands in the README to be copied is valid, and the components of its
// manifest are those that the built collector is made of.
func TestReadme(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the README is not in the virtual machine")
	}
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	manifest, err := os.ReadFile("../../builder-config.yaml")
	require.NoError(t, err)
	configurations, components := 0, 0
	for _, block := range yamlBlock.FindAllStringSubmatch(string(readme), -1) {
		for _, m := range component.FindAllStringSubmatch(block[1], -1) {
			components++
			assert.Contains(t, string(manifest), m[1]+"\n")
		}
		if strings.Contains(block[1], "\nservice:") {
			configurations++
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(block[1]), 0o600))
			out, err := validate(t, file)
			require.NoError(t, err, out)
		}
	}
	assert.Positive(t, configurations)
	assert.Positive(t, components)
}
