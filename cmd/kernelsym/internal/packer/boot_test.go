// SPDX-License-Identifier: Apache-2.0

package packer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/bootimage"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/regularfile"
	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// bootImage is a compressed ELF file like the ones from elfImage in package kelf's tests, with a list of 22
// functions. imageID is its build id.
const (
	bootImage = "testdata/vmlinuz"
	imageID   = "0102030405060708"
)

func boot(t *testing.T, out string, names ...string) (packer.Result, error) {
	t.Helper()
	var images []packer.BootImage
	for _, name := range names {
		images = append(images, packer.BootImage{Name: name})
	}
	content, err := os.ReadFile(bootImage)
	require.NoError(t, err)
	return packer.Boot(t.Context(), images, iotest.HalfReader(bytes.NewReader(content)), packer.Options{Dir: out})
}

func TestContract_10_4_Boot(t *testing.T) {
	for _, name := range []string{bootImage, "-"} {
		out := filepath.Join(t.TempDir(), "packs")
		result, err := boot(t, out, name)
		require.NoError(t, err, name)
		p := read(t, out, imageID)
		assert.Equal(t, packer.Result{Packs: 1, WithoutLines: 1, Bytes: sizeOf(t, filepath.Join(out, imageID+pack.Ext))}, result)
		assert.Equal(t, &pack.Info{
			BuildID: imageID, Name: "vmlinux", Arch: "amd64", Release: release, Extent: pack.Range{End: 0x1140},
		}, p.Info())
		assert.Equal(t, 22, p.NumSymbols())
		assert.False(t, p.HasLines())
	}
}

func sizeOf(t *testing.T, name string) int64 {
	t.Helper()
	stat, err := os.Stat(name)
	require.NoError(t, err)
	return stat.Size()
}

func TestBootGoesOnAfterAnError(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	text := filepath.Join(dir, "config")
	write(t, text, []byte("CONFIG_KALLSYMS=y\n"))
	elf := filepath.Join(dir, "vmlinux")
	write(t, elf, []byte("\x7fELF"))
	result, err := boot(t, out, dir, text, elf, bootImage, filepath.Join(dir, "nowhere"))
	assert.Equal(t, 1, result.Packs)
	for _, want := range []error{regularfile.ErrOther, bootimage.ErrNotImage, fs.ErrNotExist} {
		require.ErrorIs(t, err, want)
	}
	for _, name := range []string{dir + ": ", text, elf, "nowhere"} {
		require.ErrorContains(t, err, name)
	}
	assert.Equal(t, []string{imageID + pack.Ext}, files(t, out))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = packer.Boot(ctx, []packer.BootImage{{Name: bootImage}}, nil, packer.Options{Dir: out})
	require.ErrorIs(t, err, context.Canceled)
}

func TestBootReadsStandardInput(t *testing.T) {
	broken := errors.New("broken pipe")
	_, err := packer.Boot(t.Context(), []packer.BootImage{{Name: "-"}}, iotest.ErrReader(broken), packer.Options{Dir: t.TempDir()})
	require.ErrorIs(t, err, broken)
	t.Setenv("TMPDIR", "/nowhere")
	_, err = boot(t, t.TempDir(), "-")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestContract_10_4_RunningImage verifies that the image of the running kernel is found where
// distributions install it, and refused if it is that of another build.
func TestContract_10_4_RunningImage(t *testing.T) {
	content, err := os.ReadFile(bootImage)
	require.NoError(t, err)
	for _, place := range []string{"boot/vmlinuz-" + release, "lib/modules/" + release + "/vmlinuz", "usr/lib/modules/" + release + "/vmlinuz"} {
		root, out := t.TempDir(), t.TempDir()
		procfs, sysfs := machine(t, symbolList)
		write(t, filepath.Join(sysfs, "kernel/notes"), notes(t, imageID))
		_, err := packer.RunningImage(root, procfs, sysfs)
		require.ErrorIs(t, err, packer.ErrNoBootImage)
		require.ErrorContains(t, err, filepath.Join(root, place))

		write(t, filepath.Join(root, place), content)
		image, err := packer.RunningImage(root, procfs, sysfs)
		require.NoError(t, err)
		assert.Equal(t, packer.BootImage{Name: filepath.Join(root, place), BuildID: imageID}, image)
		_, err = packer.Boot(t.Context(), []packer.BootImage{image}, nil, packer.Options{Dir: out})
		require.NoError(t, err)

		write(t, filepath.Join(sysfs, "kernel/notes"), notes(t, coreID))
		image, err = packer.RunningImage(root, procfs, sysfs)
		require.NoError(t, err)
		other := t.TempDir()
		_, err = packer.Boot(t.Context(), []packer.BootImage{image}, nil, packer.Options{Dir: other})
		require.ErrorIs(t, err, packer.ErrOtherBuild)
		require.ErrorContains(t, err, filepath.Join(root, place))
		assert.Empty(t, files(t, other))

		write(t, filepath.Join(sysfs, "kernel/notes"), nil)
		_, err = packer.RunningImage(root, procfs, sysfs)
		require.ErrorIs(t, err, buildid.ErrNotFound)
	}
}

func TestContract_10_4_NoList(t *testing.T) {
	core, out := filepath.Join(t.TempDir(), "vmlinux"), t.TempDir()
	buildCore(t, core)
	_, err := boot(t, out, core)
	require.ErrorIs(t, err, kelf.ErrNoList)
	require.ErrorContains(t, err, core+": no list of")
	assert.Empty(t, files(t, out))
}

// distributionImages returns the kernels that `make test-vm` has downloaded.
func distributionImages(t *testing.T) (images []string) {
	t.Helper()
	kerneltest.SameInEachKernel(t)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	for _, place := range []string{"boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"} {
		names, err := filepath.Glob(filepath.Join(cache, "kernelsym-vm", "linux-image-*", place))
		require.NoError(t, err)
		images = append(images, names...)
	}
	if len(images) == 0 {
		t.Skip("no kernels: `make test-vm` downloads some")
	}
	return images
}

// TestBootOfDistributions reads the kernels that `make test-vm` has downloaded, each in a process of
// its own, which may take three times as much memory as the kernel. TestBootPack compares what it reads.
func TestBootOfDistributions(t *testing.T) {
	if image := os.Getenv(imageEnv); image != "" {
		bootHere(t, image)
		return
	}
	for _, image := range distributionImages(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(image))), func(t *testing.T) {
			content, err := os.ReadFile(image)
			require.NoError(t, err)
			kernel, err := bootimage.Unpack(bytes.NewReader(content), int64(len(content)))
			require.NoError(t, err)
			out := t.TempDir()
			printed, peak := bootAlone(t, image, out)
			require.Contains(t, printed, "1 packs, error <nil>")
			packs := kerneltest.PacksIn(t, out)
			require.Len(t, packs, 1)
			for _, p := range packs {
				assert.Contains(t, image, p.Info().Release)
				assert.NotEmpty(t, p.Info().Release)
				assert.Greater(t, p.NumSymbols(), 10_000)
				kerneltest.Figure("boot_peak_bytes %d: %.2f times the image of %d bytes", peak, float64(peak)/float64(len(kernel)), len(kernel))
			}
			checkPeak := func() {
				if !kerneltest.HasRaceDetector() { // which takes memory of its own
					assert.LessOrEqual(t, peak, 3*len(kernel))
				}
			}
			checkPeak()
			if bootimage.IsArm64(content) {
				return // it has no header that could lie about its size
			}

			setup, off, n := int(content[0x1f1]), binary.LittleEndian.Uint32(content[0x248:]), binary.LittleEndian.Uint32(content[0x24c:])
			end := (1+setup)*512 + int(off+n)
			binary.LittleEndian.PutUint32(content[end-4:], bootimage.MaxSize)
			lying := filepath.Join(t.TempDir(), "vmlinuz")
			write(t, lying, content)
			printed, peak = bootAlone(t, lying, out)
			assert.Contains(t, printed, bootimage.ErrDamaged.Error())
			checkPeak()
		})
	}
}

