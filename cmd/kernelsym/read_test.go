// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// profileFile writes a file as the file exporter does. It does not depend on the running kernel.
func profileFile(t *testing.T, messages ...pprofile.Profiles) string {
	t.Helper()
	kerneltest.SameInEachKernel(t)
	var lines []byte
	for _, pd := range messages {
		line, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(pd)
		require.NoError(t, err)
		lines = append(append(lines, line...), '\n')
	}
	name := filepath.Join(t.TempDir(), "profiles.json")
	require.NoError(t, os.WriteFile(name, lines, 0o644))
	return name
}

// TestTopOfAFileThatIsCutOff verifies that top shows the complete messages: the collector may still
// be writing the rest.
func TestTopOfAFileThatIsCutOff(t *testing.T) {
	file := profileFile(t, message(), message())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, info.Size()-20))
	out, errs, err := execute(t, "", "top", file)
	require.NoError(t, err)
	assert.Contains(t, out, "3 of 4 samples")
	assert.Contains(t, errs, "ends in the middle of a message")
}

// cutOff returns a file that ends in its first message.
func cutOff(t *testing.T) string {
	t.Helper()
	file := profileFile(t, message())
	require.NoError(t, os.Truncate(file, 100))
	return file
}

// TestBeforeMakeRun verifies that the error explains how to make the file of `make run`.
func TestBeforeMakeRun(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, command := range []string{"top", "view"} {
		_, _, err := execute(t, "", command, "build/run/profiles.json")
		assert.ErrorContains(t, err, "no such file or directory: run `make run` first")
	}
}

func TestFileErrors(t *testing.T) {
	damaged := message()
	damaged.Dictionary().StackTable().At(1).LocationIndices().SetAt(0, 1000)
	const formats = "; kernelsym reads what the collector's file exporter writes: JSON or protobuf, plain or compressed with gzip or zstd"
	for name, tt := range map[string]struct{ file, want string }{
		"no file":        {filepath.Join(t.TempDir(), "none"), "no such file"},
		"damaged":        {profileFile(t, damaged), "message 1: the message refers to an entry that is not in it"},
		"empty":          {profileFile(t), "the file is empty: the collector has not written a message yet"},
		"no message yet": {cutOff(t), "the file ends in the middle of its first message"},
		"directory":      {t.TempDir(), "this is a directory: name the files in it"},
		"text":           {"../../README.md", "../../README.md: this is text" + formats},
		"program":        {os.Args[0], "this is a program" + formats},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range []string{"top", "view"} {
				_, _, err := execute(t, "", command, tt.file)
				require.ErrorContains(t, err, tt.want)
				assert.NotContains(t, err.Error(), "make run")
				assert.NotErrorIs(t, err, errUsage)
			}
		})
	}
}

// TestSeveralFiles verifies that files and standard input are read as one, and that a file without
// a message is only a warning if there are others.
func TestSeveralFiles(t *testing.T) {
	file := profileFile(t, message())
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	out, errs, err := execute(t, string(content)+string(content), "top", file, "-", profileFile(t))
	require.NoError(t, err)
	assert.Contains(t, out, "9 of 12 samples")
	assert.Contains(t, errs, "the file is empty")

	_, _, err = execute(t, "", "top", profileFile(t), "-")
	require.ErrorIs(t, err, errEmpty)
	assert.ErrorContains(t, err, "-: the file is empty")
}
