// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"
)

// supported returns the columns of a row of the table of tested versions in docs/figures.md: what is
// tested with every change, and what every night.
func supported(t *testing.T, row string) [2][]string {
	t.Helper()
	_, section, found := strings.Cut(read(t, "docs/figures.md"), "\n## Tested versions\n")
	require.True(t, found)
	cells := regexp.MustCompile(`(?m)^\| ` + row + ` \|(.*)\|(.*)\|$`).FindStringSubmatch(section)
	require.NotNil(t, cells, row)
	split := func(cell string) []string {
		return slices.DeleteFunc(strings.Split(strings.TrimSpace(cell), ", "), func(s string) bool { return s == "" })
	}
	return [2][]string{split(cells[1]), split(cells[2])}
}

// TestSupportedKernels verifies that the table has the kernels that run: with every change, in
// `make test-vm`; every night, in .ci/nightly.
func TestSupportedKernels(t *testing.T) {
	assert.Contains(t, read(t, ".ci/run"), "\nstep tests make test-vm\n")
	columns := [2]string{
		find(t, "Makefile", `(?m)^BRIEF := .*,(.*)\)$`) + "," + find(t, "Makefile", `(?m)^KERNEL \?= (.*)$`),
		find(t, ".ci/nightly", `(?m)^step tests make test-vm KERNEL=(.*)$`),
	}
	rows := map[string]string{"amd64": "amd64", "arm64": "arm64", "arm64-16k": "arm64, pages of 16 KiB"}
	want := make(map[string]*[2][]string)
	for arch := range rows {
		want[arch] = &[2][]string{{}, {}}
	}
	for i, list := range columns {
		for name := range strings.SplitSeq(list, ",") {
			version, arch, other := strings.Cut(name, "-")
			if !other {
				arch = "amd64"
			}
			require.Contains(t, want, arch, "the table has no row for %s", name)
			want[arch][i] = append(want[arch][i], version)
		}
	}
	for _, arch := range slices.Sorted(maps.Keys(want)) {
		assert.Equal(t, *want[arch], supported(t, "Linux on "+rows[arch]), arch)
	}
}

// TestSupportedCollectors verifies that the table has the versions of the collector that the module
// requires, and the Go version of the module.
func TestSupportedCollectors(t *testing.T) {
	file, err := modfile.Parse("go.mod", []byte(read(t, "go.mod")), nil)
	require.NoError(t, err)
	versions := make(map[string]bool)
	for _, r := range file.Require {
		if strings.HasPrefix(r.Mod.Path, "go.opentelemetry.io/collector/") {
			versions[r.Mod.Version] = true
		}
	}
	assert.Equal(t, slices.Sorted(maps.Keys(versions)), supported(t, "OpenTelemetry Collector")[0])
	assert.Equal(t, []string{strings.TrimSuffix(file.Go.Version, ".0")}, supported(t, "Go")[0])
}

// TestDependabotKnowsEveryModule verifies that dependencies of all modules here are kept current.
func TestDependabotKnowsEveryModule(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, ".github/dependabot.yml")), &config))
	require.Equal(t, "gomod", config.Updates[0].Ecosystem)
	var modules []string
	require.NoError(t, filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "build" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.Name() == "go.mod":
			directory, err := filepath.Rel(repository, filepath.Dir(path))
			modules = append(modules, strings.TrimSuffix("/"+filepath.ToSlash(directory), "."))
			return err
		}
		return nil
	}))
	assert.ElementsMatch(t, modules, config.Updates[0].Directories)
}

// TestRegistryEntries verifies that the entries for the registry of OpenTelemetry have what its
// schema requires, and that they describe existing packages.
func TestRegistryEntries(t *testing.T) {
	for name, kind := range map[string]string{"processor-kernelsym": "processor", "receiver-kernelstack": "receiver"} {
		var entry struct {
			Title, Language, License, Description string
			RegistryType                          string `yaml:"registryType"`
			Authors                               []map[string]string
			URLs                                  map[string]string
			Package                               map[string]string
		}
		require.NoError(t, yaml.Unmarshal([]byte(read(t, ".registry/collector-"+name+".yml")), &entry))
		assert.NotEmpty(t, entry.Title)
		assert.NotEmpty(t, entry.Description)
		assert.Equal(t, kind, entry.RegistryType)
		assert.Equal(t, "collector", entry.Language)
		assert.Equal(t, "Apache 2.0", entry.License)
		assert.NotEmpty(t, entry.Authors[0]["url"])
		assert.Equal(t, "go-collector", entry.Package["registry"])
		directory, found := strings.CutPrefix(entry.Package["name"], modulePath)
		require.True(t, found)
		assert.FileExists(t, filepath.Join(repository, directory, "factory.go"))
		for _, url := range entry.URLs {
			file := regexp.MustCompile(`^https://`+modulePath+`(/(blob|tree)/main)?`).ReplaceAllString(url, repository)
			_, err := filepath.EvalSymlinks(file)
			assert.NoError(t, err, url)
		}
	}
}

// find returns the first group of a pattern in a file.
func find(t *testing.T, name, pattern string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(read(t, name))
	require.NotNil(t, match, "%s has no %s", name, pattern)
	return match[1]
}
