// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestRecipeKernelLogs runs the pipeline of docs/recipes/kernel-logs.md, with a file in place of the kernel's log and the
// paths of a test.
func TestRecipeKernelLogs(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	page, err := os.ReadFile("../../docs/recipes/kernel-logs.md")
	require.NoError(t, err)
	command := regexp.MustCompile(`ExecStart=/bin/sh -c '([^']+)'`).FindSubmatch(page)
	require.NotNil(t, command)

	running, err := packer.RunningBuild("/sys", "") // for --this-boot
	require.NoError(t, err)
	dir := t.TempDir()
	writePack(t, dir, running, kernelPack(running))
	writePack(t, dir, kernelID, kernelPack(kernelID))
	log, out := filepath.Join(dir, "dmesg.txt"), filepath.Join(dir, "named.log")
	const header = "kern  :info  : 2026-11-26T02:39:00,278650+00:00 Call Trace:\n"
	require.NoError(t, os.WriteFile(log, []byte(header+"kern  :info  : 2026-11-26T02:39:00,278660+00:00  main_loop+0x10/0x40\n"), 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	script := "#!/bin/sh\n" + toolEnv + "=\"$*\" exec " + self + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kernelsym"), []byte(script), 0o700)) //nolint:gosec // it is executed
	line := strings.NewReplacer(
		"dmesg --follow-new --decode --time-format iso", "cat "+log, "/var/lib/kernelsym/packs", dir, "/var/log/kernelsym-kernel.log", out,
	).Replace(string(command[1]))
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
	shell.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	text, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", text)
	named, err := os.ReadFile(out)
	require.NoError(t, err)
	const want = "kern  :info  : 2026-11-26T02:39:00,278660+00:00  main_loop+0x10/0x40 " +
		"(core::fmt::pick include/idle.h:31 (inlined) idle include/idle.h:5 (inlined) init/main.c:14)\n"
	assert.Equal(t, header+want, string(named))

	// The receiver's configuration, by its regular expression: it takes such a line apart.
	expression := regexp.MustCompile(`regex: '([^']+)'`).FindSubmatch(page)
	require.NotNil(t, expression)
	assert.Equal(t, []string{"kern", "info", "2026-11-26T02:39:00,278660+00:00"},
		regexp.MustCompile(string(expression[1])).FindStringSubmatch(strings.TrimSpace(want))[1:4])
}
