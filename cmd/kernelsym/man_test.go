// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestMan verifies that each command has a page, except the hidden one, and that the pages depend
// only on the commands and on SOURCE_DATE_EPOCH.
func TestMan(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600") // 1 January 2026
	write := func() map[string]string {
		dir := filepath.Join(t.TempDir(), "man")
		require.NoError(t, runCommand(t.Context(), newCommand(), []string{"man", dir}))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		pages := make(map[string]string)
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			pages[e.Name()] = string(text)
		}
		return pages
	}
	pages := write()
	assert.Equal(t, pages, write())
	for name, page := range pages {
		if !strings.HasPrefix(name, "kernelsym-completion-") {
			assert.Contains(t, page, ".SH EXIT STATUS", name)
		}
	}
	assert.Regexp(t, `(?s)\.SH COMMANDS.*\n\\fBtop\\fP\nShow the hottest kernel functions`, pages["kernelsym.1"])
	for _, cmd := range newCommand().Commands() {
		name := "kernelsym-" + cmd.Name() + ".1"
		if cmd.Hidden {
			assert.NotContains(t, pages, name)
			continue
		}
		assert.Contains(t, pages[name], cmd.Short)
	}
	assert.Contains(t, pages["kernelsym.1"], `"Jan 2026" "kernelsym `+version+`"`)
}

// TestManIsWhole verifies that the pages lose nothing of the help: they are made of Markdown, which has HTML and emphasis.
func TestManIsWhole(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	dir := t.TempDir()
	require.NoError(t, runCommand(t.Context(), newCommand(), []string{"man", dir}))
	for _, cmd := range newCommand().Commands() {
		if cmd.Hidden {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dir, "kernelsym-"+cmd.Name()+".1"))
		require.NoError(t, err)
		text := unspaced(roffEscapes.Replace(roffRequest.ReplaceAllString(string(page), "")))
		assert.Contains(t, text, unspaced(cmd.Long), cmd.Name())
		assert.Contains(t, text, unspaced(cmd.Example), cmd.Name())
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			assert.Contains(t, text, unspaced(f.Usage), "%s --%s", cmd.Name(), f.Name)
		})
	}
}

var (
	roffRequest = regexp.MustCompile(`(?m)^\..*$`)
	roffEscapes = strings.NewReplacer(`\\`, `\`, `\fB`, "", `\fI`, "", `\fP`, "", `\&`, "", `\-`, "-")
)

// unspaced returns text without white space.
func unspaced(text string) string { return strings.Join(strings.Fields(text), "") }
