// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// everyCommand calls visit for each command of the tool. It does not depend on the running kernel.
func everyCommand(t *testing.T, visit func(t *testing.T, cmd *cobra.Command)) {
	t.Helper()
	kerneltest.SameInEachKernel(t)
	commands := newCommand().Commands()
	require.Greater(t, len(commands), 7)
	for _, cmd := range commands {
		t.Run(cmd.Name(), func(t *testing.T) { visit(t, cmd) })
	}
}

// wrong runs a command line that is wrong with any kernel, and returns the error message.
func wrong(t *testing.T, args ...string) string {
	t.Helper()
	kerneltest.SameInEachKernel(t)
	out, errs, err := execute(t, "", args...)
	require.ErrorIs(t, err, errUsage, args)
	assert.Empty(t, out, args)
	assert.Equal(t, 1, strings.Count(errs, "Error:"), errs)
	return errs
}

// TestFlagsAreUniform verifies the rules at the top of docs/tool.md: a flag means the same in every
// command that has it.
func TestFlagsAreUniform(t *testing.T) {
	want := map[string]*pflag.Flag{
		"output":  {Shorthand: "o", DefValue: "text"},
		"procfs":  {DefValue: "/proc"},
		"sysfs":   {DefValue: "/sys"},
		"pack":    {DefValue: "[]"},
		"caller":  {DefValue: "false"},
		"locate":  {DefValue: "false"},
		"text":    {},
		"version": {},
	}
	short := map[string]string{"o": "output"}
	for name, flag := range want {
		if flag.Shorthand != "" {
			short[flag.Shorthand] = name
		}
	}
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if w := want[f.Name]; w != nil {
				assert.Equal(t, w.Shorthand, f.Shorthand, f.Name)
				assert.Equal(t, w.DefValue, f.DefValue, f.Name)
			}
			if w := short[f.Shorthand]; w != "" {
				assert.Equal(t, w, f.Name, "-%s means one thing", f.Shorthand)
			}
		})
	})
}

// TestHelpIsNarrow verifies that the description of a command fits into a terminal of usual width.
func TestHelpIsNarrow(t *testing.T) {
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Long) {
			assert.LessOrEqual(t, len(line), 112, line)
		}
	})
}

// TestWrongFlagsEndWith64 verifies the exit status for invalid values of flags.
func TestWrongFlagsEndWith64(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		assert.Contains(t, wrong(t, cmd.Name(), "--no-such-flag"), "unknown flag: --no-such-flag")
		if cmd.Flags().Lookup("output") != nil {
			for _, flag := range []string{"--output", "-o"} {
				assert.Contains(t, wrong(t, cmd.Name(), flag, "yaml"), `"yaml" for "-o, --output" flag: it takes text or json`)
			}
		}
		for _, flag := range []string{"procfs", "sysfs"} {
			if cmd.Flags().Lookup(flag) == nil {
				continue
			}
			for _, no := range []string{"/nowhere", file} {
				assert.Contains(t, wrong(t, cmd.Name(), "--"+flag, no), `"`+no+`" for "--`+flag+`" flag: there is no such directory`)
			}
		}
	})
}

// TestFilesAreUniform verifies that a command with FILE... accepts several files and - for standard
// input, and that its error names a missing file.
func TestFilesAreUniform(t *testing.T) {
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		if !strings.Contains(cmd.Use, "FILE...") {
			t.Skip("the command reads no files of text or profiles")
		}
		_, errs, err := execute(t, "", cmd.Name(), "-", "/nowhere/file")
		require.Error(t, err)
		require.NotErrorIs(t, err, errUsage)
		assert.Contains(t, errs, "/nowhere/file: no such file")
	})
}

// TestCompletionOfValues verifies that a shell completes the values of flags.
func TestCompletionOfValues(t *testing.T) {
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		if cmd.Flags().Lookup("output") != nil {
			out, _, err := execute(t, "", "__complete", cmd.Name(), "--output", "")
			require.NoError(t, err)
			assert.Equal(t, "text\njson\n:4\n", out)
		}
		if cmd.Flags().Lookup("pack") != nil {
			out, _, err := execute(t, "", "__complete", cmd.Name(), "--pack", "")
			require.NoError(t, err)
			assert.Equal(t, "kspack\n:8\n", out, "files of that extension")
		}
		if cmd.Flags().Lookup("procfs") != nil {
			out, _, err := execute(t, "", "__complete", cmd.Name(), "--procfs", "")
			require.NoError(t, err)
			assert.Equal(t, ":16\n", out, "directories")
		}
		for flag, want := range map[string]string{"kind": "kernel\nmodule\nbpf\ntrampoline\nool\n:4\n", "event": "cpu-clock\ncycles\nauto\n:4\n"} {
			if cmd.Flags().Lookup(flag) != nil {
				out, _, err := execute(t, "", "__complete", cmd.Name(), "--"+flag, "")
				require.NoError(t, err)
				assert.Equal(t, want, out)
			}
		}
	})
}
