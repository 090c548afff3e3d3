// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGlobsMatch verifies that each glob of .golangci.yml matches a file, and that each directory
// of dependabot.yml has a module. If a move left a stale entry behind, an import rule would no
// longer apply, or updates would end, without any message.
func TestGlobsMatch(t *testing.T) {
	needRepository(t)
	list := exec.CommandContext(t.Context(), "git", "ls-files")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	files := strings.Fields(string(out))

	lint, err := os.ReadFile(root + ".golangci.yml")
	require.NoError(t, err)
	globs := regexp.MustCompile(`"!?(\*\*/[^"]+)"`).FindAllSubmatch(lint, -1)
	require.Greater(t, len(globs), 30)
	for _, glob := range globs {
		assert.True(t, slices.ContainsFunc(files, func(file string) bool { return matches(string(glob[1]), file) }), "%s matches nothing", glob[1])
	}

	updates, err := os.ReadFile(root + ".github/dependabot.yml")
	require.NoError(t, err)
	dirs := regexp.MustCompile(`(?m)^ +- (/.*)$`).FindAllSubmatch(updates, -1)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		assert.Contains(t, files, strings.TrimPrefix(path.Join(string(dir[1]), "go.mod"), "/"))
	}
}

// matches reports whether a glob matches a file. The glob begins with ** and may have it once more.
func matches(glob, file string) bool {
	pattern := regexp.QuoteMeta(glob)
	pattern = strings.ReplaceAll(pattern, `\*\*/`, `(?:.*/)?`)
	pattern = strings.ReplaceAll(pattern, `\*`, `[^/]*`)
	return regexp.MustCompile("^" + pattern + "$").MatchString(file)
}
