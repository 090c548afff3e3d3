// SPDX-License-Identifier: Apache-2.0

package main

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

// toolPage returns a section of docs/tool.md.
func toolPage(t *testing.T, section string) string {
	t.Helper()
	if kerneltest.InVM() {
		t.Skip("docs is not in the virtual machine")
	}
	page, err := os.ReadFile("../../docs/tool.md")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(page), "\n## "+section+"\n")
	require.True(t, ok, section)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// TestViewOnThePage runs the commands on the page that write files.
func TestViewOnThePage(t *testing.T) {
	page := toolPage(t, "view")
	file := profileFile(t, message())
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for _, name := range []string{"profiles.json", "new.json"} {
		require.NoError(t, os.WriteFile(name, content, 0o644))
	}
	commands := regexp.MustCompile(`(?m)^(?:zcat .* \| )?kernelsym (view --[^#\n]*)`).FindAllStringSubmatch(page, -1)
	require.Len(t, commands, 4)
	for _, c := range commands {
		out, errs, err := execute(t, string(content), strings.Fields(c[1])...)
		require.NoError(t, err, c[1])
		assert.Empty(t, errs, c[1])
		if !strings.Contains(c[1], "--folded -") {
			written, err := filepath.Glob(strings.Fields(c[1])[2])
			require.NoError(t, err)
			assert.NotEmpty(t, written, c[1])
			assert.Empty(t, out, c[1])
		}
	}
}

// TestFileErrorsOnThePage verifies that the errors on the page are the ones that the tool prints.
func TestFileErrorsOnThePage(t *testing.T) {
	page := toolPage(t, "Files")
	files := map[string]string{
		"text": "profiles\n", "metrics": `{"resourceMetrics":[]}`, "perf": "PERFILE2", "empty": "",
		"proto": "\x0a\x02\x12\x00", "pprof": "\x0a\x04\x08\x01\x10\x02",
		"lines": "{\n}\n",
	}
	var printed strings.Builder
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
		_, errs, err := execute(t, "", "view", file)
		require.Error(t, err, name)
		printed.WriteString(errs)
	}
	_, errs, err := execute(t, "", "view", dir)
	require.Error(t, err)
	printed.WriteString(errs)
	rows := regexp.MustCompile("(?m)^\\| `(.*?)` \\|").FindAllStringSubmatch(page, -1)
	require.Len(t, rows, len(files)+1)
	for _, row := range rows {
		assert.Contains(t, printed.String(), row[1])
	}
}
