// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	require.NoError(t, err)
	return string(text)
}

// version returns the version of the source.
func version(t *testing.T) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^const version = "(.+)"$`).FindStringSubmatch(read(t, "cmd/kernelsym/main.go"))
	require.NotNil(t, match)
	return match[1]
}

// listIn returns the files of a variable of the Makefile.
func listIn(t *testing.T, variable string) []string {
	t.Helper()
	list := find(t, "Makefile", `(?ms)^`+variable+` := (.*?[^\\])\n`)
	return strings.Fields(strings.ReplaceAll(list, "\\\n", " "))
}

// copyVersioned copies the files that `make set-version` changes, and returns the directory.
func copyVersioned(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(listIn(t, "VERSIONED"), listIn(t, "MANIFESTS")...) {
		write(t, dir, name, read(t, name))
	}
	return dir
}

// TestVersionsAgree verifies that all files that `make set-version` changes have the same
// version, and that it changes each of them.
func TestVersionsAgree(t *testing.T) {
	dir := copyVersioned(t)
	files := listIn(t, "VERSIONED")
	for _, name := range files {
		assert.Contains(t, read(t, name), version(t), name)
	}
	_, err := makeIn(t, dir, "set-version", "VERSION=12.34.56")
	require.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Contains(t, string(text), "12.34.56", name)
		assert.NotContains(t, string(text), version(t), name)
	}
}

// TestManifestsHaveTheRelease verifies that `make set-version` writes a release into the manifests
// that users copy, and not the version between releases.
func TestManifestsHaveTheRelease(t *testing.T) {
	dir := copyVersioned(t)
	versions := func() (all []string) {
		for name, n := range map[string]int{"docs/collector.md": 3, "doc.go": 1} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			found := regexp.MustCompile(modulePath+` (v\S+)`).FindAllStringSubmatch(string(text), -1)
			require.Len(t, found, n, name)
			for _, m := range found {
				all = append(all, m[1])
			}
		}
		return all
	}
	for _, version := range []string{"12.34.56", "12.35.0-dev"} {
		_, err := makeIn(t, dir, "set-version", "VERSION="+version)
		require.NoError(t, err)
		assert.Equal(t, slices.Repeat([]string{"v12.34.56"}, 4), versions())
	}
}

// TestReleaseNotes verifies that the notes are the changelog's section of the version, and that a
// version without one fails the check.
func TestReleaseNotes(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "cmd/kernelsym/main.go", "const version = \"1.2.3\"\n")
	write(t, dir, "CHANGELOG.md", "# Changelog\n\n## v1.2.3\n\nThis one.\n\n## v1.2.30\n\nAnother.\n")
	notes, err := makeIn(t, dir, "release-notes")
	require.NoError(t, err)
	assert.Equal(t, "\nThis one.\n\n", notes)
	_, err = makeIn(t, dir, "check-version", "VERSION=1.2.3")
	require.NoError(t, err)
	_, err = makeIn(t, dir, "check-version", "VERSION=1.2.4")
	require.ErrorContains(t, err, "the source has version 1.2.3")

	write(t, dir, "CHANGELOG.md", "# Changelog\n\n## v1.2.30\n\nAnother.\n")
	_, err = makeIn(t, dir, "check-version", "VERSION=1.2.3")
	require.ErrorContains(t, err, "CHANGELOG.md has no section v1.2.3")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// makeIn runs targets of the Makefile in another directory and returns their output. The error
// contains what they write to standard error.
func makeIn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	write(t, dir, "Makefile", read(t, "Makefile"))
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"-s"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "MAKEFILES=", "VERSION=") // none from the make that runs this test
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return string(out), err
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(repository, name))
	require.NoError(t, err)
	return file
}
