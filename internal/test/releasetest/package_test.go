// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

const repository = "../../.."

// distribution is the environment variable with goreleaser's output directory. If it is set, the
// packages in that directory are tested.
const distribution = "KERNELSYM_DIST"

// built are the environment variables with the program of each package.
var built = map[string]string{
	"kernelsym":         kerneltest.Tool,
	"otelcol-kernelsym": kerneltest.Collector,
}

// packageFile returns the file name of a package for this machine: the one that goreleaser built,
// or else one that it builds itself from .goreleaser.yaml.
func packageFile(t *testing.T, name, format string) string {
	t.Helper()
	if dir := os.Getenv(distribution); dir != "" {
		return filepath.Join(dir, name+"_"+version(t)+"_linux_"+runtime.GOARCH+"."+format)
	}
	info := packageInfo(t, name)
	info.Deb.Compression, info.RPM.Compression = "none", "gzip:1" // fast, because the file is not kept
	info.Contents = append(info.Contents, &files.Content{
		Source:      kerneltest.Built(t, built[name]),
		Destination: "/usr/bin/" + name,
		FileInfo:    &files.ContentFileInfo{Mode: 0o755},
	})
	packager, err := nfpm.Get(format)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), name+"."+format)
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, packager.Package(nfpm.WithDefaults(info), f))
	require.NoError(t, f.Close())
	return file
}

// packageInfo reads the description of a package from .goreleaser.yaml.
func packageInfo(t *testing.T, name string) *nfpm.Info {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, ".goreleaser.yaml"))
	require.NoError(t, err)
	date := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	text = bytes.ReplaceAll(text, []byte(`"{{ .CommitDate }}"`), []byte(date))
	var config struct {
		Packages []struct {
			nfpm.Info   `yaml:",inline"`
			PackageName string `yaml:"package_name"`
		} `yaml:"nfpms"`
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	for _, p := range config.Packages {
		if p.PackageName != name {
			continue
		}
		info := p.Info
		info.Name, info.Arch, info.Platform, info.Version = name, runtime.GOARCH, "linux", version(t)
		scripts := &info.Scripts
		for _, script := range []*string{&scripts.PostInstall, &scripts.PreRemove, &scripts.PostRemove} {
			if *script != "" {
				*script = filepath.Join(repository, *script)
			}
		}
		for _, c := range info.Contents {
			require.NotContains(t, c.Source+c.Destination, "{{", "templates are not expanded here")
			if strings.HasPrefix(c.Source, "build/release/") && os.Getenv(kerneltest.Tool) == "" {
				t.Skipf("%s is not set: build/release may be missing; `make test` generates it", kerneltest.Tool)
			}
			c.Source = filepath.Join(repository, c.Source)
		}
		return &info
	}
	t.Fatalf(".goreleaser.yaml has no package %s", name)
	return nil
}
