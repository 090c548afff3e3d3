// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestControlCharacters verifies that nothing in a profile, and no name of a file, controls the terminal. JSON escapes
// them, so that other programs get the names as they are.
func TestControlCharacters(t *testing.T) {
	const hostile = "\x1b]0;pwned\x07\r\n\u202e\t"
	file := profileFile(t, rewritetest.NewMessage().Profile(nil, "").Sample(rewritetest.Frame{
		Address: 0x1000, Type: "kernel", Mapping: &rewritetest.Mapping{File: "module" + hostile},
		Lines: []rewritetest.Line{{Name: "leaf" + hostile, System: "leaf" + hostile}},
	}).Profiles)
	for _, args := range [][]string{
		{"top", file}, {"view", "--folded", "-", file}, {"top", filepath.Join(t.TempDir(), hostile)}, {"lookup", hostile},
	} {
		stdout, stderr, _ := execute(t, "", args...)
		printed := stdout + stderr
		assert.Contains(t, printed, "pwned", args[0])
		assert.NotContains(t, printed, "\x1b", args[0])
		assert.NotContains(t, printed, "\x07", args[0])
		assert.NotContains(t, printed, "\r", args[0])
		assert.NotContains(t, printed, "\u202e", args[0])
	}
	stdout, _, err := execute(t, "", "top", "-o", "json", file)
	require.NoError(t, err)
	assert.Contains(t, stdout, `leaf\u001b]0;pwned\u0007\r\n`)
}

// TestWrittenFiles verifies that no link is followed, which somebody else may have put there.
func TestWrittenFiles(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o644))
	require.NoError(t, os.Symlink(victim, link))
	for _, args := range [][]string{{"view", "--svg", link, profileFile(t, message())}, {"doctor", "--bundle", link}} {
		_, stderr, err := execute(t, "", args...)
		require.Error(t, err)
		assert.Contains(t, stderr, "is a symbolic link")
	}
	got, err := os.ReadFile(victim)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(got))
}

// TestViewIsForThisMachine verifies that a page elsewhere cannot read the flame graph by a name of its own that leads here,
// and what the served page may do.
func TestViewIsForThisMachine(t *testing.T) {
	url := serveView(t, profileFile(t, message()))
	for host, status := range map[string]int{
		"": http.StatusOK, "localhost": http.StatusOK, "127.0.0.1:8080": http.StatusOK, "[::1]:8080": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "evil.example:8080": http.StatusMisdirectedRequest,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, status, response.StatusCode, host)
		if status == http.StatusOK {
			assert.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
			assert.True(t, strings.HasPrefix(response.Header.Get("Content-Security-Policy"), "default-src 'none'; "))
		}
	}
	assert.True(t, isServed("workstation:80", "workstation:80"))
	assert.True(t, isServed("Workstation", "workstation:80"))
	assert.False(t, isServed("other", ":80"))
}