// The environment variables of the process that bootAlone starts.
const imageEnv, outEnv = "KERNELSYM_BOOT_IMAGE", "KERNELSYM_BOOT_DIR"

// bootAlone makes the pack of an image in a process of its own, and returns the most memory, in bytes,
// that the process took.
func bootAlone(t *testing.T, image, out string) (printed string, peak int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBootOfDistributions$", "-test.v")
	cmd.Env = append(os.Environ(), imageEnv+"="+image, outEnv+"="+out)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(output)
	require.NotNil(t, match, "%s", output)
	peak, err = strconv.Atoi(string(match[1]))
	require.NoError(t, err)
	return string(output), peak << 10
}

// bootHere makes the pack of an image in this process, and prints the result and the memory taken.
func bootHere(t *testing.T, image string) {
	t.Helper()
	result, err := packer.Boot(t.Context(), []packer.BootImage{{Name: image}}, nil, packer.Options{Dir: os.Getenv(outEnv)})
	t.Logf("%d packs, error %v", result.Packs, err)
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	t.Logf("%s", status)
}

// TestBootHasTheNamesOfVmlinux compares boot images of distributions with the ELF files in their debug
// packages.
func TestBootHasTheNamesOfVmlinux(t *testing.T) {
	roots := filepath.SplitList(os.Getenv("KERNELSYM_DEBUG_ROOT"))
	if len(roots) == 0 {
		t.Skip("no kernel with debug information: `make test-packs` gets some, and sets KERNELSYM_DEBUG_ROOT")
	}
	for _, root := range roots {
		names, err := filepath.Glob(filepath.Join(root, "usr/lib/debug/boot/vmlinux-*"))
		require.NoError(t, err)
		require.Len(t, names, 1)
		place := strings.TrimPrefix(filepath.Base(names[0]), "vmlinux-")
		image := filepath.Join(root, "boot/vmlinuz-"+place)
		if _, err := os.Stat(image); err != nil {
			image = filepath.Join(root, "usr/lib/modules", place, "vmlinuz") // since Linux 7
		}
		booted, linked := t.TempDir(), t.TempDir()
		_, err = boot(t, booted, image)
		require.NoError(t, err)
		_, err = packer.Run(t.Context(), packer.Files(names), packer.Options{Dir: linked, SymbolsOnly: true})
		require.NoError(t, err)
		want := kerneltest.PacksIn(t, linked)
		for id, p := range kerneltest.PacksIn(t, booted) {
			require.NotNil(t, want[id], "another build")
			info := *want[id].Info()
			info.Text, info.Stext = 0, 0 // a kernel that runs is elsewhere
			assert.Equal(t, info, *p.Info())
			different := 0
			got := symbolsOf(p)
			for i, s := range symbolsOf(want[id]) {
				if i >= len(got) || s != got[i] {
					different++
				}
			}
			assert.Zero(t, different)
			assert.Equal(t, want[id].NumSymbols(), p.NumSymbols())
			kerneltest.Figure("boot_vmlinux_differences %d of %d symbols of %s", different, p.NumSymbols(), place)
		}
	}
}

func symbolsOf(p *pack.Pack) (symbols []pack.Symbol) {
	for s := range p.Symbols() {
		symbols = append(symbols, s)
	}
	return symbols
}
