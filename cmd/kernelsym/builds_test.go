// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// The first line of a stack dump, up to the build id, and build ids as the kernel prints them.
const (
	header       = "CPU: 0 UID: 0 PID: 1 Comm: cat Not tainted 6.12.90 #1"
	kernelInLog  = " " + kernelID + "000000000000000000000000"
	anotherInLog = " " + otherKernelID + "000000000000000000000000"
	frame        = "main_loop+0x4/0x40"
	atOther      = " (other/main.c:99)" // what the other kernel has there
)

// logPacks returns a directory with the packs of two kernels that have the same function, and of two builds of a module.
func logPacks(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	other := pack.NewWriter(pack.Info{BuildID: otherKernelID, Name: "vmlinux", Extent: pack.Range{End: 0x100}})
	addSpin(other, "main_loop", "other/main.c", 99)
	writePack(t, dir, otherKernelID, other)
	for id, line := range map[string]uint32{moduleID: 7, otherModuleID: 8} {
		w := pack.NewWriter(pack.Info{BuildID: id, Name: "xfs", Extent: pack.Range{End: 0x100}})
		addSpin(w, "spin", "fs/xfs/xfs_super.c", line)
		writePack(t, dir, id, w)
	}
	return dir
}

const otherModuleID = "fedcba9876543210fedcba9876543210fedcba98"

// addSpin adds a function of 0x40 bytes that has one line.
func addSpin(w *pack.Writer, name, file string, line uint32) {
	f := w.File(file)
	w.Row(0x10, w.Node(0, w.Function(name, f, 1), 0, 0), f, line)
	w.Row(0x50, 0, 0, 0)
	w.Symbol(symbol(0x10, 0x50, name))
}

