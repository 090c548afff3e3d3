// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
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

// fakeGo is a go command whose builds are scripts: the builder makes the sources of a collector, and the demonstration says
// who runs it.
const fakeGo = `#!/bin/sh
case $1 in
version) echo go version go1.26.8 linux/amd64 ;;
build)
	while [ "$1" != -o ]; do shift; done
	mkdir -p "$(dirname "$2")"
	{
		echo '#!/bin/sh'
		case $2 in
		*/builder) echo 'mkdir -p build && touch build/main.go' ;;
		*/demo) echo '[ "$1" = -check ] || { echo "runs as $(id -u)"; echo x >build/run/profiles.json; }' ;;
		esac
	} >"$2"
	chmod +x "$2"
	;;
esac
`

// TestMakeRun verifies whose programs `make run` builds, and who runs them: by root and by a user, in a clone of a user.
func TestMakeRun(t *testing.T) {
	switch {
	case kerneltest.InVM():
		t.Skip("the Makefile is not in the virtual machine")
	case os.Geteuid() != 0:
		t.Skip("needs root, to become another user")
	}
	const user = 54321 // who is not in the list of users, and has no home
	asUser := []string{"setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"}
	for name, tt := range map[string]struct {
		by     []string
		sudo   string // the script; empty if there is no sudo
		want   string // in the output
		builds bool
		fails  bool
	}{
		"root":               {nil, "", "runs as 0", true, false},
		"a user":             {asUser, `[ "$1" = -n ] || exec "$@"`, "runs as 54321", true, false}, // this sudo changes no user
		"without a terminal": {asUser, `[ "$1" != -n ]`, "  sudo build/demo -collector build/otelcol-kernelsym", true, true},
		"without sudo":       {asUser, "", "You are not root, and there is no sudo.", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, bin := t.TempDir(), t.TempDir()
			for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
				require.NoError(t, os.Chmod(parent, 0o755)) //nolint:gosec // the user must enter it
			}
			require.NoError(t, os.Chmod(bin, 0o755)) //nolint:gosec // as above
			for _, file := range []string{"Makefile", "go.mod", "go.sum", "builder-config.yaml", "internal/tools/as-root.sh",
				"internal/tools/gobuild.sh", "internal/tools/pinned/go.mod"} {
				text, err := os.ReadFile(filepath.Join("../../..", file))
				require.NoError(t, err)
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755)) //nolint:gosec // as above
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o755))        //nolint:gosec // scripts are among them
			}
			require.NoError(t, exec.CommandContext(t.Context(), "chown", "-R", "54321:54321", dir).Run())
			write := func(name, script string) {
				require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755)) //nolint:gosec // it is executed
			}
			write("go", fakeGo)
			for _, tool := range []string{"sh", "awk", "cat", "chmod", "cut", "date", "dirname", "env", "find", "getent", "grep", "id", "ls",
				"make", "mkdir", "mktemp", "realpath", "rm", "sed", "setpriv", "sleep", "sort", "touch"} {
				path, err := exec.LookPath(tool)
				require.NoError(t, err)
				require.NoError(t, os.Symlink(path, filepath.Join(bin, tool)))
			}
			if tt.sudo != "" {
				write("sudo", "#!/bin/sh\n"+tt.sudo+"\n")
			}
			args := append(slices.Clone(tt.by), filepath.Join(bin, "make"), "run")
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...) //nolint:gosec // make
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin}
			out, err := cmd.CombinedOutput()
			assert.Equal(t, tt.fails, err != nil, "%s", out)
			assert.Contains(t, string(out), tt.want)
			built := 0
			_ = filepath.WalkDir(filepath.Join(dir, "build"), func(path string, _ fs.DirEntry, err error) error {
				if err == nil {
					built++
					is, err := os.Lstat(path)
					require.NoError(t, err)
					assert.EqualValues(t, user, is.Sys().(*syscall.Stat_t).Uid, path)
				}
				return nil
			})
			assert.Equal(t, tt.builds, built > 0, "%s", out)
		})
	}
}
