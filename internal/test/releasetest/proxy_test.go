// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

const modulePath = "github.com/kernelsym/kernelsym"

// A proxy serves this repository as a release of the module. Other modules come from this
// machine's module cache or the proxies that it uses.
type proxy struct {
	t       *testing.T
	dir     string
	version module.Version
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	kerneltest.Built(t, kerneltest.Collector) // its build has filled the module cache
	p := &proxy{t: t, dir: t.TempDir(), version: module.Version{Path: modulePath, Version: "v" + version(t)}}
	source := filepath.Join(p.dir, "source")
	require.NoError(t, copySource(repository, source))
	served := filepath.Join(p.dir, "proxy", modulePath, "@v")
	require.NoError(t, os.MkdirAll(served, 0o700))
	file := filepath.Join(served, p.version.Version)
	archive, err := os.Create(file + ".zip")
	require.NoError(t, err)
	require.NoError(t, zip.CreateFromDir(archive, p.version, source))
	require.NoError(t, archive.Close())
	require.NoError(t, os.WriteFile(file+".mod", []byte(read(t, "go.mod")), 0o600))
	info := fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, p.version.Version)
	require.NoError(t, os.WriteFile(file+".info", []byte(info), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(served, "list"), []byte(p.version.Version+"\n"), 0o600))
	return p
}

// copySource copies the repository without .git and build.
func copySource(from, to string) error {
	return filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		switch {
		case name == ".git" || name == "build":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o600)
	})
}

// run runs a command that downloads modules from the proxy, and returns its output. The command
// has a module cache of its own, as Go assumes that the contents of a version never change.
func (p *proxy) run(name string, args ...string) string {
	p.t.Helper()
	settings, err := exec.CommandContext(p.t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	require.NoError(p.t, err)
	cache, others, _ := strings.Cut(strings.TrimSpace(string(settings)), "\n")
	cmd := exec.CommandContext(p.t.Context(), name, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(),
		"GOPROXY=file://"+p.dir+"/proxy,file://"+cache+"/cache/download,"+others,
		"GOMODCACHE="+filepath.Join(p.dir, "modules"), "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOWORK=off",
		"GOBIN="+filepath.Join(p.dir, "bin"), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(p.t, err, "%s", out)
	return string(out)
}

// TestModule builds the tool and the collector by the version of the module, as users do.
func TestModule(t *testing.T) {
	p := newProxy(t)
	t.Run("tool", func(t *testing.T) {
		p.t = t
		p.run("go", "install", "-trimpath", modulePath+"/cmd/kernelsym@"+p.version.Version)
		assert.Equal(t, "kernelsym version "+version(t)+"\n", p.run(filepath.Join(p.dir, "bin", "kernelsym"), "--version"))
	})
	t.Run("collector", func(t *testing.T) {
		p.t = t
		builder := absolute(t, "build/tools/builder")
		if _, err := os.Stat(builder); err != nil {
			t.Skip("no build/tools/builder: no collector is built by version; `make build` builds it")
		}
		manifest, _, found := strings.Cut(read(t, "builder-config.yaml"), "\nreplaces:")
		require.True(t, found)
		manifest = regexp.MustCompile(modulePath+` v\S+`).ReplaceAllString(manifest, modulePath+" "+p.version.Version)
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, "manifest.yaml"), []byte(manifest), 0o600))
		p.run(builder, "--config", "manifest.yaml")
		components := p.run(filepath.Join(p.dir, "build", "otelcol-kernelsym"), "components")
		for _, name := range []string{"kernelsym", "kernelstack"} {
			assert.Regexp(t, `name: `+name+`\n\s+module: `+modulePath+" "+regexp.QuoteMeta(p.version.Version)+`\n`, components)
		}
	})
}

// TestModuleReplacesNothing verifies that go.mod has no directives that only count in this
// repository. `go install` refuses modules that have them.
func TestModuleReplacesNothing(t *testing.T) {
	file, err := modfile.Parse("go.mod", []byte(read(t, "go.mod")), nil)
	require.NoError(t, err)
	assert.Empty(t, file.Replace)
	assert.Empty(t, file.Exclude)
	assert.Equal(t, modulePath, file.Module.Mod.Path)
}
