// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestTopDocs verifies that the page has every flag of top with its letter, and no other.
func TestTopDocs(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the documentation is not in the virtual machine")
	}
	page, err := os.ReadFile("../../docs/tool.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## top\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	flags := newTop().Flags()
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "procfs" || f.Name == "sysfs" { // all commands have these
			return
		}
		pattern := `--` + f.Name + `\b`
		if f.Shorthand != "" {
			pattern += "|`-" + f.Shorthand + "`"
		}
		assert.Regexp(t, pattern, section)
	})
	for _, flag := range regexp.MustCompile("`-([a-zA-Z])`, `--([a-z]+)").FindAllStringSubmatch(section, -1) {
		f := flags.Lookup(flag[2])
		if assert.NotNil(t, f, flag[0]) {
			assert.Equal(t, f.Shorthand, flag[1])
		}
	}
}