// TestAnnotateNeedsTheBuild verifies that a pack is used only for lines that its build certainly wrote.
func TestAnnotateNeedsTheBuild(t *testing.T) {
	dir := logPacks(t)
	const (
		module     = "spin+0x4/0x40 [xfs]"
		oldHeader  = "Nov 26 host kernel: [   12.345678][  T123] CPU: 12 PID: 12345 Comm: a b Kdump: loaded Tainted: G  W 5.14.0 #1"
		newHeader  = "CPU: 0 UID: 4294967295 PID: 0 Comm: swapper/0 Not tainted 6.16.0 #1 PREEMPT(full) "
		noPack     = " aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		isUnknown  = "vmlinux: it gets no names where neither the log nor a flag says which build it is: see --build-id and --this-boot"
		xfsUnknown = "xfs: it gets no names"
		atText     = "ffffffffa7000054"
	)
	for _, tt := range []struct {
		name, args string
		text, want []string // lines; want is nil if they stay as they are
		warning    string
	}{
		{"nothing is known", "", []string{frame, frame}, nil, isUnknown},
		{"stated", "--build-id " + kernelID, []string{frame}, []string{frame + atStart}, ""},
		{"another is stated", "--build-id " + otherKernelID, []string{frame}, []string{frame + atOther}, ""},
		{"header", "",
			[]string{header + kernelInLog, "RIP: 0010:" + frame, "Call Trace:", " <TASK>", " " + frame},
			[]string{header + kernelInLog, "RIP: 0010:" + frame + atStart, "Call Trace:", " <TASK>", " " + frame + atStart}, ""},
		{"header of each dump", "",
			[]string{header + kernelInLog, frame, header + anotherInLog, frame},
			[]string{header + kernelInLog, frame + atStart, header + anotherInLog, frame + atOther}, ""},
		{"forms of the header", "",
			[]string{oldHeader + kernelInLog + " \r", frame, newHeader + anotherInLog, frame},
			[]string{oldHeader + kernelInLog + " \r", frame + atStart, newHeader + anotherInLog, frame + atOther}, ""},
		{"header wins in its dump", "--build-id " + kernelID,
			[]string{"WARNING: at " + frame, header + anotherInLog, frame, "---[ end trace 0 ]---", frame},
			[]string{"WARNING: at " + frame + atStart, header + anotherInLog, frame + atOther, "---[ end trace 0 ]---", frame + atStart}, ""},
		{"no pack", "--build-id " + kernelID, []string{header + noPack, frame, frame}, nil, "vmlinux: no pack of this build:" + noPack},
		{"pack of a module", "", []string{header + " " + moduleID, frame}, nil, ""},
		{"header without an id", "", []string{header + kernelInLog, header, frame}, nil, isUnknown},
		{"header of zeros", "", []string{header + " " + strings.Repeat("0", 40), frame}, nil, isUnknown},
		{"end of a dump", "", []string{header + kernelInLog, "---[ end trace 0 ]---", frame}, nil, isUnknown},
		{"end of a panic", "", []string{header + kernelInLog, "---[ end Kernel panic - not syncing ]---", frame}, nil, isUnknown},
		{"part of another log", "", []string{header + kernelInLog, "Oops#2 Part1", frame}, nil, isUnknown},
		{"begin of a dump", "", []string{header + kernelInLog, "------------[ cut here ]------------", frame}, nil, isUnknown},
		{"another boot", "", []string{header + kernelInLog, "Linux version 6.1.0 (gcc)", frame}, nil, isUnknown},
		{"stack without a header", "",
			[]string{header + kernelInLog, "Call trace:", frame, "task:cat state:D", "Call trace:", frame},
			[]string{header + kernelInLog, "Call trace:", frame + atStart, "task:cat state:D", "Call trace:", frame}, isUnknown},
		{"modules", "",
			[]string{header + kernelInLog, "spin+0x4/0x40 [xfs " + moduleID + "]", "spin+0x4/0x40 [xfs " + otherModuleID + "]", module},
			[]string{
				header + kernelInLog, "spin+0x4/0x40 [xfs " + moduleID + "] (fs/xfs/xfs_super.c:7)",
				"spin+0x4/0x40 [xfs " + otherModuleID + "] (fs/xfs/xfs_super.c:8)", module,
			}, xfsUnknown},
		{"not in the module", "--build-id " + kernelID + "," + moduleID, []string{"spin+0x4/0x40", frame + " [xfs]"}, nil, ""},
		{"id of another module", "", []string{"spin+0x4/0x40 [ext4 " + moduleID + "]"}, nil, ""},
		{"stated module", "--build-id " + kernelID + " --build-id " + moduleID,
			[]string{frame, module}, []string{frame + atStart, module + " (fs/xfs/xfs_super.c:7)"}, ""},
		{"stated module of another kernel", "--build-id " + kernelID + "," + moduleID,
			[]string{header + kernelInLog, module, header + anotherInLog, module},
			[]string{header + kernelInLog, module + " (fs/xfs/xfs_super.c:7)", header + anotherInLog, module}, xfsUnknown},
		{"addresses of another machine", "--text ffffffffa7000000",
			[]string{atText, header + kernelInLog, atText},
			[]string{atText, header + kernelInLog, atText + " main_loop+0x4 init/main.c:11"}, isUnknown},
		{"addresses of two other kernels", "--text ffffffffa7000000",
			[]string{header + kernelInLog, atText, header + anotherInLog, atText},
			[]string{header + kernelInLog, atText + " main_loop+0x4 init/main.c:11", header + anotherInLog, atText}, errOtherKernel.Error()},
		{"addresses of a kernel that is not the stated one", "--text ffffffffa7000000 --build-id " + kernelID,
			[]string{header + anotherInLog, atText, "---[ end Kernel panic - not syncing: Fatal exception ]---", atText},
			[]string{header + anotherInLog, atText, "---[ end Kernel panic - not syncing: Fatal exception ]---", atText + " main_loop+0x4 init/main.c:11"},
			errOtherKernel.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == nil {
				tt.want = tt.text
			}
			out, errs := annotateWithPacks(t, dir, strings.Join(tt.text, "\n"), strings.Fields(tt.args)...)
			assert.Equal(t, strings.Join(tt.want, "\n"), out)
			warnings := regexp.MustCompile(`(?m)^Warning: ((?:vmlinux|xfs|ext4): .*)$`).FindAllStringSubmatch(errs, -1)
			if tt.warning == "" {
				assert.Empty(t, warnings)
			} else if assert.Len(t, warnings, 1, "one sentence") {
				assert.Contains(t, warnings[0][1], tt.warning)
			}
		})
	}
}

// TestAnnotateThisBoot verifies that --this-boot uses the build ids of the running kernel and its loaded
// modules. A module gets none if it is not loaded, or if an earlier line of the log showed another build of
// it.
func TestAnnotateThisBoot(t *testing.T) {
	dir := logPacks(t)
	tree := treeWithID(t)
	notes := filepath.Join(tree[3], "module/xfs/notes/.note.gnu.build-id")
	require.NoError(t, os.MkdirAll(filepath.Dir(notes), 0o755))
	require.NoError(t, os.WriteFile(notes, note(t, moduleID), 0o600))
	text := frame + "\nspin+0x4/0x40 [xfs]\nspin+0x4/0x40 [ext4]\n" + header + anotherInLog + "\n" + frame + "\nspin+0x4/0x40 [xfs]\n"
	out, _, err := execute(t, text, append([]string{"annotate", "--pack", dir, "--this-boot"}, tree...)...)
	require.NoError(t, err)
	assert.Equal(t, frame+atStart+"\nspin+0x4/0x40 [xfs] (fs/xfs/xfs_super.c:7)\nspin+0x4/0x40 [ext4]\n"+
		header+anotherInLog+"\n"+frame+atOther+"\nspin+0x4/0x40 [xfs]\n", out)

	builds, err := runningBuilds(tree[3])
	require.NoError(t, err)
	assert.Equal(t, kernelID, builds("vmlinux"))
	assert.Equal(t, moduleID, builds("xfs"))
	require.NoError(t, os.WriteFile(notes, note(t, otherModuleID), 0o600))
	assert.Empty(t, builds("xfs"))
	require.NoError(t, os.RemoveAll(filepath.Dir(notes)))
	assert.Empty(t, builds("xfs"))
	_, err = runningBuilds(t.TempDir())
	assert.ErrorContains(t, err, "no build id in ")
}

