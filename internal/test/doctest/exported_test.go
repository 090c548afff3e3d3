// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exported lists what others can import, by package. mdatagen exports the parts of a configuration.
// kernelsymprocessor is not meant for others (docs/dev/contrib.md). What the root package needs from it
// is listed, so that nothing is added unnoticed.
var exported = map[string][]string{
	root: {
		"Config", "NewFactory",
		"Bpf", "DebugInfo", "History", "Modules",
		"NewDefaultBpf", "NewDefaultDebugInfo", "NewDefaultHistory", "NewDefaultModules",
	},
	root + "admissionextension": {"Config", "NewFactory"},
	root + "kernelstackreceiver": {
		"Config", "NewFactory", "OffCPU", "NewDefaultOffCPU", "SampleAttributes", "NewDefaultSampleAttributes",
	},
	root + "kernelsymprocessor": {
		"Host", "NewShared", "OpenSources", "Processor", "Shared", "Sources", "ThisHost",
	},
}

// TestExported verifies that others can import what the list has and no more, as contrib's checkapi
// does.
func TestExported(t *testing.T) {
	needRepository(t)
	var dirs []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (name == "internal" || name == "build" || strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		names, importable := exportedIn(t, path)
		if importable {
			dirs = append(dirs, path)
			assert.ElementsMatch(t, exported[path], names, path)
		}
		return nil
	}))
	assert.Equal(t, slices.Sorted(maps.Keys(exported)), dirs)
}

// exportedIn returns the exported names of a package, without methods and tests, and whether others
// can import the package.
func exportedIn(t *testing.T, dir string) (names []string, importable bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		importable = f.Name.Name != "main"
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add(s.Name)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							add(id)
						}
					}
				}
			}
		}
	}
	return names, importable
}

// movedTo names packages that docs/dev/contrib.md mentions.
var movedTo = []string{"kernelsymprocessor", "kernelstackreceiver", "cmd/kernelsym", "internal/rewrite"}

// TestContribPage verifies that the page for maintainers of contrib names the packages and modules
// that exist.
func TestContribPage(t *testing.T) {
	needRepository(t)
	page, err := os.ReadFile("../../../docs/dev/contrib.md")
	require.NoError(t, err)
	for _, dir := range movedTo {
		assert.Contains(t, string(page), "`"+dir+"`")
		assert.DirExists(t, "../../../"+dir)
	}
	var modules []string
	require.NoError(t, filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "build" {
			return fs.SkipDir
		}
		if dir := filepath.Dir(path); err == nil && d.Name() == "go.mod" && dir != "../../.." {
			modules = append(modules, strings.TrimPrefix(dir, "../../../"))
		}
		return err
	}))
	for _, module := range slices.Compact(modules) {
		assert.Contains(t, string(page), "`"+module+"`", "a module of its own")
	}
}

// TestVersionOfMdatagen verifies that generated files are made by the version of mdatagen that
// docs/dev/contrib.md names. It is not the collector's version, and an update of the tools must not
// change it.
func TestVersionOfMdatagen(t *testing.T) {
	needRepository(t)
	page, err := os.ReadFile("../../../docs/dev/contrib.md")
	require.NoError(t, err)
	version := regexp.MustCompile(`mdatagen stays at (v[0-9.]+[0-9])`).FindSubmatch(page)
	require.NotNil(t, version)
	tools, err := os.ReadFile("../../../internal/tools/pinned/go.mod")
	require.NoError(t, err)
	assert.Contains(t, string(tools), "go.opentelemetry.io/collector/cmd/mdatagen "+string(version[1])+" ")
}
