// SPDX-License-Identifier: Apache-2.0

package dwarfpack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/dwarfpack"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// filesOf returns the paths of the files in a pack that is made from a file's debug information.
func filesOf(t *testing.T, name string) (files []string) {
	t.Helper()
	p := buildPack(t, name)
	for r := range p.Rows() {
		for _, frame := range p.Find(r.Start, nil) {
			assert.Equal(t, frame.File == "", frame.Line == 0, "%v", frame)
			files = append(files, frame.File)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// driver compiles the fixture as a driver that has headers of its own in include/linux. The
// compiler runs in a directory below the driver's top directory, which driver returns.
func driver(t *testing.T, dir string, args ...string) (module, top string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for from, to := range map[string]string{
		"inlined.c": "net/mac80211/inlined.c",
		"inlined.h": "include/linux/inlined.h",
	} {
		data, err := os.ReadFile(filepath.Join("testdata", from))
		require.NoError(t, err)
		to = filepath.Join(top, to)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, data, 0o600))
	}
	dir = filepath.Join(top, dir)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	source := filepath.Join(top, "net/mac80211/inlined.c")
	if dir == top {
		source = "net/mac80211/inlined.c"
	}
	args = append([]string{
		"-C", dir, "gcc", "-c", "-O2", "-g", "-DMODULE", "-DOUT_OF_TREE", source,
		"-I", filepath.Join(top, "include/linux"), "-o", filepath.Join(top, "inlined.ko"),
	}, args...)
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc: the debug information that it writes is not read")
	}
	out, err := exec.CommandContext(t.Context(), "env", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(top, "inlined.ko"), top
}

// TestFilesOutsideOfTheTreeKeepTheirPaths verifies that no file of a module outside of the kernel's
// tree is mistaken for a file in the tree, whatever the names of the directories.
func TestFilesOutsideOfTheTreeKeepTheirPaths(t *testing.T) {
	for what, dir := range map[string]string{
		"compiled in its own directory, since Linux 6.13":   ".",
		"compiled in the directory of the kernel's headers": "headers",
	} {
		t.Run(what, func(t *testing.T) {
			name, top := driver(t, dir)
			assert.Equal(t, []string{top + "/include/linux/inlined.h", top + "/net/mac80211/inlined.c"}, filesOf(t, name))
		})
	}
	t.Run("without the directory in its paths", func(t *testing.T) {
		name, top := driver(t, ".", "-ffile-prefix-map=/=")
		files := filesOf(t, name)
		assert.NotContains(t, files, "net/mac80211/inlined.c", top)
		for _, file := range files {
			assert.True(t, file == "" || filepath.IsAbs(file), "%s", file)
		}
	})
}

// TestModulesOfTheTreeHavePathsFromItsTop verifies this for each way to recognize that a module is
// part of the tree.
func TestModulesOfTheTreeHavePathsFromItsTop(t *testing.T) {
	want := []string{"inlined.c", "inlined.h"}
	whole := module(t, "-g", "-O2")
	assert.Equal(t, want, filesOf(t, whole), "by .modinfo")

	debug := filepath.Join(t.TempDir(), "inlined.ko.debug")
	objcopy := func(args ...string) {
		out, err := exec.CommandContext(t.Context(), "objcopy", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	objcopy("--only-keep-debug", whole, debug)
	assert.Equal(t, want, filesOf(t, debug), "by a symbol")

	objcopy("--only-keep-debug", "--redefine-sym", "__UNIQUE_ID_intree534=__UNIQUE_ID_modinfo_335", whole, debug) // Linux 6.18
	for _, file := range filesOf(t, debug) {
		assert.True(t, filepath.IsAbs(file), "%s: nothing says that it is of the tree", file)
	}
	f, err := kelf.Open(debug)
	require.NoError(t, err)
	defer f.Close()
	loaded, err := kelf.Open(whole)
	require.NoError(t, err)
	defer loaded.Close()
	f.AddLoaded(loaded)
	w := pack.NewWriter(f.Info())
	_, err = dwarfpack.Build(f, w, nil)
	require.NoError(t, err)
	data, err := w.Bytes()
	require.NoError(t, err)
	assert.Contains(t, string(data), "\x09inlined.c", "by the file that the kernel loads")
}
