// SPDX-License-Identifier: Apache-2.0

package packer_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/internal/pack"
)

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	parents(t, name)
	require.NoError(t, os.WriteFile(name, content, 0o600))
}

// notes returns the file /sys/kernel/notes of a kernel.
func notes(t *testing.T, id string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(id)
	require.NoError(t, err)
	return append([]byte{4, 0, 0, 0, byte(len(raw)), 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0}, raw...)
}

// places are the paths of files in a distribution.
type places struct {
	vmlinux, installed, debug string
	split                     bool // the debug file of a module has nothing else
}

// TestReleaseOfEachDistribution verifies that files are found where distributions install them.
func TestReleaseOfEachDistribution(t *testing.T) {
	for name, tt := range map[string]places{
		"Debian": {
			"usr/lib/debug/boot/vmlinux-" + release, "lib/modules/" + release + "/kernel/alpha.ko",
			"usr/lib/debug/lib/modules/" + release + "/kernel/alpha.ko", false,
		},
		"Fedora": {
			"usr/lib/debug/lib/modules/" + release + "/vmlinux", "usr/lib/modules/" + release + "/kernel/alpha.ko.xz",
			"usr/lib/debug/lib/modules/" + release + "/kernel/alpha.ko.debug", true,
		},
		"SUSE": {
			"usr/lib/debug/usr/lib/modules/" + release + "/vmlinux.debug", "usr/lib/modules/" + release + "/kernel/alpha.ko.zst",
			"usr/lib/debug/usr/lib/modules/" + release + "/kernel/alpha.ko.debug", true,
		},
		"Arch": {
			"usr/lib/modules/" + release + "/build/vmlinux", "usr/lib/modules/" + release + "/kernel/alpha.ko.zst", "", false,
		},
		"compiled here": {
			"lib/modules/" + release + "/build/vmlinux", "lib/modules/" + release + "/extra/alpha.ko", "", false,
		},
		"only the debug package": {
			"usr/lib/debug/boot/vmlinux-" + release, "usr/lib/debug/lib/modules/" + release + "/kernel/alpha.ko", "", false,
		},
	} {
		root, out := t.TempDir(), t.TempDir()
		buildCore(t, filepath.Join(root, tt.vmlinux))
		install(t, filepath.Join(root, tt.installed), tt.debug != "")
		if tt.debug != "" {
			debug := filepath.Join(root, tt.debug)
			buildModule(t, debug, "alpha", alphaID)
			if tt.split {
				command(t, "objcopy", "--only-keep-debug", debug)
			}
		}
		jobs, err := packer.Release(root, release)
		require.NoError(t, err, name)
		result, err := packer.Run(t.Context(), jobs, packer.Options{Dir: out})
		require.NoError(t, err, name)
		assert.Equal(t, packer.Result{Packs: 2, Bytes: result.Bytes}, result, name)
		assert.Equal(t, []string{"inner", "start_kernel"}, chain(t, read(t, out, coreID), "start_kernel"), name)
		p := read(t, out, alphaID)
		assert.Equal(t, "alpha", p.Info().Name, name)
		assert.Equal(t, release, p.Info().Release, name)
		assert.Equal(t, []string{"inner", "outer"}, chain(t, p, "outer"), name)
		for r := range p.Rows() {
			for _, frame := range p.Find(r.Start, nil) {
				assert.Equal(t, "testdata/module.c", frame.File, "%s: from the top of the tree", name)
			}
		}
	}
}

func TestReleaseBehindALink(t *testing.T) {
	root := t.TempDir()
	buildModule(t, filepath.Join(root, "store", "kernel/alpha.ko"), "alpha", alphaID)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "lib/modules"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(root, "store"), filepath.Join(root, "lib/modules", release)))
	jobs, err := packer.Release(root, release)
	require.ErrorIs(t, err, packer.ErrNoVmlinux)
	require.Len(t, jobs, 1)
	assert.Equal(t, "alpha.ko", filepath.Base(jobs[0].Debug))
}

// install builds the module alpha. The extension of the file's name determines the compression.
func install(t *testing.T, file string, strip bool) {
	t.Helper()
	plain := file
	if ext := filepath.Ext(file); ext != ".ko" {
		plain = file[:len(file)-len(ext)]
	}
	buildModule(t, plain, "alpha", alphaID)
	if strip {
		command(t, "objcopy", "--strip-debug", plain)
	}
	switch filepath.Ext(file) {
	case ".xz":
		command(t, "xz", plain)
	case ".zst":
		command(t, "zstd", "-q", "--rm", plain)
	}
}

func TestDebugFilesOfAnotherBuildAreRefused(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	installed, debug := "lib/modules/"+release+"/kernel/", "usr/lib/debug/lib/modules/"+release+"/kernel/"
	buildModule(t, filepath.Join(root, installed, "alpha.ko"), "alpha", alphaID)
	buildModule(t, filepath.Join(root, debug, "alpha.ko"), "alpha", alphaID)
	buildModule(t, filepath.Join(root, installed, "beta.ko"), "beta", betaID)
	buildModule(t, filepath.Join(root, debug, "beta.ko"), "beta", betaNext)
	buildCore(t, filepath.Join(root, "boot/vmlinux-"+release))
	write(t, filepath.Join(root, "proc/sys/kernel/osrelease"), []byte(release+"\n"))
	write(t, filepath.Join(root, "sys/kernel/notes"), notes(t, betaID))

	jobs, err := packer.Release(root, release)
	require.NoError(t, err)
	_, err = packer.Run(t.Context(), jobs, packer.Options{Dir: out})
	require.ErrorIs(t, err, packer.ErrOtherBuild)
	require.ErrorContains(t, err, filepath.Join(root, debug, "beta.ko"))
	require.ErrorContains(t, err, "boot/vmlinux-"+release)
	assert.Equal(t, []string{alphaID + pack.Ext}, files(t, out), "the others are made")

	write(t, filepath.Join(root, "proc/sys/kernel/osrelease"), []byte("another\n"))
	jobs, err = packer.Release(root, release)
	require.NoError(t, err)
	_, err = packer.Run(t.Context(), jobs, packer.Options{Dir: out})
	require.Error(t, err)
	read(t, out, coreID) // it is not the running kernel
}

func TestReleaseThatIsNotInstalled(t *testing.T) {
	root := t.TempDir()
	jobs, err := packer.Release(root, release)
	require.ErrorIs(t, err, packer.ErrNoVmlinux)
	require.ErrorContains(t, err, filepath.Join(root, "usr/lib/debug/boot/vmlinux-"+release), "the places are named")
	assert.Empty(t, jobs)
	for _, odd := range []string{"", "..", "../etc", "%s", ".hidden"} {
		_, err = packer.Release(root, odd)
		require.ErrorContains(t, err, "is not a kernel release", odd)
	}

	buildCore(t, filepath.Join(root, "boot/vmlinux-6.13.0"))
	jobs, err = packer.Release(root, "6.13.0")
	require.NoError(t, err)
	_, err = packer.Run(t.Context(), jobs, packer.Options{Dir: t.TempDir()})
	require.ErrorContains(t, err, "of release "+release+", not 6.13.0")
}
