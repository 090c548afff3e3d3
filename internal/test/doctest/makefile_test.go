// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestMakeSaysWhatIsMissing verifies that make says at once that it cannot build, if the path of the clone has a space or
// Go is too old.
func TestMakeSaysWhatIsMissing(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the Makefile is not in the virtual machine")
	}
	for name, tt := range map[string]struct {
		dir, goVersion string
		want           string // empty if nothing is missing
	}{
		"nothing":   {"clone", "go1.26.8", ""},
		"toolchain": {"clone", "go1.21.0", ""},
		"a space":   {"a clone", "go1.26.8", "make cannot build in a directory whose path has spaces: "},
		"old":       {"clone", "go1.19.8", "Go 1.21 or later is needed, not go version go1.19.8 linux/amd64\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, bin := filepath.Join(t.TempDir(), tt.dir), t.TempDir()
			require.NoError(t, os.Mkdir(dir, 0o755)) //nolint:gosec // as of a clone
			text, err := os.ReadFile("../../../Makefile")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "Makefile"), text, 0o600))
			script := "#!/bin/sh\necho go version " + tt.goVersion + " linux/amd64\n"
			require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755)) //nolint:gosec // it is executed
			cmd := exec.CommandContext(t.Context(), "make", "need-go")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if tt.want == "" {
				assert.NoError(t, err, "%s", out)
				return
			}
			require.Error(t, err)
			assert.Contains(t, string(out), tt.want)
		})
	}
}