// TestAnnotateLogOfAnotherKernel verifies that addresses get no names of the running kernel if the header of a dump or a
// flag says that another kernel wrote them.
func TestAnnotateLogOfAnotherKernel(t *testing.T) {
	const addr = "ffffffff81000054"
	text := addr + "\n" + header + kernelInLog + "\n" + addr + "\n" + header + anotherInLog + "\n" + addr + "\n"
	out, errs, err := execute(t, text, append([]string{"annotate"}, treeWithID(t)...)...)
	require.NoError(t, err)
	named := addr + " main_loop+0x4\n"
	assert.Equal(t, named+header+kernelInLog+"\n"+named+header+anotherInLog+"\n"+addr+"\n", out)
	assert.Equal(t, 1, strings.Count(errs, errOtherKernel.Error()), errs)

	stated := append([]string{"annotate", "--pack", logPacks(t), "--build-id", otherKernelID}, treeWithID(t)...)
	out, errs, err = execute(t, addr+"\n"+header+kernelInLog+"\n"+addr+"\n", stated...)
	require.NoError(t, err)
	assert.Equal(t, addr+"\n"+header+kernelInLog+"\n"+addr+" main_loop+0x4", strings.Split(out, " init/")[0])
	assert.Equal(t, 1, strings.Count(errs, errOtherKernel.Error()), errs)
}

// TestAnnotateBuildsPerFile verifies that a dump ends with its file.
func TestAnnotateBuildsPerFile(t *testing.T) {
	dir := logPacks(t)
	file := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, []byte(header+kernelInLog+"\n"+frame+"\n"), 0o600))
	out, _ := annotateWithPacks(t, dir, frame+"\n", file, "-")
	assert.Equal(t, header+kernelInLog+"\n"+frame+atStart+"\n"+frame+"\n", out)
}

// TestAnnotateDamagedPack verifies that a damaged pack is reported once, and that other packs are used.
func TestAnnotateDamagedPack(t *testing.T) {
	dir := logPacks(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, moduleID+pack.Ext), []byte("damaged"), 0o600))
	module := "spin+0x4/0x40 [xfs " + moduleID + "]\n"
	out, errs := annotateWithPacks(t, dir, module+module+frame+"\n", "--build-id", kernelID)
	assert.Equal(t, module+module+frame+atStart+"\n", out)
	assert.Equal(t, 1, strings.Count(errs, pack.ErrFormat.Error()), errs)
}

// TestAnnotateBuildFlags verifies the errors of the flags that state builds.
func TestAnnotateBuildFlags(t *testing.T) {
	dir := logPacks(t)
	for _, tt := range []struct{ args, message string }{
		{"--this-boot", "--build-id and --this-boot need --pack"},
		{"--build-id " + kernelID, "--build-id and --this-boot need --pack"},
		{"--this-boot --build-id " + kernelID + " --pack " + dir, "--this-boot excludes"},
		{"--this-boot --text ffffffffa7000000 --pack " + dir, "--this-boot excludes"},
		{"--build-id 0123 --pack " + dir, `--build-id is "0123": it takes 16 to 64 hexadecimal digits`},
		{"--build-id ../" + kernelID + " --pack " + dir, "it takes 16 to 64 hexadecimal digits"},
	} {
		assert.Contains(t, wrong(t, append([]string{"annotate"}, strings.Fields(tt.args)...)...), tt.message)
	}
	for _, tt := range []struct{ ids, message string }{
		{kernelID + "," + otherKernelID, "--build-id has two builds of vmlinux"},
		{"aaaaaaaaaaaaaaaa", "no pack of this build: aaaaaaaaaaaaaaaa; give all digits of the build ID, as in the name of its pack\n"},
		{otherModuleID[:39] + "0", "no pack of this build: " + otherModuleID[:39] + "0\n"},
	} {
		_, errs, err := execute(t, "", "annotate", "--pack", dir, "--build-id", tt.ids)
		require.Error(t, err)
		assert.Contains(t, errs, tt.message)
	}
}
