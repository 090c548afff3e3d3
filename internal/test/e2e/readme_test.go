// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\\n(.*?)```")
	component = regexp.MustCompile(`(?m)gomod: (\S+ v\S+)$`)
)

// TestReadme verifies that the configurations to copy from the README and docs/collector.md are
// valid, and that the components in them are the ones that the built collector is made of.
func TestReadme(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the pages are not in the virtual machine")
	}
	manifest, err := os.ReadFile("../../../builder-config.yaml")
	require.NoError(t, err)
	configurations, components := 0, 0
	for _, page := range []string{"../../../README.md", "../../../docs/collector.md"} {
		for _, block := range yamlBlocks(t, page) {
			for _, m := range component.FindAllStringSubmatch(block, -1) {
				if !strings.HasPrefix(m[1], "github.com/kernelsym/") { // these are the last release here, and the source there
					components++
					assert.Contains(t, string(manifest), m[1]+"\n")
				}
			}
			if strings.Contains(block, "\nservice:") {
				configurations++
				file := filepath.Join(t.TempDir(), "config.yaml")
				require.NoError(t, os.WriteFile(file, []byte(block), 0o600))
				out, err := validate(t, file)
				require.NoError(t, err, out)
			}
		}
	}
	assert.Equal(t, 3, configurations)
	assert.Positive(t, components)
}

// yamlBlocks returns the blocks of YAML in a page.
func yamlBlocks(t *testing.T, page string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, m := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	require.NotEmpty(t, blocks, page)
	return blocks
}
